"""Kernels that read the protobuf wire format (protobuf.dev/programming-guides/encoding).

Positions are int64 indices into a buffer `buf` uint8[m]; `end` is the end of the enclosing message,
so no field reaches beyond it. An error is told by a negative position, -1 minus the place where reading
failed; callers pass it on. Group wire types, field number 0, and varints above 64 bits are errors.

Bytes are indexed by unsigned numbers: a signed index would cost a test for "from the end" at each byte.
"""

import numpy as np

from precompute.kernels import bare

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@bare
def read_varint(buf, pos, end):
    """(value as int64, next position) of the varint at `pos`."""
    value = np.uint64(0)
    shift = np.uint64(0)
    at = pos
    while at < end and shift < np.uint64(64):
        byte = np.uint64(buf[np.uint64(at)])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            if shift == np.uint64(63) and byte > np.uint64(1):
                break
            return np.int64(value), at
        shift += np.uint64(7)
    return np.int64(0), -1 - pos


@bare
def read_field(buf, pos, end):
    """(tag, payload, next position) of the field at `pos`, all int64.

    payload: a varint's value; for all other types the position of the payload, which ends at `next`.
    """
    if end - pos >= 2:  # the common case, a short field of bytes, without loops
        short_tag = np.int64(buf[np.uint64(pos)])
        short_size = np.int64(buf[np.uint64(pos + 1)])
        if short_tag & 0x87 == BYTES and short_tag >= 8 and short_size < 0x80 and short_size <= end - pos - 2:
            return short_tag, pos + 2, pos + 2 + short_size
    return _read_any_field(buf, pos, end)


@bare
def _read_any_field(buf, pos, end):
    tag, at = read_varint(buf, pos, end)
    if at < 0 or tag < 8 or tag > 0xFFFFFFFF:
        return tag, np.int64(0), -1 - pos
    wire = tag & 7
    if wire == VARINT:
        value, after = read_varint(buf, at, end)
        return tag, value, after
    size = np.int64(-1)
    if wire == BYTES:
        size, at = read_varint(buf, at, end)
        if at < 0:
            return tag, np.int64(0), at
    elif wire == FIXED64:
        size = np.int64(8)
    elif wire == FIXED32:
        size = np.int64(4)
    if size < 0 or size > end - at:
        return tag, np.int64(0), -1 - pos
    return tag, at, at + size
