"""Equal requests at the same time are sent once, and all who made them get the one answer."""

import copy
import threading
from collections.abc import Callable, Hashable

from precompute.clock import Clock
from precompute.errors import QueryError, TimedOut
from query.answers import Forwarded

_WORTH_ASKING_S = 1.0
"""Whoever has this much time left after another's has run out asks again."""


class _Flight:
    """A request under way: one thread flies it, the others wait for `landed`."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.answer: Forwarded | None = None
        self.error: QueryError | None = None

    def ran_out(self) -> bool:
        """Whether it ended because the time of the one who flew it was over, here or by the upstream's clock."""
        if self.answer is not None:
            return self.answer.status == 503 and b'"timeout"' in self.answer.body[:1000]
        return isinstance(self.error, TimedOut)

    def outcome(self) -> Forwarded | None:
        """The answer; None where the one who flew it was interrupted. Raises its error."""
        if self.error is not None:
            # its own traceback in each thread
            raise copy.copy(self.error) from self.error
        return self.answer


class Flights:
    """The requests under way; any thread may call it. It keeps nothing of those that have ended."""

    def __init__(self, clock: Clock, count_shared: Callable[[], None]) -> None:
        """count_shared is called for each request that was not sent."""
        self._clock, self._count_shared = clock, count_shared
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, _Flight] = {}

    def join(self, key: Hashable, deadline_s: float, send: Callable[[], Forwarded]) -> Forwarded:
        """The answer to the request `key`: of `send`, or of another thread's, if that is under way.

        Raises the error of the one `send`, a QueryError, in all; and TimeoutError at the caller's own deadline.
        """
        while True:
            with self._lock:
                flight = self._under_way.get(key)
                if flight is None:
                    mine = self._under_way[key] = _Flight()
            if flight is None:
                return self._fly(key, mine, send)
            if not flight.landed.wait(max(0.0, deadline_s - self._clock.monotonic_s())):
                raise TimeoutError
            if flight.ran_out() and deadline_s - self._clock.monotonic_s() > _WORTH_ASKING_S:
                continue
            self._count_shared()
            answer = flight.outcome()
            if answer is not None:
                return answer

    def _fly(self, key: Hashable, flight: _Flight, send: Callable[[], Forwarded]) -> Forwarded:
        try:
            flight.answer = send()
            return flight.answer
        except QueryError as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                del self._under_way[key]
            flight.landed.set()
