"""XXH64, seed 0, of bytes put together from pieces (Y. Collet, "XXH64 algorithm description")."""

import numpy as np

from precompute.kernels import inlined, kernel

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_ZERO = np.uint64(0)


@kernel
def hash_rows(pieces, ends, values):
    """The hash of each row's label set, uint64[n].

    pieces uint8[m]; piece p is pieces[ends[p]:ends[p + 1]]; the first pieces are the names of the columns
    values int64[n, k]: the piece of each row's value in each column, -1 where the row has none
    """
    n, width = values.shape
    out = np.empty(n, np.uint64)
    buffer = np.empty(256, np.uint8)
    for i in range(n):
        size = 0
        for k in range(width):
            if values[i, k] >= 0:
                size += ends[k + 1] - ends[k] + ends[values[i, k] + 1] - ends[values[i, k]]
        if size > len(buffer):
            buffer = np.empty(2 * size, np.uint8)
        at = 0
        for k in range(width):
            if values[i, k] >= 0:
                at = _put(pieces, ends[k], ends[k + 1], buffer, at)
                at = _put(pieces, ends[values[i, k]], ends[values[i, k] + 1], buffer, at)
        out[i] = xxh64(buffer, size)
    return out


@inlined
def _put(pieces, first, last, buffer, at):
    buffer[at : at + last - first] = pieces[first:last]
    return at + last - first


@inlined
def _rotated(x, bits):
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@inlined
def _round(acc, lane):
    acc += lane * _P2
    return _rotated(acc, 31) * _P1


@inlined
def _merge(acc, lane):
    return (acc ^ _round(_ZERO, lane)) * _P1 + _P4


@kernel
def _word(data, at, size):
    """`size` bytes from `at` on, little-endian."""
    word = _ZERO
    for k in range(size):
        word |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return word


@kernel
def xxh64(data, size):
    """The hash of data[:size], uint8[]."""
    at = 0
    if size >= 32:
        a, b, c, d = _P1 + _P2, _P2, _ZERO, _ZERO - _P1
        while at + 32 <= size:
            a, b = _round(a, _word(data, at, 8)), _round(b, _word(data, at + 8, 8))
            c, d = _round(c, _word(data, at + 16, 8)), _round(d, _word(data, at + 24, 8))
            at += 32
        acc = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        acc = _merge(_merge(_merge(_merge(acc, a), b), c), d)
    else:
        acc = _P5
    acc += np.uint64(size)
    while at + 8 <= size:
        acc = _rotated(acc ^ _round(_ZERO, _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= size:
        acc = _rotated(acc ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < size:
        acc = _rotated(acc ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    acc = (acc ^ (acc >> np.uint64(33))) * _P2
    acc = (acc ^ (acc >> np.uint64(29))) * _P3
    return acc ^ (acc >> np.uint64(32))
