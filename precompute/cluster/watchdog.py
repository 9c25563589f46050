"""Looks after a worker that nobody kicks.

    no kick for 2 periods     it ticks what it holds, and stores in its turn: scheduler or broker may be away
    no message for 2 periods  it sends itself one each period. Four that the broker took and that did not come back,
                              while nothing runs: the consumer is connected and consumes nothing, and the process ends;
                              its supervisor starts it anew. While the broker takes none, all is well here
    a task of 40 periods      a tick or storing is stuck, if they are ten minutes: the process ends

Messages are counted, not timed: a process that was stopped for an hour is not deaf.
"""

import logging
import threading
from collections.abc import Callable

from precompute.cluster.kicks import Kicks
from precompute.cluster.server import ServerDown, ServerFull

logger = logging.getLogger(__name__)

UNKICKED_PERIODS, STUCK_PERIODS, UNANSWERED = 2, 40, 4
_STUCK_S = 600.0
"""With short windows, a log that is read from its beginning may take more than forty of them."""
_KNOCK_S = 2.0
"""The shortest time in which a message must come back."""
_EVERY_S = 1.0


class Watchdog:
    """See the module's text. Threads that beat, look, store and keep leases; none waits for another's work."""

    def __init__(self, kicks: Kicks, knock: Callable[[], bool], end: Callable[[str], None]) -> None:
        """knock: send this worker a message, and whether the broker took it. end: end the process for this reason."""
        self._kicks, self._knock, self._end = kicks, knock, end
        self._period_s = kicks.period_ms / 1000
        self._stopped = threading.Event()
        self._down = False
        self._knocked_s: float | None = None
        self._unanswered = 0
        self._threads = [
            threading.Thread(target=self._each_second, args=(act,), name=name, daemon=True)
            for act, name in (
                (self.beat, "asap-beat"), (self.look, "asap-watchdog"), (self.store, "asap-store"),
                (kicks.workers.keep, "asap-keep"),
            )
        ]  # fmt: skip

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns at once; a tick that was begun goes on."""
        self._stopped.set()

    def beat(self) -> None:
        """Say that the worker lives; while that cannot be said, one line."""
        try:
            self._kicks.beat()
            self._down = False
        except (ServerDown, ServerFull) as error:
            if not self._down:
                logger.warning("%s; this worker gets no shards until it can", error)
            self._down = True

    def look(self) -> None:
        """Act on what is the matter, if anything is."""
        if self._kicks.longest_s() > max(_STUCK_S, STUCK_PERIODS * self._period_s):
            self._end(f"a task has been running for {self._kicks.longest_s():.0f} s")
        elif self._kicks.unkicked_s() > UNKICKED_PERIODS * self._period_s:
            self._kicks.tick_held()
        self._listen()

    def store(self) -> None:
        """Store for the want of somebody who asks for it."""
        if self._kicks.unasked_s() > UNKICKED_PERIODS * self._period_s:
            try:
                self._kicks.store_unasked()
            except (ServerDown, ServerFull) as error:
                logger.warning("%s; nothing is stored", error)

    def _listen(self) -> None:
        now_s = self._kicks.clock.monotonic_s()
        if self._kicks.is_busy() or self._kicks.silent_s() <= UNKICKED_PERIODS * self._period_s:
            self._unanswered, self._knocked_s = 0, None
        elif self._knocked_s is None or now_s - self._knocked_s >= max(_KNOCK_S, self._period_s):
            if self._unanswered >= UNANSWERED:
                self._end(f"{UNANSWERED} messages for this worker were taken, and none has come")
            self._knocked_s = now_s
            self._unanswered = self._unanswered + 1 if self._knock() else 0

    def _each_second(self, act: Callable[[], None]) -> None:
        while not self._stopped.wait(_EVERY_S):
            try:
                act()
            except Exception:  # whatever it is, a worker without its watchdog would be worse off
                logger.exception("this worker's watchdog goes on after an error")
