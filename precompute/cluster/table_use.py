"""When an ingest process lets go of the series that it has learned: it holds no samples by which to judge them."""

import numpy as np

from precompute.labels import SeriesTable
from precompute.samples import I32, I64, Bool

_FEWEST_UNUSED = 10_000


class TableUse:
    """Which series of a table were sent lately, and which metrics were noted lately; lately is `every_s` or less."""

    def __init__(self, table: SeriesTable, max_bytes: int, every_s: float, now_s: float) -> None:
        self._table, self._max_bytes, self._every_s = table, max_bytes, every_s
        self._judged_s = now_s
        self._used = np.zeros(1024, np.bool_)
        self._metrics = np.zeros(1024, np.bool_)

    def note(self, sids: I32) -> None:
        """These series were sent."""
        self._used = _at_least(self._used, len(self._table))
        self._used[sids] = True

    def is_outgrown(self, now_s: float) -> bool:
        """Whether half of the series, and enough of them, were not sent for a while, or their labels are too many."""
        if self._table.size_bytes() >= self._max_bytes:
            return True
        if now_s - self._judged_s < self._every_s:
            return False
        series = len(self._table)
        unused = series - int(self._used[:series].sum())
        self._judged_s = now_s
        self._used[:] = False
        self._metrics[:] = False  # they are noted again: the server may have lost them
        return unused >= _FEWEST_UNUSED and 2 * unused >= series

    def new_metrics(self, metrics: I32, symbols: int) -> Bool:
        """Which of these, as symbols, were not noted lately; bool[n]."""
        self._metrics = _at_least(self._metrics, symbols)
        return ~self._metrics[metrics]

    def note_metrics(self, metrics: I32 | I64) -> None:
        self._metrics[metrics] = True


def _at_least(flags: Bool, size: int) -> Bool:
    """The flags with room for `size`."""
    if len(flags) >= size:
        return flags
    grown = np.zeros(2 * size, np.bool_)
    grown[: len(flags)] = flags
    return grown
