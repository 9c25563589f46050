"""Blocks as a shard's log entries: numbered by their writer, each series defined once a segment.

    begin       after a restart: another nonce, seq 1, nothing defined
    prepare     rows as an entry
    wrote       the entry is in the log
    refused     it is not, and nothing of it is under way: its number is free

A number stands for one entry for ever. What was sent and not answered may arrive later, even after its repetition was
refused, and would be taken for whatever has its number by then. So only `wrote` and `refused` settle an entry: where
neither was said of the last one, for whatever reason, `prepare` begins anew.
"""

import secrets
from dataclasses import dataclass

import numpy as np

from precompute.cluster.entries import pack_entry
from precompute.cluster.replies import Samples
from precompute.labels import SeriesTable
from precompute.log.codec import NOTHING_DEFINED, Definitions, encode_samples, rows_by_base
from precompute.samples import I32, I64, Block

MAX_ROWS = 1 << 15
"""Rows of one entry: half a MB of samples where nothing can be compressed, and as many labels at most."""

_EARLIEST_MS = -(1 << 63)


@dataclass(frozen=True)
class Prepared:
    """An entry ready to be written, and the series that it defines."""

    samples: Samples
    fresh: I32


class LocalIds:
    """The numbers under which writers know the series of a table; -1 where they have not defined it."""

    def __init__(self, table: SeriesTable) -> None:
        self.table = table
        self._of = np.full(max(1024, 2 * len(table)), -1, np.int32)

    def of(self, sids: I32) -> I32:
        """int32[n]."""
        if len(self._of) < len(self.table):
            grown = np.full(2 * len(self.table), -1, np.int32)
            grown[: len(self._of)] = self._of
            self._of = grown
        return self._of[sids]

    def define(self, sids: I32, first: int) -> None:
        """These series are `first`, `first + 1`, …"""
        self._of[sids] = np.arange(first, first + len(sids), dtype=np.int32)

    def forget(self, sids: I32) -> None:
        self._of[sids] = -1


class ShardWriter:
    """One shard's writer; not safe to use from several threads. `ids` may be shared by writers of other shards."""

    def __init__(self, ids: LocalIds, segment: int = 0) -> None:
        self._ids = ids
        self._mine: list[I32] = []
        self.begin(segment)

    def begin(self, segment: int) -> None:
        """Under another nonce, in this segment."""
        for sids in self._mine:
            self._ids.forget(sids)
        self._mine, self._defined = [], 0
        self._nonce, self._seq, self.segment = secrets.randbits(64), 1, segment
        self._unsettled = False

    def prepare(self, block: Block) -> Prepared:
        """The rows as the next entry; as many as `entries_of` puts into one."""
        if self._unsettled:
            self.begin(self.segment)
        self._unsettled = True
        local = self._ids.of(block.sid)
        fresh = np.unique(block.sid[local < 0])
        if len(fresh):
            local = np.where(local < 0, self._defined + np.searchsorted(fresh, block.sid).astype(np.int32), local)
        defined = NOTHING_DEFINED
        if len(fresh):
            defined = Definitions(self._defined, *self._ids.table.canonical(fresh))
        first_ms, last_ms = int(block.t_ms.min()), int(block.t_ms.max())
        body = encode_samples(local.view(np.uint32), block.t_ms, block.value, first_ms, defined)
        data = pack_entry(self._nonce, self.segment, body)
        span = (max(first_ms - 1, _EARLIEST_MS), last_ms)
        return Prepared(Samples(f"{self._nonce:x}", self._seq, self.segment, *span, data), fresh)

    def wrote(self, prepared: Prepared) -> None:
        """What was prepared last is in the log."""
        self._ids.define(prepared.fresh, self._defined)
        self._mine.append(prepared.fresh)
        self._defined += len(prepared.fresh)
        self._seq += 1
        self._unsettled = False

    def refused(self) -> None:
        """What was prepared last was sent once, and the answer was that it is not in the log."""
        self._unsettled = False


def entries_of(t_ms: I64) -> list[I64]:
    """Rows with these times cut into the rows of entries, in order."""
    rows = np.arange(len(t_ms))
    return [rows[cut] for _, cut in rows_by_base(t_ms, MAX_ROWS)]
