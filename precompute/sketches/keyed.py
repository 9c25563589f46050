"""Items with keys: the distinct keys of each row, and which of the row's k best entries to keep.

What counts, sums or remembers something per key is built from these: `runs_of` numbers the entries (row, key),
and one pass over the items folds their values into the entries.
"""

import secrets
from dataclasses import dataclass

import numpy as np

from precompute.kernels import bare, inlined, kernel
from precompute.samples import F64, I32, I64, U64, Bool
from precompute.sketches.log_kernels import by_target

NO_LIMIT = np.iinfo(np.int64).max
_SALT = np.uint64(secrets.randbits(64))
"""Chosen anew by each process, so that nobody can choose keys that crowd a table; no result depends on it."""
_BYTE, _SIGN = np.uint64(255), np.uint64(1 << 63)
NOWHERE = -1
"""Place of what has none."""


@inlined
def mixed(key: np.uint64) -> np.uint64:
    """A bijection of uint64 whose every output bit depends on every input bit.

    Source: G. Steele, D. Lea, C. Flood 2014, "Fast splittable pseudorandom number generators" (SplitMix64's finish).
    """
    x = key + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class Runs:
    """The distinct keys of m items, row by row."""

    off: I64
    """Row r has `keys[off[r]:off[r + 1]]`; int64[rows + 1]."""
    keys: U64
    """Ascending in each run."""
    place: I64
    """Where in `keys` each item's key stands; NOWHERE where its row has no run. int64[m]"""
    over: Bool
    """Rows with more keys than the limit, and those said to be; they have no run. bool[rows]"""
    order: I64
    """The items row by row, in their order within each; int64[m]."""
    ends: I64
    """Row r has the items `order[ends[r]:ends[r + 1]]`; int64[rows + 1]."""

    @property
    def dense(self) -> I64:
        """The number of each row among those that are over, -1 for the others; int64[rows]."""
        return np.where(self.over, np.cumsum(self.over) - 1, NOWHERE)


def runs_of(row: I32 | I64, key: U64, rows: int, limit: int = NO_LIMIT, over: Bool | None = None) -> Runs:
    """The runs of items (row, key); rows with more than `limit` distinct keys, and those already `over`, have none."""
    order, ends = by_target(row.astype(np.int64), rows)
    over = np.zeros(rows, np.bool_) if over is None else over
    off, keys, place, over = runs_by_key(key, order, ends, over, limit, _SALT)
    return Runs(off, keys, place, over, order, ends)


def rows_of_runs(off: I64, into: I32 | I64) -> I64:
    """The target row of each entry of runs that are merged `into` rows; int64[off[-1]]."""
    return np.repeat(into.astype(np.int64), np.diff(off))


def full_runs(off: I64) -> I64:
    """The rows that have a run, ascending."""
    return np.flatnonzero(np.diff(off))


@kernel
def runs_by_key(
    key: U64, order: I64, ends: I64, skip: Bool, limit: int, salt: np.uint64
) -> tuple[I64, U64, I64, Bool]:
    """See Runs: off, keys, place and over. key uint64[m]; order, ends as `by_target`; skip bool[rows]."""
    rows = len(ends) - 1
    off, place, over = np.zeros(rows + 1, np.int64), np.full(len(key), NOWHERE, np.int64), skip.copy()
    found, table = np.empty(1024, np.uint64), np.empty(64, np.int64)
    for row in range(rows):
        off[row + 1] = off[row]
        if over[row]:
            continue
        start, n, size = off[row], 0, 16
        table[:size] = NOWHERE
        for at in range(ends[row], ends[row + 1]):
            k = key[order[at]]
            slot = _slot(found, start, table, size, k, salt)
            if table[slot] == NOWHERE:
                if n == limit:
                    over[row] = True
                    break
                if start + n == len(found):
                    found = np.concatenate((found, np.empty_like(found)))
                found[start + n], table[slot] = k, n
                n += 1
                if 2 * n > size:
                    size *= 4
                    if size > len(table):
                        table = np.empty(size, np.int64)
                    _fill(found, start, n, table, size, salt)
                place[order[at]] = n - 1
            else:
                place[order[at]] = table[slot]
        items = order[ends[row] : ends[row + 1]]
        if over[row]:
            for i in items:
                place[i] = NOWHERE
        else:
            _sort_run(found[start : start + n], start, items, place)
            off[row + 1] = start + n
    return off, found[: off[rows]].copy(), place, over


