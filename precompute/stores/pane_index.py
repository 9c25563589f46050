"""What a store knows of its panes without reading their summaries."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from precompute.errors import BlobError
from precompute.samples import I64, U8
from precompute.summaries import FAILED, Summary

PANE_BYTES = 3 * 8 + 1
CRC_BYTES = 4


@dataclass(frozen=True, slots=True)
class PaneIndex:
    """Columns over panes, as in Summary: int64[P] and flags uint8[P]."""

    ends_ms: I64
    seen: I64
    plan: I64
    flags: U8

    def failed(self) -> I64:
        """Ends of the panes that are marked FAILED."""
        return np.asarray(self.ends_ms[(self.flags & FAILED) != 0])


def index_of(summary: Summary) -> PaneIndex:
    return PaneIndex(summary.ends_ms, summary.seen, summary.plan, summary.flags)


def index_between(indexes: Sequence[PaneIndex], after_ms: int, until_ms: int) -> PaneIndex:
    """Panes of all indexes with end in `(after_ms, until_ms]`, ascending."""
    if not indexes:
        none = np.zeros(0, np.int64)
        return PaneIndex(none, none, none, none.astype(np.uint8))
    ends = np.concatenate([i.ends_ms for i in indexes])
    order = np.argsort(ends, kind="stable")
    kept = order[(ends[order] > after_ms) & (ends[order] <= until_ms)]
    rest = [np.concatenate([getattr(i, name) for i in indexes])[kept] for name in ("seen", "plan", "flags")]
    return PaneIndex(ends[kept], *rest)


def index_to_bytes(index: PaneIndex) -> bytes:
    """crc32 u32 · ends · seen · plan (int64 each) · flags (uint8); little-endian."""
    columns = (index.ends_ms, index.seen, index.plan)
    body = b"".join(column.astype("<i8").tobytes() for column in columns) + index.flags.tobytes()
    return zlib.crc32(body).to_bytes(CRC_BYTES, "little") + body


def index_bytes(panes: int) -> int:
    """Length of an index of so many panes."""
    return CRC_BYTES + panes * PANE_BYTES


def index_from_bytes(data: bytes) -> PaneIndex:
    """What `index_to_bytes` was given. Raises BlobError for anything else."""
    body = data[CRC_BYTES:]
    panes, odd = divmod(len(body), PANE_BYTES)
    if odd or not panes or zlib.crc32(body) != int.from_bytes(data[:CRC_BYTES], "little"):
        raise BlobError("an index of panes is damaged")
    columns = np.frombuffer(body[: panes * 24], "<i8").reshape(3, panes)
    return PaneIndex(columns[0], columns[1], columns[2], np.frombuffer(body[panes * 24 :], np.uint8))
