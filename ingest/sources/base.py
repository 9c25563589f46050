"""The contract of sources that fetch or make samples, in contrast to views, which are pushed to.

A source is run by a thread of its own. `run` returns only after `stop`; it calls `write` from any number of
its threads, one scrape at a time each, with columns of its own making. `write` may block while the log is
busy, and raises Rejected when nothing was taken: the source then lets these samples go, counts them, and goes
on; it never queues them. A source reads time from its Clock; it waits between scrapes by `Pace`.

`stop` does not block; it may come before `run`, and twice. What is under way is given up within seconds.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from ingest.writer import Outcome, SeriesColumns
from precompute.clock import Clock

Write = Callable[[SeriesColumns], Outcome]


class Source(Protocol):
    """See the module's text for what the caller may assume."""

    def run(self, write: Write) -> None:
        """Produce samples until stopped."""

    def stop(self) -> None:
        """Make `run` return."""


class Pace:
    """Due times on the grid `offset + k * interval`; a time that was missed is not made up for.

    # interval 10, offset 3:   3    13    23    33
    #                          x     x----------x      the scrape of 13 took until 25: 23 is left out
    """

    def __init__(self, interval_ms: int, offset_ms: int, clock: Clock) -> None:
        self._interval_ms, self._offset_ms, self._clock = interval_ms, offset_ms % interval_ms, clock

    def next_due_ms(self, now_ms: int) -> int:
        """The first due time after `now_ms`."""
        passed = (now_ms - self._offset_ms) // self._interval_ms
        return (passed + 1) * self._interval_ms + self._offset_ms

    def beats(self, stopped: threading.Event) -> Iterator[int]:
        """Waits for one due time after another and yields it, until `stopped` is set.

        A clock that is set back does not make a due time come twice.
        """
        due_ms = self.next_due_ms(self._clock.now_ms())
        while not stopped.wait(max(0, due_ms - self._clock.now_ms()) / 1000):
            yield due_ms
            due_ms = max(self.next_due_ms(self._clock.now_ms()), due_ms + self._interval_ms)
