"""Kernels that write Prometheus' JSON from columns.

Texts come as an arena: uint8 bytes, and int64[n + 1] offsets, so that text k is bytes[offsets[k]:offsets[k + 1]].
Each kernel writes at `at` in `out`, which the caller made large enough, and returns where it stopped.
"""

import numpy as np

from precompute.kernels import inlined, kernel
from precompute.kernels.bytes import load_u64, store_u64

POINT_BYTES = 64
"""Room for `[timestamp,"value"],`: a time has up to 21 bytes, a value up to 33."""

AFTER_NUMBERS = b"," + bytes(31)
"""What stands behind a list of numbers instead of its bracket: each has a comma, and words may be read beyond it."""

_QUOTE, _COMMA, _DOT, _MINUS, _ZERO = 34, 44, 46, 45, 48

_CLOCK_BYTES = 24
_EIGHT = np.uint64(8)
_LOWS, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_COMMAS, _EXPONENTS = np.uint64(_COMMA) * _LOWS, np.uint64(101) * _LOWS
_PLACES = np.uint64(0x0001020304050607)  # times 1 << 8k, its highest byte is k


@kernel
def copy(out, at, bytes_, first, last):
    """bytes_[first:last]."""
    source = bytes_[first:last]
    target = out[at : at + len(source)]
    for k in range(len(source)):
        target[k] = source[k]
    return at + len(source)


@kernel
def write_integer(out, at, number):
    """A non-negative int64 in decimal."""
    digits = 1
    rest = number // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for k in range(digits - 1, -1, -1):
        out[at + k] = _ZERO + number % 10
        number //= 10
    return at + digits


