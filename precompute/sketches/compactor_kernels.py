"""Kernels of the quantile sketches that halve: KLL and REQ (kll.py, req.py).

A row holds levels of sorted values; a value of level h stands for 2^h. A level that is too full is *compacted*: every
second value of a part of it goes one level up, the others go. Which every second is a coin's choice. The coin here is
a hash of the values that are compacted, so the same values in the same order always give the same bits; whoever can
choose every value can also aim at the coin, so it is no shield against that.

Flat form of a row: `size` uint32[levels], level 0 first, and `item` float64[sum of size], level by level.
"""

import math
from typing import NamedTuple

import numpy as np

from precompute.kernels import bare, kernel
from precompute.samples import F64, I64, U8, U64, Bool

SMALLEST = 8
"""KLL's smallest capacity of a level."""
SECTIONS = 3
"""REQ's sections of a level to begin with."""
SMALLEST_SECTION = 4
MOST_SECTIONS = 96


class Scratch(NamedTuple):
    """One row while it is worked on."""

    k: int
    upper: bool
    """REQ; else KLL."""
    capacity: I64
    """KLL's capacity of a level by how many levels are above it; int64[levels]."""
    items: F64
    """float64[levels, width]; level 0 is unsorted while values come in."""
    spare: F64
    """float64[width]"""
    size: I64
    """int64[levels]"""
    rounds: U64
    """How often each level was compacted, as merges combine it (REQ); uint64[levels]."""
    coin: U8
    """The last coin of each level (REQ); uint8[levels]."""
    head: I64
    """Levels in use, items held, room for items, values, NaN among them; int64[5]."""
    ends: F64
    """Smallest and largest number, NaN if none; float64[2]."""


