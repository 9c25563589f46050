"""Facts about the upstream: asked for when they are first needed, and again now and then."""

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from precompute.clock import Clock
from precompute.errors import QueryError, TimedOut

_ASK_MS = 3000
"""Longest wait for a fact."""
_KNOWN_S, _UNKNOWN_S = 60.0, 5.0
"""How long a fact counts, and how long it is not asked for again after there was no answer."""

Fact = TypeVar("Fact")


class Remembered(Generic[Fact]):
    """One fact; any thread may ask for it. While there is no answer, the one before counts."""

    def __init__(self, ask: Callable[[Mapping[str, str], int], Fact], clock: Clock) -> None:
        """ask(headers, timeout_ms) raises a QueryError where there is no answer."""
        self._ask, self._clock = ask, clock
        self._lock = threading.Lock()
        self._fact: Fact | None = None
        self._failure: QueryError = TimedOut("the upstream has not answered yet")
        self._until_s = clock.monotonic_s()

    def fact(self, headers: Mapping[str, str], left_ms: int) -> Fact:
        """Waits at most `left_ms`. Raises the QueryError of the last time where there never was an answer."""
        if self._lock.acquire(timeout=left_ms / 1000):
            try:
                self._refresh(headers, min(left_ms, _ASK_MS))
            finally:
                self._lock.release()
        if self._fact is None:
            raise self._failure
        return self._fact

    def doubt(self) -> None:
        """After a failure, another server may be there soon."""
        self._until_s = min(self._until_s, self._clock.monotonic_s() + _UNKNOWN_S)

    def _refresh(self, headers: Mapping[str, str], timeout_ms: int) -> None:
        if self._clock.monotonic_s() < self._until_s:
            return
        try:
            self._fact, valid_s = self._ask(headers, timeout_ms), _KNOWN_S
        except QueryError as failure:
            self._failure, valid_s = failure, _UNKNOWN_S
        self._until_s = self._clock.monotonic_s() + valid_s
