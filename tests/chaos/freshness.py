"""How long a pane waits from its seal until a summary serves it, watched all the time through all query engines."""

import http.client
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from precompute.clock import Clock
from precompute.panes import last_end
from tests.chaos.setup import LATENESS_MS, WIDTH_MS
from tests.e2e.talking import seconds, tier
from tests.running import Answer, Program

EVERY_S = 0.2
GIVEN_UP_MS = 30_000
"""A pane that looks at a hole is never served from summaries."""


@dataclass
class Freshness:
    """What was seen so far."""

    query: str
    engines: Callable[[], Sequence[Program]]
    clock: Clock
    waits_ms: list[int] = field(default_factory=list)
    given_up: int = 0

    def watch(self, stop: threading.Event) -> None:
        """The newest sealed pane until it is served, then the newest again."""
        while not stop.is_set():
            end_ms = last_end(self.clock.now_ms() - LATENESS_MS, WIDTH_MS)
            self._await(end_ms, stop)
            stop.wait(max(0, end_ms + WIDTH_MS + LATENESS_MS - self.clock.now_ms()) / 1000)

    def _await(self, end_ms: int, stop: threading.Event) -> None:
        sealed_ms = end_ms + LATENESS_MS
        while not self._is_served(end_ms):
            if self.clock.now_ms() - sealed_ms > GIVEN_UP_MS:
                self.given_up += 1
                return
            if stop.wait(EVERY_S):
                return
        self.waits_ms.append(self.clock.now_ms() - sealed_ms)

    def _is_served(self, end_ms: int) -> bool:
        """By any engine: readers go to one that is there."""
        return any(_asked(engine, self.query, end_ms) for engine in self.engines())

    def said(self) -> str:
        longest = max(self.waits_ms, default=0) / 1000
        return (
            f"longest time until a pane was served: {longest:.1f} s, of {len(self.waits_ms)} panes watched; "
            f"{self.given_up} were not served from summaries within {GIVEN_UP_MS // 1000} s"
        )


def _asked(engine: Program, query: str, t_ms: int) -> bool:
    try:
        answer: Answer = engine.get("/api/v1/query", query=query, time=seconds(t_ms))
        return answer.status == 200 and tier(answer) == "summary"
    except (OSError, http.client.HTTPException):
        return False


@contextmanager
def watching(freshness: Freshness) -> Iterator[None]:
    """At work until the end of the block."""
    stop = threading.Event()
    thread = threading.Thread(target=freshness.watch, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
