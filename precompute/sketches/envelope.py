"""Named columns as bytes, with header, version and checksum, and back: what summaries and States are written as.

    magic · version u16 · 0 u16 · crc32 u32 · raw length u64 · packed length u64 · packed body
    body (zstd):  header length u32 · header (JSON; its "columns" list name, dtype and length) · columns

Little-endian throughout; header and columns are padded to multiples of 8 bytes. The checksum covers every byte
but its own, so damage is found before anything is decompressed or allocated.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cramjam
import numpy as np
import orjson

from precompute.errors import BlobError
from precompute.samples import U8
from precompute.sketches.base import Array

MAX_BODY_BYTES = 1 << 30
PREFIX = struct.Struct("<4sHHIQQ")
ZSTD_LEVEL = 1
DTYPES = frozenset({"<f8", "<i8", "<u8", "<i4", "<u4", "|u1"})


@dataclass(frozen=True)
class Envelope:
    """One kind of bytes."""

    magic: bytes
    version: int
    what: str
    """What they hold, with its article, for messages."""

    def wrap(self, header: Mapping[str, Any], columns: Mapping[str, Array]) -> bytes:
        """The same header and columns give the same bytes. Raises BlobError for what is too large to be read again."""
        layout = [[name, a.dtype.str, len(a)] for name, a in columns.items()]
        top = orjson.dumps({**header, "columns": layout})
        parts = [_padded(struct.pack("<I", len(top)) + top), *(_padded(a.tobytes()) for a in columns.values())]
        body = b"".join(parts)
        if len(body) > MAX_BODY_BYTES:
            raise BlobError(f"{self.what} of {len(body)} bytes is too large to be kept as one")
        packed = bytes(cramjam.zstd.compress(body, level=ZSTD_LEVEL))
        return self.prefix(len(body), packed) + packed

    def unwrap(self, blob: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
        """Header and columns; the columns are views of one array. Raises BlobError for what `wrap` did not make."""
        body = self._unpacked(blob)
        data = body.tobytes()
        length = int.from_bytes(data[:4], "little")
        try:
            header = orjson.loads(data[4 : 4 + length])
            layout = [(str(name), str(dtype), int(n)) for name, dtype, n in header["columns"]]
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as e:
            raise BlobError(f"the header of {self.what} is not whole") from e
        at, columns = 4 + length, {}
        for name, dtype, n in layout:
            at += -at % 8
            columns[name] = self._column(body, at, dtype, n)
            at += columns[name].nbytes
        if at + -at % 8 != len(body):
            raise BlobError(f"{self.what}'s columns do not fill it")
        return header, columns

    def prefix(self, raw: int, packed: bytes, crc: int | None = None) -> bytes:
        """What stands before a packed body of `raw` bytes."""
        if crc is None:
            crc = zlib.crc32(packed, zlib.crc32(self.prefix(raw, packed, 0)))
        return PREFIX.pack(self.magic, self.version, 0, crc, raw, len(packed))

    def _unpacked(self, blob: bytes) -> U8:
        if len(blob) < PREFIX.size or blob[:4] != self.magic:
            raise BlobError(f"these bytes are not {self.what}")
        _, version, _, _, raw, packed = PREFIX.unpack_from(blob)
        if version != self.version:
            raise BlobError(f"{self.what} of version {version}; this is version {self.version}")
        rest = blob[PREFIX.size :]
        if len(rest) != packed or self.prefix(raw, rest) != blob[: PREFIX.size]:
            raise BlobError(f"{self.what}'s bytes are damaged")
        if raw > MAX_BODY_BYTES:
            raise BlobError(f"{self.what} of {raw} bytes is over the limit of {MAX_BODY_BYTES}")
        body = np.empty(raw, np.uint8)
        try:
            length = cramjam.zstd.decompress_into(rest, body.data)
        except cramjam.DecompressionError as e:
            raise BlobError(f"{self.what}'s bytes cannot be decompressed") from e
        if length != raw:
            raise BlobError(f"{self.what} is shorter than it says")
        return body

    def _column(self, body: U8, at: int, dtype: str, n: int) -> Array:
        if dtype not in DTYPES or n < 0 or at + n * np.dtype(dtype).itemsize > len(body):
            raise BlobError(f"{self.what}'s column lies outside of it")
        return body[at : at + n * np.dtype(dtype).itemsize].view(dtype)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
