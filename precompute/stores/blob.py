"""A Summary as bytes, and back.

    magic "ASUM" · version u16 · 0 u16 · crc32 u32 · raw length u64 · packed length u64 · packed body
    body (zstd):  header length u32 · header (JSON: keys, accumulator versions, columns) · columns

Little-endian throughout; header and columns are padded to multiples of 8 bytes. The checksum covers every byte
but its own, so damage is found before anything is decompressed or allocated. Bytes of another version, of the
format or of an accumulator, are refused.
"""

import struct
import zlib
from typing import Any

import cramjam
import numpy as np
import orjson

from precompute.errors import BlobError
from precompute.samples import U8
from precompute.sketches.base import Array, State
from precompute.sketches.columns import check_columns, check_offsets
from precompute.sketches.registry import accumulator
from precompute.summaries import GroupKey, Summary

VERSION = 1
MAX_BODY_BYTES = 1 << 30
PREFIX = struct.Struct("<4sHHIQQ")
MAGIC = b"ASUM"
ZSTD_LEVEL = 1
DTYPES = frozenset({"<f8", "<i8", "<i4", "<u4", "|u1"})
OWN = {"ends_ms": "<i8", "row_off": "<i8", "group": "<i4", "seen": "<i8", "plan": "<i8", "flags": "|u1"}


def to_bytes(summary: Summary) -> bytes:
    """The Summary, checked and compressed; the same Summary gives the same bytes."""
    columns = _columns(summary)
    header = orjson.dumps(
        {
            "keys": summary.keys,
            "accumulators": {name: accumulator(name).version for name in summary.states},
            "columns": [[name, a.dtype.str, len(a)] for name, a in columns.items()],
        }
    )
    parts = [_padded(struct.pack("<I", len(header)) + header), *(_padded(a.tobytes()) for a in columns.values())]
    body = b"".join(parts)
    if len(body) > MAX_BODY_BYTES:
        raise BlobError(f"a summary of {len(body)} bytes is too large to be kept as one")
    packed = bytes(cramjam.zstd.compress(body, level=ZSTD_LEVEL))
    return _prefix(len(body), packed) + packed


def from_bytes(blob: bytes) -> Summary:
    """The Summary that `to_bytes` was given. Raises BlobError for anything else."""
    header, columns = _body(_unpacked(blob))
    try:
        keys = tuple(_key(key) for key in header["keys"])
        versions = dict(header["accumulators"])
    except (KeyError, TypeError, ValueError) as e:
        raise BlobError("the header of a summary is not whole") from e
    own = {name: columns.pop(name, None) for name in OWN}
    states = {name: _state(name, version, columns) for name, version in versions.items()}
    if columns or any(a is None or a.dtype.str != OWN[name] for name, a in own.items()):
        raise BlobError("a summary's columns are not those of its version")
    summary = Summary(keys=keys, states=states, **own)  # type: ignore[arg-type]
    _check(summary)
    return summary


def _columns(summary: Summary) -> dict[str, Array]:
    columns: dict[str, Array] = {name: getattr(summary, name) for name in OWN}
    for name, state in summary.states.items():
        columns |= {f"{name}/{c.name}": state[c.name] for c in accumulator(name).columns}
    return columns


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _prefix(raw: int, packed: bytes, crc: int | None = None) -> bytes:
    if crc is None:
        crc = zlib.crc32(packed, zlib.crc32(_prefix(raw, packed, 0)))
    return PREFIX.pack(MAGIC, VERSION, 0, crc, raw, len(packed))


def _unpacked(blob: bytes) -> U8:
    if len(blob) < PREFIX.size or blob[:4] != MAGIC:
        raise BlobError("these bytes are not a summary")
    _, version, _, _, raw, packed = PREFIX.unpack_from(blob)
    if version != VERSION:
        raise BlobError(f"a summary of version {version}; this is version {VERSION}")
    rest = blob[PREFIX.size :]
    if len(rest) != packed or _prefix(raw, rest) != blob[: PREFIX.size]:
        raise BlobError("a summary's bytes are damaged")
    if raw > MAX_BODY_BYTES:
        raise BlobError(f"a summary of {raw} bytes is over the limit of {MAX_BODY_BYTES}")
    body = np.empty(raw, np.uint8)
    try:
        length = cramjam.zstd.decompress_into(rest, body.data)
    except cramjam.DecompressionError as e:
        raise BlobError("a summary's bytes cannot be decompressed") from e
    if length != raw:
        raise BlobError("a summary is shorter than it says")
    return body


def _body(body: U8) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and columns; the columns are views of `body`."""
    data = body.tobytes()
    length = int.from_bytes(data[:4], "little")
    try:
        header = orjson.loads(data[4 : 4 + length])
        layout = [(str(name), str(dtype), int(n)) for name, dtype, n in header["columns"]]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as e:
        raise BlobError("the header of a summary is not whole") from e
    at, columns = 4 + length, {}
    for name, dtype, n in layout:
        at += -at % 8
        columns[name] = _column(body, at, dtype, n)
        at += columns[name].nbytes
    if at + -at % 8 != len(body):
        raise BlobError("a summary's columns do not fill it")
    return header, columns


def _column(body: U8, at: int, dtype: str, n: int) -> Array:
    if dtype not in DTYPES or n < 0 or at + n * np.dtype(dtype).itemsize > len(body):
        raise BlobError("a summary's column lies outside of it")
    return body[at : at + n * np.dtype(dtype).itemsize].view(dtype)


def _key(key: list[Any]) -> GroupKey:
    if all(isinstance(part, str) for part in key):
        return tuple(key)
    return tuple((str(name), str(value)) for name, value in key)


def _state(name: str, version: int, columns: dict[str, Array]) -> State:
    try:
        found = accumulator(name)
    except ValueError as e:
        raise BlobError(f"accumulator {name} is not known here: {e}") from e
    if found.version != version:
        raise BlobError(f"accumulator {name} of version {version} is not known here")
    try:
        return {c.name: columns.pop(f"{name}/{c.name}") for c in found.columns}
    except KeyError as e:
        raise BlobError(f"a summary lacks column {e}") from e


def _check(summary: Summary) -> None:
    """Raise BlobError unless all columns fit each other."""
    panes, rows = summary.panes, summary.rows
    if {len(summary.seen), len(summary.plan), len(summary.flags), len(summary.row_off) - 1} != {panes}:
        raise BlobError("a summary's panes do not fit each other")
    check_offsets(summary.row_off)
    if summary.row_off[-1] != rows or bool((np.diff(summary.ends_ms) <= 0).any()):
        raise BlobError("a summary's rows do not fit its panes")
    if rows and not 0 <= summary.group.min() <= summary.group.max() < len(summary.keys):
        raise BlobError("a summary's groups have no keys")
    for name, state in summary.states.items():
        check_columns(accumulator(name).columns, state, rows)
        accumulator(name).check(state)
