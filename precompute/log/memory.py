"""The sample log in memory: the reference for every other one, and for tests. A restart loses it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from precompute.errors import Rejected
from precompute.labels import SeriesTable
from precompute.log.base import Entry, Hole
from precompute.log.replay import intern_runs
from precompute.samples import Block

_NO_SAMPLE_MS = -(1 << 63)


@dataclass(frozen=True)
class _Kept:
    """An entry, the table its series ids belong to, and the time of its newest sample."""

    entry: Entry
    table: SeriesTable
    until_ms: int
    bytes: int


class MemorySampleLog:
    """See `precompute.log.base` for the contract; each entry is a segment of its own."""

    def __init__(self, table: SeriesTable, max_bytes: int) -> None:
        self._table, self._max_bytes = table, max_bytes
        self._kept: list[_Kept] = []
        self._bytes = 0

    def append(self, block: Block) -> int:
        size = block.sid.nbytes + block.t_ms.nbytes + block.value.nbytes
        if self._bytes + size > self._max_bytes:
            raise Rejected("the sample log is full: log.max_bytes is reached")
        own = Block(block.sid.copy(), block.t_ms.copy(), block.value.copy())
        return self._keep(Entry(self.last_id() + 1, own), int(own.t_ms.max()), size)

    def append_hole(self, hole: Hole) -> int:
        return self._keep(Entry(self.last_id() + 1, None, hole), _NO_SAMPLE_MS, 16 + len(hole.metric))

    def _keep(self, entry: Entry, until_ms: int, size: int) -> int:
        self._kept.append(_Kept(entry, self._table, until_ms, size))
        self._bytes += size
        return entry.id

    def read(self, after: int, table: SeriesTable) -> Iterator[Entry]:
        return (_for_table(kept, table) for kept in self._kept.copy() if kept.entry.id > after)

    def check_room(self) -> None:
        if self._bytes >= self._max_bytes:
            raise Rejected("the sample log is full: log.max_bytes is reached")

    def last_id(self) -> int:
        return self._kept[-1].entry.id if self._kept else 0

    def first_id(self, before_ms: int) -> int:
        return next((kept.entry.id for kept in self._kept if kept.until_ms > before_ms), self.last_id())

    def trim(self, before_ms: int) -> None:
        first = next((i for i, kept in enumerate(self._kept) if kept.until_ms > before_ms), len(self._kept))
        dropped = min(first, len(self._kept) - 1)
        if dropped > 0:
            self._bytes -= sum(kept.bytes for kept in self._kept[:dropped])
            del self._kept[:dropped]

    def rotate(self, table: SeriesTable) -> None:
        self._table = table

    def size_bytes(self) -> int:
        return self._bytes

    def oldest_ms(self) -> int | None:
        times = [int(kept.entry.block.t_ms.min()) for kept in self._kept if kept.entry.block is not None]
        return min(times, default=None)

    def sync(self) -> None:
        """Nothing survives a power cut here."""

    def close(self) -> None:
        """Nothing to release."""


def _for_table(kept: _Kept, table: SeriesTable) -> Entry:
    """The entry with series ids of `table`."""
    block = kept.entry.block
    if block is None or table is kept.table:
        return kept.entry
    used, at = np.unique(block.sid, return_inverse=True)
    sids = intern_runs(table, *kept.table.canonical(used))
    return Entry(kept.entry.id, Block(sids[at], block.t_ms, block.value))
