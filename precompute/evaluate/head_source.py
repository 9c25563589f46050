"""Selectors read from the head, in tiles of series, on as many threads as are allowed."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np

from precompute.errors import TableReplaced
from precompute.evaluate.expr import Selector
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Matrix, Vector
from precompute.head import Head
from precompute.kernels import selectors as kernel
from precompute.labels import SeriesTable
from precompute.samples import F64, I32, I64, Bool
from precompute.selection import Index, Selection

_TILE_CELLS = 1 << 20
"""Series × steps that one visit to the head may cover, so that a writer waits milliseconds."""

_TILE_SERIES = 2048
"""Series whose samples one visit may copy."""

_MOST_AT_ONCE = 1 << 14
"""Series of one visit, however few the steps: each may have many samples in a range."""

_Fill = Callable[[SeriesTable, I32, I64, F64, Bool], None]
"""Fills rows of a matrix: the series, and the row of each."""


@dataclass(frozen=True)
class Look:
    """What a function reads of a selector: at times int64[s], ascending, with parameters float64[2, s]."""

    function: str
    range_ms: int
    times: I64 = field(compare=False)
    parameters: F64 = field(compare=False)
    content: tuple[bytes, bytes] = field(init=False, repr=False)
    """Of the arrays, so that equal looks are equal."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", (self.times.tobytes(), self.parameters.tobytes()))


class HeadSource:
    """Reads instant and range selectors over columns of times; see Source in context.py."""

    def __init__(self, head: Head, index: Index, threads: int = 1, pool: Executor | None = None) -> None:
        self.head, self.index = head, index
        self._threads, self._pool = threads, pool

    def spread(self, work: Callable[[int, int], None], count: int) -> None:
        """`work(begin, end)` for stretches of range(count), one a thread."""
        each = max(1, -(-count // self._threads))
        self._each(work, [(begin, min(begin + each, count)) for begin in range(0, count, each)])

    def series(self, selector: Selector, budget: Budget) -> int:
        """How many series the selector has, now."""
        return len(self.index.select(selector.matchers, *self.head.known(), budget.check_time))

    def instant(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        """The newest value within the lookback at each time; rows without any are left out."""

        def fill(table: SeriesTable, sids: I32, rows: I64, out: F64, present: Bool) -> None:
            with self.head.reading(table) as columns:
                kernel.instant_values(columns, sids, rows, times, lookback_ms, out, present)

        return self._read(selector, times, fill, budget)

    def sample_times(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        """The times of the samples that `instant` finds, in seconds."""

        def fill(table: SeriesTable, sids: I32, rows: I64, out: F64, present: Bool) -> None:
            with self.head.reading(table) as columns:
                kernel.instant_times(columns, sids, rows, times, lookback_ms, out, present)

        return self._read(selector, times, fill, budget)

    def range(
        self, function: str, selector: Selector, range_ms: int, times: I64, parameters: F64, budget: Budget
    ) -> Vector:
        """A range function at each time; `parameters` float64[2, s] as in `range_values`."""
        return self.ranges(selector, (Look(function, range_ms, times, parameters),), budget)[0]

    def ranges(self, selector: Selector, looks: Sequence[Look], budget: Budget) -> list[Vector]:
        """Range functions of one selector, in one visit to each of its series; one vector for each look."""
        ends = np.cumsum([len(look.times) for look in looks])
        table = np.array([(kernel.RANGE_FUNCTIONS.index(look.function), look.range_ms, 0, 0) for look in looks])
        table[:, 2], table[:, 3] = [0, *ends[:-1]], ends
        times = np.concatenate([look.times for look in looks])
        parameters = np.concatenate([look.parameters for look in looks], axis=1)

        def fill(series: SeriesTable, sids: I32, rows: I64, out: F64, present: Bool) -> None:
            with self.head.reading(series) as columns:
                kernel.range_values(columns, sids, rows, table, times, parameters, out, present)

        together = self._read(selector, times, fill, budget)
        return [together] if len(looks) == 1 else [_steps(together, *stretch) for stretch in table[:, 2:].tolist()]

    def samples(self, selector: Selector, range_ms: int, time_ms: int, budget: Budget) -> Matrix:
        """The samples in `(time - range, time]` of every series that has one, staleness markers left out."""
        while True:
            try:
                return self._samples_once(selector, time_ms - range_ms, time_ms, budget)
            except TableReplaced:
                budget.check_time()

    def _samples_once(self, selector: Selector, after_ms: int, until_ms: int, budget: Budget) -> Matrix:
        selection = self.index.select(selector.matchers, *self.head.known(), budget.check_time)
        tiles = [
            self._samples_of(selection, first, after_ms, until_ms, budget)
            for first in range(0, max(1, len(selection)), _TILE_SERIES)
        ]
        counts, t_ms, values = (np.concatenate(parts) for parts in zip(*tiles, strict=True))
        held = np.flatnonzero(counts)
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts[held])))
        return Matrix(selection.frame.take(held), starts, t_ms, values)

    def _samples_of(
        self, selection: Selection, first: int, after_ms: int, until_ms: int, budget: Budget
    ) -> tuple[I64, I64, F64]:
        """How many samples each series of a tile has, and their times and values."""
        budget.check_time()
        sids = selection.sids[first : first + _TILE_SERIES]
        with self.head.reading(selection.table) as columns:
            counts = kernel.count_samples(columns, sids, after_ms, until_ms)
            budget.samples(int(counts.sum()))
            starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
            return counts, *kernel.copy_samples(columns, sids, after_ms, until_ms, starts)

    def _read(self, selector: Selector, times: I64, fill: _Fill, budget: Budget) -> Vector:
        while True:
            try:
                return self._read_once(selector, times, fill, budget)
            except TableReplaced:
                budget.check_time()

    def _read_once(self, selector: Selector, times: I64, fill: _Fill, budget: Budget) -> Vector:
        selection = self.index.select(selector.matchers, *self.head.known(), budget.check_time)
        budget.cells(len(selection), len(times))
        out = np.zeros((len(selection), len(times)))
        present = np.zeros(out.shape, np.bool_)
        self._fill_tiles(selection, out, present, fill, budget)
        budget.samples(int(np.count_nonzero(present)))
        return Vector(selection.frame, out, present, selection.shard).seen()

    def _fill_tiles(self, selection: Selection, out: F64, present: Bool, fill: _Fill, budget: Budget) -> None:
        def tile(first: int, last: int) -> None:
            budget.check_time()
            rows = selection.stored[first:last]
            fill(selection.table, selection.sids[rows], rows, out, present)

        rows = max(1, _TILE_CELLS // max(1, out.shape[1]))
        rows = min(rows, _MOST_AT_ONCE, max(256, -(-len(out) // self._threads)))
        tiles = [(first, min(first + rows, len(out))) for first in range(0, len(out), rows)]
        self._each(tile, tiles)

    def _each(self, work: Callable[[int, int], None], stretches: list[tuple[int, int]]) -> None:
        if self._pool is None or len(stretches) < 2:
            for begin, end in stretches:
                work(begin, end)
        else:
            for done in [self._pool.submit(work, *bounds) for bounds in stretches]:
                done.result()


def _steps(vector: Vector, begin: int, end: int) -> Vector:
    """A vector at some of its steps, as if it had been read at those alone."""
    values, present = vector.values[:, begin:end], vector.present[:, begin:end]
    return replace(vector, values=np.ascontiguousarray(values), present=np.ascontiguousarray(present)).seen()
