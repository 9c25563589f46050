"""Unpacking bodies, with the size checked before memory is taken."""

from collections.abc import Callable

import cramjam
import numpy as np

from ingest.errors import BadBody, TooLarge, UnsupportedType
from precompute.samples import U8

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BUFFER_FULL = "failed to write whole buffer"


def decompress(body: bytes, encoding: str, max_bytes: int) -> U8:
    """The unpacked body, uint8[m] with m <= max_bytes.

    encoding: `snappy` (block format, as remote write 1.0 demands) or `zstd` (frames, as vmagent sends).
    Raises TooLarge, BadBody, UnsupportedType.
    """
    unpack = _UNPACKERS.get(encoding)
    if unpack is None:
        raise UnsupportedType(f"content encoding {encoding!r} is not supported; use snappy or zstd")
    return unpack(body, max_bytes)


def unpacked_bytes(body: bytes, encoding: str, max_bytes: int) -> int:
    """The most that `decompress` of the same makes of it, `max_bytes` where the body does not say. Raises BadBody."""
    if encoding == "snappy":
        return min(_snappy_length(body), max_bytes)
    size = _zstd_content_size(body)
    has_one_frame = body.find(_ZSTD_MAGIC, len(_ZSTD_MAGIC)) < 0
    return min(size, max_bytes) if size is not None and has_one_frame else max_bytes


def _unpack_snappy(body: bytes, max_bytes: int) -> U8:
    """Block format: a varint with the unpacked length, then the elements (snappy/format_description.txt)."""
    size = _snappy_length(body)
    _check_size(size, max_bytes)
    out = np.empty(size, np.uint8)
    return out[: _run(cramjam.snappy.decompress_raw_into, "snappy", body, out)]


def _snappy_length(body: bytes) -> int:
    size = 0
    for i, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return size
    raise BadBody("not a snappy block: it does not begin with a length")


def _unpack_zstd(body: bytes, max_bytes: int) -> U8:
    """One or more frames (RFC 8878), which may leave their size unsaid: the buffer has the limit's size.

    Pages of it that are never written take no memory.
    """
    size = _zstd_content_size(body)
    if size is not None:
        _check_size(size, max_bytes)
    out = np.empty(max_bytes, np.uint8)
    written = _run(cramjam.zstd.decompress_into, "zstd", body, out)
    return out[:written]


def _zstd_content_size(body: bytes) -> int | None:
    """What the first frame's header says (RFC 8878, 3.1.1.1); None where it says nothing."""
    if len(body) < 6 or body[:4] != _ZSTD_MAGIC:
        raise BadBody("not a zstd frame: the magic number is missing")
    descriptor = body[4]
    single, size_flag = descriptor >> 5 & 1, descriptor >> 6
    width = (single, 2, 4, 8)[size_flag]
    at = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    if width == 0:
        return None
    field = int.from_bytes(body[at : at + width], "little")
    return field + 256 if width == 2 else field


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise TooLarge(f"the unpacked body has {size} bytes, above ingest.max_body = {max_bytes}")


def _run(unpack: Callable[[bytes, memoryview], int], name: str, body: bytes, out: U8) -> int:
    try:
        return unpack(body, out.data)
    except cramjam.DecompressionError as error:
        if str(error) == _BUFFER_FULL:
            raise TooLarge(f"the unpacked body is above ingest.max_body = {len(out)} bytes") from error
        raise BadBody(f"{name}: {error}") from error


_UNPACKERS: dict[str, Callable[[bytes, int], U8]] = {"snappy": _unpack_snappy, "zstd": _unpack_zstd}