@kernel
def write_time(out, at, t_ms):
    """Seconds, with three decimals unless they are whole (util/jsonutil, MarshalTimestamp)."""
    if t_ms < 0:
        out[at] = _MINUS
        at += 1
        t_ms = -t_ms
    at = write_integer(out, at, t_ms // 1000)
    millis = t_ms % 1000
    if millis:
        out[at] = _DOT
        out[at + 1] = _ZERO + millis // 100
        out[at + 2] = _ZERO + millis // 10 % 10
        out[at + 3] = _ZERO + millis % 10
        at += 4
    return at


@inlined
def _zeros(word):
    """The high bit of each byte that is zero; above the lowest one there may be others."""
    return (word - _LOWS) & ~word & _HIGHS


@inlined
def _lowest(marks):
    """The byte that the lowest mark is in."""
    return np.int64((((marks & (~marks + np.uint64(1))) >> np.uint64(7)) * _PLACES) >> np.uint64(56))


@kernel
def token_end(text, at):
    """Where the exponent of the token at `at` in a list of numbers begins (its end without one), and its end.

    Eight bytes at a time; the list ends as `AFTER_NUMBERS` says.
    """
    mantissa = -1
    while True:
        word = load_u64(text, at)
        ends = _zeros(word ^ _COMMAS)
        exponents = _zeros(word ^ _EXPONENTS)
        if mantissa < 0 and exponents:
            mantissa = at + _lowest(exponents)
        if ends:
            end = at + _lowest(ends)
            return end if mantissa < 0 or mantissa > end else mantissa, end
        at += 8


@inlined
def _copy_words(out, at, bytes_, first, length):
    """bytes_[first:first + length], and up to seven bytes more, which what is written next covers."""
    for k in range(0, length, 8):
        store_u64(out, at + k, load_u64(bytes_, first + k))
    return at + length


@kernel
def write_value(out, at, value, text, first, mantissa, last):
    """A value between quotes as Go's FormatFloat writes it: shortest, 'e' below 1e-6 and from 1e21 on, else 'f'.

    text[first:last] is the value in orjson's shortest form, `1.0`, `1.5e-7`, `null`; its exponent begins at `mantissa`.
    """
    out[at] = _QUOTE
    at += 1
    if np.isfinite(value):
        size = abs(value)
        if mantissa == last:
            # a fraction of zero is left out
            whole = last - first > 2 and text[last - 1] == _ZERO and text[last - 2] == _DOT
            at = _copy_words(out, at, text, first, (last - 2 if whole else last) - first)
        elif size < 1e-6 or size >= 1e21:
            at = _write_scientific(out, at, text, first, mantissa, last)
        else:
            at = _write_plain(out, at, text, first, mantissa, last)
    elif np.isnan(value):
        out[at], out[at + 1], out[at + 2] = 78, 97, 78
        at += 3
    else:
        out[at] = 43 if value > 0 else _MINUS
        out[at + 1], out[at + 2], out[at + 3] = 73, 110, 102
        at += 4
    out[at] = _QUOTE
    return at + 1


@kernel
def _exponent(text, mantissa, last):
    sign = 1
    exponent = 0
    for k in range(mantissa + 1, last):
        if text[k] == _MINUS:
            sign = -1
        elif text[k] != 43:
            exponent = exponent * 10 + (np.int64(text[k]) - _ZERO)
    return sign * exponent


@kernel
def _write_scientific(out, at, text, first, mantissa, last):
    """Mantissa, then an exponent of a sign and at least two digits."""
    end = mantissa - 2 if text[mantissa - 1] == _ZERO and text[mantissa - 2] == _DOT else mantissa
    at = copy(out, at, text, first, end)
    exponent = _exponent(text, mantissa, last)
    out[at] = 101
    out[at + 1] = _MINUS if exponent < 0 else 43
    at += 2
    exponent = abs(exponent)
    if exponent < 10:
        out[at] = _ZERO
        at += 1
    return write_integer(out, at, exponent)


@kernel
def _write_plain(out, at, text, first, mantissa, last):
    """Digits without an exponent: the point moved, zeros filled in."""
    if text[first] == _MINUS:
        out[at] = _MINUS
        at += 1
        first += 1
    exponent = _exponent(text, mantissa, last)
    if exponent < 0:
        out[at] = _ZERO
        out[at + 1] = _DOT
        at += 2
        for _ in range(-exponent - 1):
            out[at] = _ZERO
            at += 1
    digits = 0
    for k in range(first, mantissa):
        # behind the first digit stands the point; a lone zero after it is no digit
        if text[k] == _DOT or (k == first + 2 and k + 1 == mantissa and text[k] == _ZERO):
            continue
        if exponent >= 0 and digits == exponent + 1:
            out[at] = _DOT
            at += 1
        out[at] = text[k]
        at += 1
        digits += 1
    while digits < exponent + 1:
        out[at] = _ZERO
        at += 1
        digits += 1
    return at


@kernel
def write_metric(out, at, codes, texts):
    """`{"name":"value",…}` of one row: codes int32[k], one per column, -1 where a label is absent.

    texts: two arenas, `"name":` per column and `"value"` per code.
    """
    names, name_offsets, values, value_offsets = texts
    out[at] = 123
    at += 1
    written = 0
    for k in range(len(codes)):
        if codes[k] >= 0:
            if written:
                out[at] = _COMMA
                at += 1
            at = copy(out, at, names, name_offsets[k], name_offsets[k + 1])
            at = copy(out, at, values, value_offsets[codes[k]], value_offsets[codes[k] + 1])
            written += 1
    out[at] = 125
    return at + 1


@kernel
def _times(times):
    """`[time,` of each step, each at a multiple of `_CLOCK_BYTES`, and their lengths."""
    out = np.empty(len(times) * _CLOCK_BYTES, np.uint8)
    lengths = np.empty(len(times), np.int64)
    for step in range(len(times)):
        first = step * _CLOCK_BYTES
        out[first] = 91
        end = write_time(out, first + 1, times[step])
        out[end] = _COMMA
        lengths[step] = end + 1 - first
    return out, lengths


@kernel
def write_series(out, codes, texts, times, points, present, numbers, around, ranged):
    """All rows, separated by commas; where writing stopped.

    codes    int32[n, k], and texts, as in `write_metric`
    times    int64[s] ms; points float64[m]: the present values, row by row; present bool[n, s]
    numbers  uint8[]: the points as a JSON list, with `AFTER_NUMBERS` for its bracket
    around   uint8[] three times: what stands before metric, between it and the points, and after them
    ranged   whether a row's points are a list of pairs, or one pair
    """
    before, between, after = around
    at = 0
    token = 1
    point = 0
    clock, clock_lengths = _times(times)
    for row in range(len(codes)):
        if row:
            out[at] = _COMMA
            at += 1
        at = copy(out, at, before, 0, len(before))
        at = write_metric(out, at, codes[row], texts)
        at = copy(out, at, between, 0, len(between))
        first = True
        for step in range(len(times)):
            if present[row, step]:
                if not first and ranged:
                    out[at] = _COMMA
                    at += 1
                first = False
                at = _copy_words(out, at, clock, step * _CLOCK_BYTES, clock_lengths[step])
                mantissa, end = token_end(numbers, token)
                at = write_value(out, at, points[point], numbers, token, mantissa, end)
                out[at] = 93
                at += 1
                token = end + 1
                point += 1
        at = copy(out, at, after, 0, len(after))
    return at


@kernel
def write_samples(out, codes, texts, starts, t_ms, points, numbers, around):
    """All rows of a range vector, each with its own samples; where writing stopped.

    starts   int64[n + 1]: where each row's samples begin in t_ms int64[m] and points float64[m]
    The rest is as in `write_series`.
    """
    before, between, after = around
    at = 0
    token = 1
    for row in range(len(codes)):
        if row:
            out[at] = _COMMA
            at += 1
        at = copy(out, at, before, 0, len(before))
        at = write_metric(out, at, codes[row], texts)
        at = copy(out, at, between, 0, len(between))
        for p in range(starts[row], starts[row + 1]):
            if p > starts[row]:
                out[at] = _COMMA
                at += 1
            out[at] = 91
            at = write_time(out, at + 1, t_ms[p])
            out[at] = _COMMA
            mantissa, end = token_end(numbers, token)
            at = write_value(out, at + 1, points[p], numbers, token, mantissa, end)
            out[at] = 93
            at += 1
            token = end + 1
        at = copy(out, at, after, 0, len(after))
    return at
