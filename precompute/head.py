"""The head: the recent raw samples of some shards, in memory, series by series.

One writer at a time, any number of readers. A writer waits for the readers that are inside a kernel, so
readers stay inside for one tile of series at a time (`reading`).
"""

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from precompute.errors import Rejected, TableReplaced
from precompute.kernels import head as kernel
from precompute.labels import METRIC_NAME, SeriesTable
from precompute.samples import I32, Block

_SAMPLE_BYTES = 12
_CHUNK_BYTES = 28
_SERIES_BYTES = 20
_SMALL_PAGES_BYTES = 1 << 24
"""The beginning of a column that stays in small pages, so that a small head stays small."""

_SERIES_COLUMNS = (("tail", -1), ("first", -1), ("last_t", 0), ("held", 0))
_SPARE_SAMPLES = 1 << 27
"""Arena slots beyond the limit, so that the block that passes it always fits; address space, not memory."""


class Head:
    """Samples of the series of `table`, bounded by `max_bytes` (labels included)."""

    def __init__(self, table: SeriesTable, max_bytes: int) -> None:
        self.table, self.max_bytes = table, max_bytes
        self._lock = ReadWriteLock()
        self._series = 0
        self._columns = _no_samples(max_bytes)
        self.cleared = 0
        """How often all samples were let go of: what was read before and after that is not of one head."""

    def clear(self) -> None:
        """Let go of all samples; the table stays, and its series keep their places: readers know their ids."""
        with self._lock.writing():
            self.cleared += 1
            size, columns = len(self._columns.tail), _no_samples(self.max_bytes)
            empty = {name: _grown(getattr(columns, name), size, fill) for name, fill in _SERIES_COLUMNS}
            self._columns = columns._replace(**empty)

    def append(self, block: Block) -> None:
        """Add samples of known series; the same (series, time) twice keeps the winner by value.

        Raises Rejected, and adds none, where the arena could end before the block: the kernels check no bounds.
        """
        with self._lock.writing():
            self._check_slots(len(block))
            self._grow(len(self.table))
            kernel.append(self._columns, block.sid, block.t_ms, block.value)

    def trim(self, before_ms: int) -> None:
        """Let go of samples with t <= before_ms, as far as whole chunks of them can be freed."""
        with self._lock.writing():
            kernel.trim(self._columns, self._series, before_ms)

    @contextmanager
    def reading(self, table: SeriesTable) -> Iterator[kernel.HeadColumns]:
        """The columns, unchanging while inside, for ids of `table`. Raises TableReplaced if it is not ours any more.

        Series beyond the columns have no samples yet.
        """
        with self._lock.reading():
            if table is not self.table:
                raise TableReplaced("the series table was compacted")
            yield self._columns

    def replace_table(self, table: SeriesTable, moved: I32) -> None:
        """Continue with another table; moved int32[series]: new ids by old ones, -1 for series without samples."""
        with self._lock.writing():
            alive = np.flatnonzero(moved >= 0)
            size = max(1024, len(table))
            placed = {}
            for name, fill in _SERIES_COLUMNS:
                placed[name] = np.full(size, fill, getattr(self._columns, name).dtype)
                placed[name][moved[alive]] = getattr(self._columns, name)[alive]
            self._columns = self._columns._replace(**placed)
            self.table, self._series = table, len(table)

    def known(self) -> tuple[SeriesTable, int]:
        """The table, and how many of its series have a place in the columns, as of one moment."""
        with self._lock.reading():
            return self.table, self._series

    def series_count(self) -> int:
        """Series with a place in the columns; ids from there on have no samples yet."""
        return self._series

    def holding(self, sids: I32) -> npt.NDArray[np.bool_]:
        """Which of these series hold a sample; bool[n]."""
        with self._lock.reading():
            columns = self._columns
            known = sids < self._series
            held = np.zeros(len(sids), np.bool_)
            held[known] = columns.held[sids[known]] > 0
            return held

    def oldest_ms(self, metric: str) -> int | None:
        """Time of the oldest sample of a metric; None where none is held."""
        with self._lock.reading():
            sids = self.table.posting(METRIC_NAME, metric)
            sids = sids[sids < self._series]
            held = len(sids) and self._columns.held[sids].any()
            return int(kernel.oldest(self._columns, sids)) if held else None

    def extent_ms(self) -> tuple[int, int] | None:
        """Times of the oldest and the newest sample that are held; None where there is none."""
        with self._lock.reading():
            sids = np.flatnonzero(self._columns.held[: self._series]).astype(np.int32)
            if not len(sids):
                return None
            return int(kernel.oldest(self._columns, sids)), int(self._columns.last_t[sids].max())

    def chunks(self) -> int:
        """Chunks in use."""
        return int(self._columns.counts[kernel.CHUNKS_USED])

    def samples(self) -> int:
        """Samples held."""
        return int(self._columns.counts[kernel.SAMPLES])

    def size_bytes(self) -> int:
        """Memory in use: samples with the slack of their chunks, chunk and series columns, labels."""
        counts = self._columns.counts
        chunks = int(counts[kernel.SLOTS]) * _SAMPLE_BYTES + int(counts[kernel.CHUNKS]) * _CHUNK_BYTES
        return chunks + len(self._columns.tail) * _SERIES_BYTES + self.table.size_bytes()

    def check_room(self, rows: int = 0) -> None:
        """Raises Rejected when chunks in use and labels pass `max_bytes`, or the arena could end within `rows` more."""
        counts = self._columns.counts
        used = int(counts[kernel.SLOTS_USED]) * _SAMPLE_BYTES + int(counts[kernel.CHUNKS_USED]) * _CHUNK_BYTES
        used += self._series * _SERIES_BYTES + self.table.size_bytes()
        if used >= self.max_bytes:
            raise Rejected(f"the head holds {used} bytes; head.max_bytes is {self.max_bytes}", retry_after_s=30)
        if counts[kernel.SLOTS] > len(self._columns.dt) - _SPARE_SAMPLES // 2:
            raise Rejected("the head's memory is free in chunks of other sizes only: raise head.max_bytes", 30)
        self._check_slots(rows)

    def _check_slots(self, rows: int) -> None:
        """Raises Rejected unless each of so many samples could begin a chunk of the largest size."""
        if int(self._columns.counts[kernel.SLOTS]) + kernel.LARGEST * rows > len(self._columns.dt):
            raise Rejected(f"the head's memory has no room for {rows} more samples: raise head.max_bytes", 30)

    def _grow(self, series: int) -> None:
        if series > len(self._columns.tail):
            size = max(series, 2 * len(self._columns.tail), 1024)
            grown = {
                name: _grown(getattr(self._columns, name), size, fill)
                for name, fill in _SERIES_COLUMNS
            }
            self._columns = self._columns._replace(**grown)
        self._series = max(self._series, series)


