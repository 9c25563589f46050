"""Samples as columns: what travels from a decoder to the log and the head."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]

STALE_BITS = 0x7FF0000000000002
"""Bits of the staleness marker, a NaN of its own (prometheus/model/value)."""

STALE = float(np.uint64(STALE_BITS).view(np.float64))


@dataclass(frozen=True)
class Block:
    """Accepted or offered samples of one write.

    Three columns of equal length n, in the order of the wire. A series may appear in
    several rows, in any order of time.
    """

    sid: I32
    """Series, as ids of the SeriesTable that interned them; int32[n]."""
    t_ms: I64
    """Timestamps, milliseconds since the epoch; int64[n]."""
    value: F64
    """Values; staleness markers keep their bits; float64[n]."""

    def __len__(self) -> int:
        return len(self.sid)

    def take(self, keep: Bool | I64) -> "Block":
        """The rows where `keep` (bool[n]) is true, or those at these places."""
        return Block(self.sid[keep], self.t_ms[keep], self.value[keep])


def is_stale(values: F64) -> Bool:
    """Which values are staleness markers, told from other NaNs by their bits."""
    return np.asarray(values.view(np.uint64) == np.uint64(STALE_BITS))