@bare
def _slot(found: U64, start: int, table: I64, size: int, key: np.uint64, salt: np.uint64) -> np.int64:
    """Where `key` stands in the table of indices into `found[start:]`, or the free slot it would take."""
    slot = np.int64(mixed(key ^ salt) & np.uint64(size - 1))
    while table[slot] != NOWHERE and found[start + table[slot]] != key:
        slot = (slot + 1) & (size - 1)
    return slot


@bare
def _fill(found: U64, start: int, n: int, table: I64, size: int, salt: np.uint64) -> None:
    """Put the keys `found[start : start + n]` into an empty table."""
    table[:size] = NOWHERE
    for i in range(n):
        table[_slot(found, start, table, size, found[start + i], salt)] = i


@kernel
def _sort_run(run: U64, start: int, items: I64, place: I64) -> None:
    """Sort one row's keys and turn its items' places from order of arrival within the row to places in all runs."""
    if len(run) == 1:
        for i in items:
            place[i] = start
        return
    by_key = _ascending(run)
    run[:] = run[by_key]
    rank = np.empty(len(run), np.int64)
    for r in range(len(run)):
        rank[by_key[r]] = r
    for i in items:
        place[i] = start + rank[place[i]]


@kernel
def _ascending(keys: U64) -> I64:
    """Indices that sort keys, equal ones in their order; long runs byte by byte, so that no input is a slow one."""
    n, order = len(keys), np.arange(len(keys))
    if n < 64:
        for i in range(1, n):
            j = i
            while j > 0 and keys[order[j - 1]] > keys[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        return order
    counts = np.zeros((8, 256), np.int64)
    for k in keys:
        for byte in range(8):
            counts[byte, np.int64((k >> np.uint64(8 * byte)) & _BYTE)] += 1
    other = np.empty_like(order)
    for byte in range(8):
        if counts[byte].max() == n:
            continue
        place = np.cumsum(counts[byte]) - counts[byte]
        for entry in order:
            digit = np.int64((keys[entry] >> np.uint64(8 * byte)) & _BYTE)
            other[place[digit]] = entry
            place[digit] += 1
        order, other = other, order
    return order


@kernel
def find_in_runs(off: I64, keys: U64, row: I64, key: U64) -> I64:
    """The place in `keys` of each (row, key), NOWHERE where it is not; runs ascend."""
    out = np.empty(len(row), np.int64)
    for i in range(len(row)):
        lo, hi = off[row[i]], off[row[i] + 1]
        at = lo + np.searchsorted(keys[lo:hi], key[i])
        out[i] = at if at < hi and keys[at] == key[i] else NOWHERE
    return out


@kernel
def sums_by_place(place: I64, value: F64, n: int) -> F64:
    """The sum of the values at each place, in their order; finite and not negative. Places NOWHERE are left out.

    Compensated as `exact.SUM`, and rounded once.
    """
    total, comp = np.zeros(n), np.zeros(n)
    for i in range(len(place)):
        if place[i] != NOWHERE:
            add_into(total, comp, place[i], value[i])
    for k in range(n):
        total[k] = folded(total[k], comp[k])
    return total


@inlined
def add_into(total: F64, comp: F64, at: int, value: float) -> None:
    """Neumaier's step on item `at` of two columns."""
    before = total[at]
    t = before + value
    comp[at] += (before - t) + value if abs(before) >= abs(value) else (value - t) + before
    total[at] = t


@inlined
def folded(total: float, comp: float) -> float:
    """A compensated sum as one float; the compensation of a sum that overflowed means nothing."""
    return total if np.isinf(total) else total + comp


@kernel
def best_of_runs(off: I64, score: I64, k: int) -> tuple[I64, I64]:
    """Indices of the k entries with the largest scores of each run, best first, and their offsets.

    Of equal scores the entry that stands first in its run is the better.
    """
    rows = len(off) - 1
    kept = np.zeros(rows + 1, np.int64)
    for row in range(rows):
        kept[row + 1] = kept[row] + min(k, off[row + 1] - off[row])
    picks = np.empty(kept[rows], np.int64)
    for row in range(rows):
        best_first = _ascending((~score[off[row] : off[row + 1]]).view(np.uint64) ^ _SIGN)
        picks[kept[row] : kept[row + 1]] = best_first[: kept[row + 1] - kept[row]] + off[row]
    return picks, kept


def nth_of_runs(off: I64, flat: F64, nth: float | F64 | U64) -> F64:
    """The item that stands `nth`, from 1 on, in each run, NaN where it has none; nth one, or one per row."""
    wanted = np.broadcast_to(np.asarray(nth, np.float64), len(off) - 1)
    there = (wanted >= 1) & (wanted <= np.diff(off))
    out = np.full(len(wanted), np.nan)
    out[there] = flat[off[:-1][there] + wanted[there].astype(np.int64) - 1]
    return out