@kernel
def kll_capacity(k: int, above: int) -> int:
    """Capacity of a level with so many above it: k (2/3)^above, rounded up (Karnin, Lang and Liberty 2016)."""
    if above > 20:
        return SMALLEST
    part: int = 3**above
    return max(SMALLEST, ((k << above) + part - 1) // part)


@bare
def req_sections(k: int, rounds: int) -> tuple[int, int]:
    """Size and number of the sections of a level after so many rounds (Cormode and others 2021, section 4)."""
    raw, size, number = float(k), k, SECTIONS
    while number < MOST_SECTIONS and np.uint64(rounds) >> np.uint64(min(number - 1, 63)):
        raw /= math.sqrt(2.0)
        smaller = round(raw / 2.0) * 2
        if smaller < SMALLEST_SECTION:
            break
        size, number = smaller, number * 2
    return size, number


@kernel
def scratch(k: int, upper: bool, levels: int) -> Scratch:
    """For rows of at most 2^(levels - 2) values."""
    capacity = np.empty(levels, np.int64)
    for h in range(levels):
        capacity[h] = kll_capacity(k, h)
    size, number = req_sections(k, 0x7FFFFFFFFFFFFFFF)
    width = 2 * (levels * 2 * size * number if upper else capacity.sum()) + 64
    return Scratch(
        k, upper, capacity, np.empty((levels, width)), np.empty(width), np.zeros(levels, np.int64),
        np.zeros(levels, np.uint64), np.zeros(levels, np.uint8), np.zeros(5, np.int64), np.full(2, np.nan),
    )  # fmt: skip


@bare
def clear(s: Scratch) -> None:
    """An empty row."""
    for h in range(len(s.size)):
        s.size[h], s.rounds[h], s.coin[h] = 0, 0, 0
    for i in range(len(s.head)):
        s.head[i] = 0
    s.ends[0], s.ends[1] = np.nan, np.nan
    s.head[0] = 1
    _make_room(s)


@bare
def _make_room(s: Scratch) -> None:
    """How many items may be held in all: KLL to the brim, REQ one below."""
    room = -1 if s.upper else 0
    for h in range(s.head[0]):
        if s.upper:
            size, number = req_sections(s.k, s.rounds[h])
            room += 2 * size * number
        else:
            room += s.capacity[h]
    s.head[2] = room


@bare
def take(s: Scratch, values: F64) -> None:
    """More values, in their order."""
    low, high, nans, at = s.ends[0], s.ends[1], 0, s.size[0]
    full = at + s.head[2] - s.head[1]
    for v in values:
        s.head[3] += 1
        if np.isnan(v):
            nans += 1
            continue
        if not v >= low:
            low = v
        if not v <= high:
            high = v
        s.items[0, at] = v
        at += 1
        if at > full:
            s.head[1] += at - s.size[0]
            s.size[0] = at
            _shrink(s)
            at = s.size[0]
            full = at + s.head[2] - s.head[1]
    s.head[1] += at - s.size[0]
    s.size[0] = at
    s.head[4] += nans
    s.ends[0], s.ends[1] = low, high


@bare
def _shrink(s: Scratch) -> None:
    """Compact until all items have room."""
    while s.head[1] > s.head[2]:
        if s.upper:
            _compact_req(s)
        else:
            _compact_kll(s)
        _make_room(s)


@bare
def _compact_kll(s: Scratch) -> None:
    """The lowest level that is full; of an odd number of items one stays, at one end."""
    level = 0
    while s.size[level] < s.capacity[s.head[0] - 1 - level]:
        level += 1
    n = s.size[level]
    if level == 0:
        _sort(s.items[0, :n])
    toss = _toss(s.items[level, :n], s.head[3])
    begin = n & toss >> 1 & 1
    _promote(s, level, begin, begin + n - (n & 1), toss & 1)


@bare
def _compact_req(s: Scratch) -> None:
    """All levels that are full, lowest first; their largest items stay, so that high ranks are the best known."""
    level = 0
    while level < s.head[0]:
        size, number = req_sections(s.k, s.rounds[level])
        n, rounds = s.size[level], s.rounds[level]
        if n >= 2 * size * number:
            if level == 0:
                _sort(s.items[0, :n])
            closing = 1
            while closing < number and rounds >> np.uint64(closing - 1) & np.uint64(1):
                closing += 1
            stay = size * number + (number - closing) * size
            end = n - stay - (n - stay) % 2
            fresh = _toss(s.items[level, :end], s.head[3]) & 1
            s.coin[level] = 1 - s.coin[level] if rounds & np.uint64(1) else fresh
            _promote(s, level, 0, end, s.coin[level])
            s.rounds[level] = rounds + np.uint64(1)
        level += 1


@bare
def _promote(s: Scratch, level: int, begin: int, end: int, coin: int) -> None:
    """Every second item of `level` from begin to end goes one level up, which stays sorted; the others go."""
    below, above, n = s.items[level], s.items[level + 1], s.size[level + 1]
    at, old = 0, 0
    for i in range(begin + coin, end, 2):
        while old < n and above[old] <= below[i]:
            s.spare[at] = above[old]
            at, old = at + 1, old + 1
        s.spare[at] = below[i]
        at += 1
    while old < n:
        s.spare[at] = above[old]
        at, old = at + 1, old + 1
    for i in range(at):
        above[i] = s.spare[i]
    for i in range(end, s.size[level]):
        below[begin + i - end] = below[i]
    s.size[level + 1] = at
    s.size[level] -= end - begin
    s.head[0] = max(s.head[0], level + 2)
    s.head[1] -= (end - begin) // 2


@bare
def _toss(values: F64, seed: int) -> int:
    """Two bits out of all bits of the values."""
    bits = values.view(np.uint64)
    h = np.uint64(seed) * np.uint64(0xD6E8FEB86659FD93)
    for i in range(len(bits)):
        h = (h ^ bits[i]) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    return np.int64(h >> np.uint64(7) & np.uint64(3))  # type: ignore[return-value]  # numba's int


@bare
def _sort(a: F64) -> None:
    """Shell's method, in place: numba's own sort allocates. Gaps: Tokuda 1992."""
    gap = 1
    while gap < len(a) // 2:
        gap = math.ceil(2.25 * gap) + 1
    while gap:
        for i in range(gap, len(a)):
            v, j = a[i], i
            while j >= gap and v < a[j - gap]:
                a[j] = a[j - gap]
                j -= gap
            a[j] = v
        gap = int((gap - 1) / 2.25) if gap > 1 else 0


@bare
def fold(s: Scratch, n: int, nans: int, low: float, high: float, size: I64, rounds: U64, coin: U8, item: F64) -> None:
    """Another row, in flat form, after what is there."""
    s.head[3] += n
    s.head[4] += nans
    s.ends[0], s.ends[1] = np.fmin(s.ends[0], low), np.fmax(s.ends[1], high)
    s.head[0] = max(s.head[0], len(size))
    begin = 0
    for h in range(len(size)):
        _interleave(s, h, item[begin : begin + size[h]])
        if s.upper:
            if s.rounds[h] == 0:
                s.coin[h] = coin[h]
            s.rounds[h] |= rounds[h]
        begin += size[h]
    s.head[1] += begin
    _make_room(s)
    _shrink(s)


@bare
def _interleave(s: Scratch, level: int, more: F64) -> None:
    """Merge sorted values into a sorted level, from its end, in place."""
    there = s.items[level]
    i, j = s.size[level] - 1, len(more) - 1
    s.size[level] += len(more)
    for at in range(i + j + 1, -1, -1):
        if j < 0:
            return
        if i >= 0 and there[i] > more[j]:
            there[at] = there[i]
            i -= 1
        else:
            there[at] = more[j]
            j -= 1


@bare
def finish(s: Scratch) -> int:
    """Sort what came in last; how many levels the flat form has."""
    _sort(s.items[0, : s.size[0]])
    return s.head[0] if s.head[1] else 0


@bare
def flatten(s: Scratch, item: F64) -> None:
    """All levels, one after another, to `item`."""
    at = 0
    for h in range(s.head[0]):
        for i in range(s.size[h]):
            item[at + i] = s.items[h, i]
        at += s.size[h]


@kernel
def sound(
    k: int, upper: bool, n: I64, nans: I64, size_off: I64, size: I64, rounds: U64, item_off: I64, item: F64
) -> Bool:
    """Rows that other kernels may be given: weights add up to n, items have room, levels are sorted; bool[rows]."""
    fine = np.zeros(len(n), np.bool_)
    for row in range(len(n)):
        levels, weight, room, at, rises = size_off[row + 1] - size_off[row], nans[row], 0, item_off[row], True
        if not 0 <= nans[row] <= n[row] <= 1 << 53 or levels > 54:
            continue
        for h in range(levels):
            held = size[size_off[row] + h]
            if at + held > item_off[row + 1]:
                rises = False
                break
            weight += held << h
            sections, number = req_sections(k, rounds[size_off[row] + h] if upper else np.uint64(0))
            room += 2 * sections * number if upper else kll_capacity(k, h)
            for i in range(at, at + held):
                rises &= not np.isnan(item[i]) and (i == at or item[i - 1] <= item[i])
            at += held
        fine[row] = rises and weight == n[row] and at == item_off[row + 1] and at - item_off[row] <= room
    return fine
