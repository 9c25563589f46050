"""What the other query engines of a cluster are asked counts here too: whichever of them plans, plans for all.

Each tells the others what it was asked: the query, its steps, how often. The others count that as if they had been
asked themselves, under the aggregations in force there. Nothing waits for it, and it may get lost: what matters is
asked again. A flood of different queries is told in part.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass
from itertools import islice
from threading import Lock
from typing import Protocol

import numpy as np
import orjson

from precompute.errors import QueryError
from query.answers import Told
from query.plan import Plan
from query.tiers.summary import Steps
from query.tracker import LONGEST_TEXT, Tracker

_MOST_WAITING, _MOST_TOLD = 1000, 100
"""Different queries that wait to be told, and that are told at a time."""


class Board(Protocol):
    """Where query engines tell each other; no method raises."""

    def tell(self, said: bytes) -> None:
        """To all others that listen; it may get lost."""

    def news(self) -> list[bytes]:
        """What others have told since the last call; at the first call nothing."""


@dataclass(frozen=True)
class _Asked:
    """Queries that differ in their times alone, which are the last one's. step_ms: 0 for one time."""

    text: str
    lookback_ms: int
    step_ms: int
    start_ms: int
    end_ms: int
    count: int

    @property
    def steps(self) -> Steps:
        times = np.arange(self.start_ms, self.end_ms + 1, self.step_ms or 1, dtype=np.int64)
        return Steps(times, self.start_ms, self.end_ms, self.step_ms)


class Elsewhere:
    """`note` is called by any thread, `exchange` by one, about once a second."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._waiting: dict[tuple[str, int, int], _Asked] = {}
        self._lock = Lock()

    def note(self, told: Told) -> None:
        """A query was answered here; one that no summary could serve is nothing to plan for."""
        if told.plan is None or not told.plan.needs or len(told.text) > LONGEST_TEXT:
            return
        steps, lookback_ms = told.steps, told.plan.needs[0].lookback_ms
        key = told.text, lookback_ms, steps.step_ms
        with self._lock:
            known = self._waiting.get(key)
            if known is not None or len(self._waiting) < _MOST_WAITING:
                count = 1 if known is None else known.count + 1
                self._waiting[key] = _Asked(*key, steps.start_ms, steps.end_ms, count)

    def exchange(self, planned: Callable[[str, Steps, int], Plan | str], tracker: Tracker) -> None:
        """Tell the others what was asked here, and count what was asked there. planned: as QueryEngine.planned."""
        with self._lock:
            told = [self._waiting.pop(key) for key in list(islice(self._waiting, _MOST_TOLD))]
        if told:
            self._board.tell(orjson.dumps([astuple(one) for one in told]))
        for said in self._board.news():
            for fields in orjson.loads(said):
                asked = _Asked(*fields)
                with suppress(QueryError):  # it was planned there: that process is of another version
                    plan = planned(asked.text, asked.steps, asked.lookback_ms)
                    if not isinstance(plan, str):
                        tracker.count(asked.text, plan, asked.steps, asked.count)
