"""Panes watched all the time through all query engines: how long the newest waits from its seal until a summary serves
it, and what every answer claims that came from summaries.
"""

import http.client
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from precompute.clock import Clock
from precompute.labels import Labels
from precompute.panes import last_end
from tests.chaos.setup import COUNTED, LATENESS_MS, WIDTH_MS
from tests.e2e.talking import points, seconds, tier
from tests.running import Program

EVERY_S = 0.2
GIVEN_UP_MS = 30_000
"""A pane that looks at a hole is never served from summaries."""


LATELY_PANES = 150
"""So far back panes are asked for at random."""


@dataclass(frozen=True)
class Claim:
    """An answer from summaries: when it was asked for, ms, and how many samples it counts by group."""

    end_ms: int
    asked_ms: int
    counted: dict[Labels, float]


@dataclass
class Freshness:
    """What was seen so far."""

    engines: Callable[[], Sequence[Program]]
    clock: Clock
    draw: random.Random
    waits_ms: list[int] = field(default_factory=list)
    given_up: int = 0
    claims: list[Claim] = field(default_factory=list)

    def watch(self, stop: threading.Event) -> None:
        """The newest sealed pane until it is served, then older ones until there is a newer."""
        while not stop.is_set():
            end_ms = last_end(self.clock.now_ms() - LATENESS_MS, WIDTH_MS)
            self._await(end_ms, stop)
            while self.clock.now_ms() < end_ms + WIDTH_MS + LATENESS_MS and not stop.wait(EVERY_S):
                self._is_served(end_ms - WIDTH_MS * self.draw.randrange(LATELY_PANES))

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
        """By any engine: readers go to one that is there. What they claim is noted."""
        before = len(self.claims)
        for engine in self.engines():
            asked_ms = self.clock.now_ms()
            counted = _from_summary(engine, end_ms)
            if counted is not None:
                self.claims.append(Claim(end_ms, asked_ms, counted))
        return len(self.claims) > before

    def said(self) -> str:
        longest = max(self.waits_ms, default=0) / 1000
        return (
            f"longest time until a pane was served: {longest:.1f} s, of {len(self.waits_ms)} panes watched; "
            f"{self.given_up} were not served from summaries within {GIVEN_UP_MS // 1000} s; "
            f"{len(self.claims)} answers from summaries meanwhile"
        )


def _from_summary(engine: Program, t_ms: int) -> dict[Labels, float] | None:
    """Samples by group, if a summary says so."""
    try:
        answer = engine.get("/api/v1/query", query=COUNTED, time=seconds(t_ms))
    except (OSError, http.client.HTTPException):
        return None
    if answer.status != 200 or tier(answer) != "summary":
        return None
    return {labels: value for (labels, _), value in points(answer).items()}


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
