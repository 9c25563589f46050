"""Kernels that read the points out of Prometheus' JSON, straight into columns.

An answer is `{…,"data":{"resultType":…,"result":[{"metric":{…},"values":[[time,"value"],…]},…]},…}`, in any order of
keys and with any blanks. `cut_points` takes the lists of points out and leaves a text that any parser reads;
`read_points` reads the lists.
"""

import numpy as np

from precompute.kernels import bare, kernel
from precompute.kernels.decimals import NO_NUMBER, UNDECIDED, read_decimal

_QUOTE, _BACKSLASH, _COLON, _COMMA, _OPEN, _CLOSE = 34, 92, 58, 44, 91, 93
_SERIES_DEPTH = 4
"""Brackets around a series' keys: the answer, its data, the result, the series."""

READ, ODD, OFF_GRID, TWICE = 0, 1, 2, 3
"""What `read_points` came to: all read; no list of points; a time that was not asked for; a time twice."""


@bare
def _is_blank(char):
    return char == 32 or char == 10 or char == 13 or char == 9


@bare
def _after_blanks(text, at):
    while at < len(text) and _is_blank(text[at]):
        at += 1
    return at


@bare
def _after_string(text, at):
    """Behind the string that begins at `at`; the text's end where it has none."""
    at += 1
    while at < len(text) and text[at] != _QUOTE:
        at += 2 if text[at] == _BACKSLASH else 1
    return min(at + 1, len(text))


@bare
def _is_key(text, at, end):
    """Whether the string text[at:end] is "value" or "values"."""
    if end - at != 7 and end - at != 8:
        return False
    plural = end - at == 8
    return (
        text[at + 1] == 118 and text[at + 2] == 97 and text[at + 3] == 108 and text[at + 4] == 117
        and text[at + 5] == 101 and (not plural or text[at + 6] == 115)
    )  # fmt: skip


@bare
def _after_list(text, at):
    """Behind the list that begins at `at`; the text's end where it has none."""
    depth = 0
    while at < len(text):
        if text[at] == _QUOTE:
            at = _after_string(text, at)
            continue
        depth += (text[at] == _OPEN) - (text[at] == _CLOSE)
        at += 1
        if depth == 0:
            return at
    return at


@kernel
def cut_points(text, out, starts, ends):
    """(how many lists were cut, bytes left): each list under "value" or "values" of a series becomes its number.

    text     uint8[m]
    out      uint8[m + 21 × lists]: what is left
    starts, ends  int64[lists]: where each list lay; `lists` is a bound on how many there can be
    """
    at, written, found, depth = 0, 0, 0, 0
    while at < len(text):
        begin = at
        if text[at] == _QUOTE:
            at = _after_string(text, at)
        else:
            depth += (text[at] == _OPEN or text[at] == 123) - (text[at] == _CLOSE or text[at] == 125)
            at += 1
        for k in range(begin, at):
            out[written] = text[k]
            written += 1
        if text[begin] == _QUOTE and depth == _SERIES_DEPTH and _is_key(text, begin, at):
            colon = _after_blanks(text, at)
            first = _after_blanks(text, colon + 1)
            if first < len(text) and text[colon] == _COLON and text[first] == _OPEN:
                starts[found] = first
                at = _after_list(text, first)
                ends[found] = at
                out[written] = _COLON
                written = _write_number(out, written + 1, found)
                found += 1
    return found, written


@bare
def _write_number(out, at, number):
    size = 1
    rest = number // 10
    while rest > 0:
        size += 1
        rest //= 10
    for k in range(size - 1, -1, -1):
        out[at + k] = 48 + number % 10
        number //= 10
    return at + size


@bare
def _read_time(text, at):
    """(ms, behind it) of a time in seconds with up to three decimals; behind it is -1 where it is none."""
    negative = at < len(text) and text[at] == 45
    at += negative
    ms, digits, decimals = np.int64(0), 0, 0
    if at + 1 < len(text) and text[at] == 48 and 48 <= text[at + 1] <= 57:
        # in JSON no number begins so
        return ms, np.int64(-1)
    while at < len(text) and 48 <= text[at] <= 57 and digits < 15:
        ms = ms * 10 + (np.int64(text[at]) - 48)
        digits += 1
        at += 1
    if digits and at < len(text) and text[at] == 46:
        at += 1
        while at < len(text) and 48 <= text[at] <= 57 and decimals < 3:
            ms = ms * 10 + (np.int64(text[at]) - 48)
            decimals += 1
            at += 1
        digits = decimals
    for _ in range(3 - decimals):
        ms *= 10
    return (-ms if negative else ms), at if digits else np.int64(-1)


@bare
def _read_point(text, at):
    """(time ms, where the value begins and ends, behind the point) of `[time,"value"]`; the last is -1 for all else."""
    none = np.int64(0), at, at, np.int64(-1)
    if at >= len(text) or text[at] != _OPEN:
        return none
    t_ms, at = _read_time(text, _after_blanks(text, at + 1))
    if at < 0:
        return none
    at = _after_blanks(text, at)
    if at >= len(text) or text[at] != _COMMA:
        return none
    at = _after_blanks(text, at + 1)
    if at >= len(text) or text[at] != _QUOTE:
        return none
    first = at + 1
    last = _after_string(text, at) - 1
    at = _after_blanks(text, last + 1)
    if at >= len(text) or text[at] != _CLOSE:
        return none
    return t_ms, first, last, at + 1


@kernel
def read_points(text, starts, ends, listed, first_ms, step_ms, columns, values, present, undecided):
    """(what it came to, how many values are undecided) of n lists of points.

    starts, ends     int64[n]: the lists in text, uint8[]
    listed           whether each is a list of points, or one point
    columns          int64[g]: per step of the grid, which begins at first_ms and has one every step_ms, its column in
                     values, or -1 where it is not wanted
    values, present  float64[n, s], bool[n, s]: what is wanted; present is false all over
    undecided        int64[u, 4]: row, column, begin and end of values that are left to a slower reader; the first u
    """
    bits = np.empty(1, np.uint64)
    views = bits, bits.view(np.float64)
    left = 0
    for row in range(len(starts)):
        at = _after_blanks(text, starts[row] + 1) if listed else starts[row]
        empty = listed and at < len(text) and text[at] == _CLOSE
        while not empty:
            t_ms, first, last, at = _read_point(text, at)
            if at < 0:
                return ODD, left
            found, value = read_decimal(text, first, last, *views)
            if found == NO_NUMBER:
                return ODD, left
            behind = t_ms - first_ms
            if behind < 0 or behind % step_ms or behind // step_ms >= len(columns):
                return OFF_GRID, left
            column = columns[behind // step_ms]
            if column >= 0:
                if present[row, column]:
                    return TWICE, left
                present[row, column] = True
                values[row, column] = value
                if found == UNDECIDED:
                    if left < len(undecided):
                        undecided[left, 0], undecided[left, 1] = row, column
                        undecided[left, 2], undecided[left, 3] = first, last
                    left += 1
            if not listed:
                break
            at = _after_blanks(text, at)
            if at >= ends[row] or (text[at] != _COMMA and text[at] != _CLOSE):
                return ODD, left
            if text[at] == _CLOSE:
                break
            at = _after_blanks(text, at + 1)
    return READ, left