def _no_samples(max_bytes: int) -> kernel.HeadColumns:
    slots = max_bytes // _SAMPLE_BYTES + _SPARE_SAMPLES
    chunks = slots // kernel.SMALLEST
    return kernel.HeadColumns(
        tail=np.empty(0, np.int32), first=np.empty(0, np.int32), last_t=np.empty(0, np.int64),
        held=np.empty(0, np.int32),
        off=_untouched(chunks, np.int64), cap=_untouched(chunks, np.int16), used=_untouched(chunks, np.int16),
        prev=_untouched(chunks, np.int32), next=_untouched(chunks, np.int32), base=_untouched(chunks, np.int64),
        dt=_untouched(slots, np.int32), val=_untouched(slots, np.float64),
        counts=np.zeros(5, np.int64), free=np.full(4, -1, np.int32),
    )  # fmt: skip


def _grown(column: npt.NDArray[np.generic], size: int, fill: int) -> npt.NDArray[np.generic]:
    grown = np.full(size, fill, column.dtype)
    grown[: len(column)] = column
    return grown


def _untouched(length: int, dtype: type) -> npt.NDArray[np.generic]:
    """A column whose memory is taken page by page as it is written, never beforehand."""
    no_reserve = 0x4000 if hasattr(mmap, "MAP_ANONYMOUS") else 0
    size = length * np.dtype(dtype).itemsize
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    if hasattr(mmap, "MADV_HUGEPAGE") and size > _SMALL_PAGES_BYTES:
        # series lie far apart: with small pages most reads of a large head would first look for their page
        pages.madvise(mmap.MADV_HUGEPAGE, _SMALL_PAGES_BYTES)
    return np.frombuffer(pages, dtype)


class ReadWriteLock:
    """Many readers or one writer; a waiting writer keeps new readers out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers, self._writer, self._waiting = 0, False, 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._changed:
            while self._writer or self._waiting:
                self._changed.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            while self._writer or self._readers:
                self._changed.wait()
            self._waiting -= 1
            self._writer = True
        try:
            yield
        finally:
            with self._changed:
                self._writer = False
                self._changed.notify_all()
