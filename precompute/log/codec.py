"""Bodies of log records as bytes, little-endian.

A body of samples:

    u32 rows, u32 definitions, u32 first local id, u32 bytes of definitions, i64 base_ms
    u32[definitions]   length of each definition
    u8[]               definitions: canonical label bytes, one after another
    u32[rows]          local series ids, each minus the one before it (modulo 2^32)
    i32[rows]          t_ms - base_ms
    u8[8][rows]        values, byte plane by byte plane

Local ids number the series of one segment in the order of their definitions, from 0. Differences and
byte planes cost less than what they save zstd, in time as in size. A body of a hole is the metric's name.
"""

import struct
from dataclasses import dataclass

import cramjam
import numpy as np
import numpy.typing as npt

from precompute.samples import F64, I64, U8

U32 = npt.NDArray[np.uint32]

COMPRESS_FROM = 1024
"""Bodies shorter than this are stored as they are."""

_HEAD = struct.Struct("<IIIIq")
_RAW_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Definitions:
    """Series defined by one record: local ids `first`, `first + 1`, … and their labels."""

    first: int
    raw: U8
    """Canonical label bytes, one run after another."""
    offsets: I64
    """Where each run begins, and the end; int64[n + 1]."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


NOTHING_DEFINED = Definitions(0, np.empty(0, np.uint8), np.zeros(1, np.int64))


def encode_samples(local: U32, t_ms: I64, value: F64, base_ms: int, defined: Definitions) -> bytes:
    """The body of a block whose series have the segment's ids `local`; times lie in `[base_ms, base_ms + 2^31)`."""
    planes = np.ascontiguousarray(value, "<f8").view(np.uint8).reshape(-1, 8).T
    head = _HEAD.pack(len(local), len(defined), defined.first, len(defined.raw), base_ms)
    columns = (
        np.diff(defined.offsets).astype("<u4"),
        defined.raw,
        np.diff(local, prepend=np.uint32(0)).astype("<u4", copy=False),
        (t_ms - base_ms).astype("<i4"),
        planes,
    )
    return head + b"".join([column.tobytes() for column in columns])


def decode_samples(body: U8) -> tuple[Definitions, U32, I64, F64]:
    """Definitions, local ids, times and values of a body; raises ValueError where it is none."""
    if len(body) < _HEAD.size:
        raise ValueError("body too short")
    rows, count, first, raw_bytes, base_ms = _HEAD.unpack(body[: _HEAD.size].tobytes())
    sizes = (4 * count, raw_bytes, 4 * rows, 4 * rows, 8 * rows)
    if _HEAD.size + sum(sizes) != len(body):
        raise ValueError("body of the wrong length")
    lengths, raw, local, t_ms, planes = np.split(body, np.cumsum((_HEAD.size, *sizes)))[1:6]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths.view("<u4"), out=offsets[1:])
    if offsets[-1] != raw_bytes:
        raise ValueError("definitions of the wrong length")
    return (
        Definitions(first, raw, offsets),
        np.cumsum(local.view("<u4"), dtype=np.uint32),
        t_ms.view("<i4") + np.int64(base_ms),
        np.ascontiguousarray(planes.reshape(8, rows).T).view("<f8").reshape(rows),
    )


def compress(body: bytes) -> tuple[bytes, bool]:
    """The body as it is stored, and whether that is compressed: zstd level 1 where it helps."""
    if len(body) >= COMPRESS_FROM:
        small = _RAW_LENGTH.pack(len(body)) + bytes(cramjam.zstd.compress(body, level=1))
        if len(small) < len(body):
            return small, True
    return body, False


def decompress(stored: memoryview) -> U8:
    """The body of what `compress` stored; raises ValueError for anything else."""
    if len(stored) < _RAW_LENGTH.size:
        raise ValueError("compressed body too short")
    (length,) = _RAW_LENGTH.unpack(stored[: _RAW_LENGTH.size])
    body = np.empty(length, np.uint8)
    try:
        written = cramjam.zstd.decompress_into(stored[_RAW_LENGTH.size :], body.data)
    except cramjam.DecompressionError as error:
        raise ValueError(f"bad zstd body: {error}") from error
    if written != length:
        raise ValueError("compressed body of the wrong length")
    return body


def rows_by_base(t_ms: I64, max_rows: int) -> list[tuple[int, slice | I64]]:
    """How to cut rows into bodies: (base_ms, rows) of each, in order, none with more than `max_rows`.

    Nearly always one slice; several where the times are 2^31 ms (25 days) or more apart.
    """
    first, last = int(t_ms.min()), int(t_ms.max())
    if last - first < 1 << 31:
        return [(first, slice(at, at + max_rows)) for at in range(0, len(t_ms), max_rows)]
    spans = t_ms >> 31
    cut: list[tuple[int, slice | I64]] = []
    for span in np.unique(spans):
        rows = np.flatnonzero(spans == span)
        cut += [(int(span) << 31, rows[at : at + max_rows]) for at in range(0, len(rows), max_rows)]
    return cut
