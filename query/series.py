"""Which series, label names and label values there are: the catalogue behind data source pickers."""

from collections.abc import Sequence

import numpy as np

from precompute.errors import TableReplaced
from precompute.evaluate.expr import Matcher
from precompute.head import Head
from precompute.kernels.series import mark_within
from precompute.labels import Labels, SeriesTable
from precompute.metadata import Family, MetricMetadata
from precompute.samples import I32
from precompute.selection import Index

MatcherSet = tuple[Matcher, ...]

ALWAYS = (-(1 << 62), 1 << 62)
"""The interval of a request that names none; ms."""


class SeriesQueries:
    """Answers over the series that have a sample in `[start_ms, end_ms]`.

    Of several matcher sets a series must fulfil one; of no set, none is asked of it. All answers are sorted.
    """

    def __init__(self, index: Index, head: Head, metadata: MetricMetadata) -> None:
        self._index, self._head, self._metadata = index, head, metadata

    def names(self, sets: Sequence[MatcherSet], start_ms: int, end_ms: int) -> list[str]:
        """Label names of those series."""
        table, sids = self._within(sets, start_ms, end_ms)
        return table.names_of(sids)

    def values(self, name: str, sets: Sequence[MatcherSet], start_ms: int, end_ms: int) -> list[str]:
        """Values of one label of those series."""
        table, sids = self._within(sets, start_ms, end_ms)
        codes = np.unique(table.columns(sids, (name,)))
        return sorted(table.symbols.texts(codes[codes > 0].tolist()))

    def series(self, sets: Sequence[MatcherSet], start_ms: int, end_ms: int) -> list[Labels]:
        """Label sets of those series."""
        table, sids = self._within(sets, start_ms, end_ms)
        return sorted(map(table.labels_of, sids.tolist()))

    def metadata(self, metric: str = "") -> dict[str, list[Family]]:
        """Descriptions by metric family, of one family where it is named."""
        known = self._metadata.all()
        return {name: known[name] for name in known if name == metric or not metric}

    def _within(self, sets: Sequence[MatcherSet], start_ms: int, end_ms: int) -> tuple[SeriesTable, I32]:
        while True:
            table, series = self._head.known()
            sids = np.arange(series, dtype=np.int32)
            if sets:
                sids = np.unique(np.concatenate([self._index.select(one, table, series).sids for one in sets]))
            kept = np.zeros(len(sids), np.bool_)
            try:
                with self._head.reading(table) as columns:
                    mark_within(columns, sids, start_ms, end_ms, kept)
            except TableReplaced:
                continue
            return table, sids[kept]
