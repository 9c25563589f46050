"""What a query engine knows of packs that it has not read: a few numbers of each, for there may be a great many."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from precompute.samples import I64


class Columns(NamedTuple):
    """Packs, int64[k] each: row, ends of the first and the last pane, and from one end to the next; 0 where that
    differs."""

    rows: I64
    first_ms: I64
    last_ms: I64
    step_ms: I64


@dataclass(frozen=True)
class KnownPacks:
    """An aggregation's packs, in order of their last ends; of those whose panes are not a run, all ends by row."""

    columns: Columns = field(default_factory=lambda: Columns(*np.zeros((4, 0), np.int64)))
    odd: Mapping[int, I64] = field(default_factory=dict)

    @property
    def rows(self) -> I64:
        return self.columns.rows

    def rows_between(self, after_ms: int, until_ms: int) -> list[int]:
        """Rows of the packs whose interval meets `(after_ms, until_ms]`."""
        found: list[int] = self.rows[self._between(after_ms, until_ms)].tolist()
        return found

    def ends(self, after_ms: int, until_ms: int) -> I64:
        """Ends in `(after_ms, until_ms]` of their panes, ascending."""
        rows, first_ms, last_ms, step_ms = self._taken(self._between(after_ms, until_ms))
        runs = step_ms > 0
        odd = [self.odd[row] for row in rows[~runs].tolist()]
        ends = np.sort(np.concatenate([_spread(first_ms[runs], last_ms[runs], step_ms[runs]), *odd]))
        return np.asarray(ends[(ends > after_ms) & (ends <= until_ms)])

    def without(self, gone: I64) -> "KnownPacks":
        """The same but for these rows."""
        kept = np.flatnonzero(~np.isin(self.rows, gone))
        if len(kept) == len(self.rows):
            return self
        left = set(self.rows[kept].tolist())
        return KnownPacks(self._taken(kept), {row: ends for row, ends in self.odd.items() if row in left})

    def joined(self, new: Columns, odd: Mapping[int, I64]) -> "KnownPacks":
        """With these packs too."""
        both = Columns(*(np.concatenate(pair) for pair in zip(self.columns, new, strict=True)))
        order = np.argsort(both.last_ms, kind="stable")
        return KnownPacks(Columns(*(column[order] for column in both)), {**self.odd, **odd})

    def _between(self, after_ms: int, until_ms: int) -> I64:
        start = int(np.searchsorted(self.columns.last_ms, after_ms, "right"))
        return np.asarray(start + np.flatnonzero(self.columns.first_ms[start:] <= until_ms))

    def _taken(self, places: I64) -> Columns:
        return Columns(*(column[places] for column in self.columns))


def step_of(ends_ms: I64) -> int:
    """From one end to the next, where that is the same all along; else 0. Of a single one any will do."""
    steps = np.unique(np.diff(ends_ms))
    return 1 if not len(steps) else int(steps[0]) if len(steps) == 1 else 0


def _spread(first_ms: I64, last_ms: I64, step_ms: I64) -> I64:
    """All ends of the runs, one run after the other."""
    counts = (last_ms - first_ms) // step_ms + 1
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(first_ms, counts) + place * np.repeat(step_ms, counts))
