"""Which series, label names and label values there are: the catalogue behind data source pickers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from precompute.errors import LimitExceeded, TableReplaced
from precompute.evaluate.expr import Matcher
from precompute.evaluate.values import Frame
from precompute.head import Head
from precompute.kernels.selectors import instant_times, instant_values
from precompute.kernels.series import mark_within
from precompute.labels import Labels, SeriesTable
from precompute.metadata import Descriptions, Family
from precompute.samples import F64, I32, I64, Bool
from precompute.selection import Check, Index

MatcherSet = tuple[Matcher, ...]

_SERIES_AT_ONCE = 1 << 14
"""Series that are read in one visit to the head, so that a writer waits milliseconds."""

ALWAYS = (-(1 << 62), 1 << 62)
"""The interval of a request that names none; ms."""


@dataclass(frozen=True)
class Newest:
    """The newest sample of each of n series: times int64[n] in ms, values float64[n]."""

    frame: Frame
    t_ms: I64
    values: F64

    def take(self, rows: I64 | Bool) -> "Newest":
        return Newest(self.frame.take(rows), self.t_ms[rows], self.values[rows])


class SeriesQueries:
    """Answers over the series that have a sample in `[start_ms, end_ms]`.

    Of several matcher sets a series must fulfil one; of no set, none is asked of it. All answers are sorted.
    `check` is called again and again while they are made; it raises where that takes too long.
    """

    def __init__(self, index: Index, head: Head, metadata: Descriptions) -> None:
        self._index, self._head, self._metadata = index, head, metadata

    def names(
        self, sets: Sequence[MatcherSet], start_ms: int, end_ms: int, check: Check = lambda: None
    ) -> list[str]:
        """Label names of those series."""
        table, sids = self._within(sets, start_ms, end_ms, check)
        return table.names_of(sids)

    def values(
        self, name: str, sets: Sequence[MatcherSet], start_ms: int, end_ms: int, check: Check = lambda: None
    ) -> list[str]:
        """Values of one label of those series."""
        table, sids = self._within(sets, start_ms, end_ms, check)
        codes = np.unique(table.columns(sids, (name,)))
        return sorted(table.symbols.texts(codes[codes > 0].tolist()))

    def series(
        self, sets: Sequence[MatcherSet], start_ms: int, end_ms: int, check: Check = lambda: None
    ) -> list[Labels]:
        """Label sets of those series."""
        table, sids = self._within(sets, start_ms, end_ms, check)
        found: list[Labels] = []
        for first in range(0, len(sids), _SERIES_AT_ONCE):
            check()
            found += map(table.labels_of, sids[first : first + _SERIES_AT_ONCE].tolist())
        return sorted(found)

    def newest(
        self, sets: Sequence[MatcherSet], time_ms: int, lookback_ms: int, most: int, check: Check = lambda: None
    ) -> Newest:
        """The newest sample in `(time - lookback, time]` of every series of the sets that has one.

        In no order; series that ended with a staleness marker have none. Raises LimitExceeded beyond `most` series.
        """
        while True:
            table, series = self._head.known()
            sids = self._selected(sets, table, series, check)
            if len(sids) > most:
                raise LimitExceeded(f"{len(sids)} series are selected; query_engine.max_samples is {most}")
            try:
                return self._newest(table, sids, time_ms, lookback_ms, check)
            except TableReplaced:
                continue

    def _newest(self, table: SeriesTable, sids: I32, time_ms: int, lookback_ms: int, check: Check) -> Newest:
        shape = (len(sids), 1)
        values, times_s, present = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)
        at = np.array([time_ms], np.int64)
        for first in range(0, len(sids), _SERIES_AT_ONCE):
            check()
            rows = np.arange(first, min(first + _SERIES_AT_ONCE, len(sids)))
            with self._head.reading(table) as columns:
                instant_values(columns, sids[rows], rows, at, lookback_ms, values, present)
                instant_times(columns, sids[rows], rows, at, lookback_ms, times_s, present)
        names = tuple(table.names_of(sids))
        frame = Frame(names, table.columns(sids, names), table.symbols)
        whole = Newest(frame, np.rint(times_s[:, 0] * 1000).astype(np.int64), values[:, 0])
        return whole.take(present[:, 0])

    def metadata(self, metric: str = "") -> dict[str, list[Family]]:
        """Descriptions by metric family, of one family where it is named."""
        known = self._metadata.all()
        return {name: known[name] for name in known if name == metric or not metric}

    def _within(
        self, sets: Sequence[MatcherSet], start_ms: int, end_ms: int, check: Check
    ) -> tuple[SeriesTable, I32]:
        while True:
            table, series = self._head.known()
            sids = self._selected(sets, table, series, check) if sets else np.arange(series, dtype=np.int32)
            kept = np.zeros(len(sids), np.bool_)
            try:
                with self._head.reading(table) as columns:
                    mark_within(columns, sids, start_ms, end_ms, kept)
            except TableReplaced:
                continue
            return table, sids[kept]

    def _selected(self, sets: Sequence[MatcherSet], table: SeriesTable, series: int, check: Check) -> I32:
        found = np.zeros(series, np.bool_)
        for one in dict.fromkeys(sets):
            check()
            sids = self._index.select(one, table, series, check).sids
            found[sids[sids < series]] = True
        return np.flatnonzero(found).astype(np.int32)
