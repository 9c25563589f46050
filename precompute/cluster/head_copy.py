"""A query engine's head: the recent samples of all shards, read from their logs.

It is trimmed by its own retention, and by its memory: where it is full it reaches less far back, and says so by
`base_ms`. What is read twice changes nothing, since the same series and time count once.
"""

import logging
import threading

import numpy as np

from precompute.clock import Clock
from precompute.cluster.entries import EntryReader, entry_times
from precompute.compaction import compact, worth_compacting
from precompute.errors import Rejected
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.samples import I64, Block
from precompute.touched import Touched

logger = logging.getLogger(__name__)

_LINGER_MS = 60_000
"""So long after its retention a sample stays, for queries that have just found it held."""
_NOTHING_HELD_MS = 1 << 62
_STEPS = 32
"""In how many steps a full head lets go of nearly all it holds."""


class HeadCopy:
    """See the module's text. Any thread may call it; a Holder (compaction.py)."""

    def __init__(
        self, table: SeriesTable, max_bytes: int, window_ms: int, retention_ms: int, shards: int, clock: Clock
    ) -> None:  # fmt: skip
        """retention_ms: 0 holds no samples at all; then entries are read for their times alone."""
        self.head, self.touched = Head(table, max_bytes), Touched(window_ms)
        self.lock = self.intern_lock = threading.RLock()
        self.applied = 0
        self._retention_ms, self._clock = retention_ms, clock
        self._readers = [EntryReader(table) for _ in range(shards)]
        self._trimmed_ms, self._whole = 0, False

    @property
    def base_ms(self) -> int:
        """Samples after this time are held, as far as the logs have them."""
        return self._trimmed_ms if self._whole else _NOTHING_HELD_MS

    def complete(self) -> None:
        """All logs have been read to their ends."""
        self._whole = True

    def clear(self) -> None:
        """Hold nothing; what is held again counts as other samples, until `complete` none as held."""
        with self.lock:
            self._whole = False
            self.head.clear()
            self.applied += 1
            self.touched.renew(self.applied)
            self._readers = [EntryReader(self.head.table) for _ in self._readers]

    def add(self, shard: int, data: bytes) -> I64:
        """Take an entry of a shard's log; the times of its samples. Raises BadEntry."""
        if not self._retention_ms:
            return entry_times(data)
        with self.lock:
            block = self._readers[shard].block(data)
            self._take(block)
            return block.t_ms

    def forget_segments(self, shard: int, before: int) -> None:
        """Entries of segments before this one are not read any more."""
        with self.lock:
            self._readers[shard].forget(before)

    def trim(self) -> None:
        """Let go of samples past the retention, and of series without any."""
        before_ms, extent = self._clock.now_ms() - self._retention_ms - _LINGER_MS, self.head.extent_ms()
        if extent is not None and extent[0] <= before_ms:
            self._let_go(before_ms)
        if worth_compacting(self.head):
            compact(self)

    def rotate(self, table: SeriesTable) -> None:
        """Entries are read into this table from now on."""
        for reader in self._readers:
            reader.move(table)

    def _take(self, block: Block) -> None:
        self._make_room(block)
        recent = block.t_ms > self._trimmed_ms
        kept = block if recent.all() else block.take(recent)
        if len(kept):
            self.head.append(kept)
            self.applied += 1
            self.touched.note(kept.t_ms, self.applied)

    def _let_go(self, before_ms: int) -> None:
        with self.lock:
            self._trimmed_ms = max(self._trimmed_ms, before_ms)
            self.head.trim(before_ms)
            self.touched.forget(before_ms)

    def _make_room(self, block: Block) -> None:
        """Reach less far back while the head is full; at worst the block is not held either."""
        for step in range(_STEPS):
            try:
                self.head.check_room(len(block))
                return
            except Rejected as full:
                if step == 0:
                    logger.warning("the head reaches less far back than head.retention: %s", full)
            extent = self.head.extent_ms()
            if extent is None:
                break
            oldest_ms = max(extent[0], self._trimmed_ms)
            self._let_go(oldest_ms + max(1000, (extent[1] - oldest_ms) // 8))
        self._let_go(int(np.max(block.t_ms)))
