"""Kernels over rows of the quantile sketches that halve: build, merge and estimate (compactor_kernels.py: one row)."""

import math

import numpy as np

from precompute.kernels import kernel
from precompute.samples import F64, I32, I64, U8, U64, Bool
from precompute.sketches.columns import grown
from precompute.sketches.compactor_kernels import Scratch, clear, finish, flatten, fold, scratch, take

Rows = tuple[I64, I64, F64, F64, I64, I64, U64, U8, I64, F64]
"""n, nans, low, high, size_off, size, rounds, coin, item_off, item; as columns, but size is int64."""


@kernel
def empty_rows(rows: int) -> Rows:
    """Rows to be written by `put`, one after another."""
    return (
        np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.empty(rows), np.empty(rows),
        np.zeros(rows + 1, np.int64), np.empty(256, np.int64), np.empty(256, np.uint64), np.empty(256, np.uint8),
        np.zeros(rows + 1, np.int64), np.empty(4096),
    )  # fmt: skip


@kernel
def put(out: Rows, row: int, s: Scratch) -> Rows:
    """The rows, with `s` in its flat form as the next one."""
    n, nans, low, high, size_off, size, rounds, coin, item_off, item = out
    n[row], nans[row], low[row], high[row] = s.head[3], s.head[4], s.ends[0], s.ends[1]
    levels, at, start = finish(s), size_off[row], item_off[row]
    size, rounds, coin = grown(size, at + levels), grown(rounds, at + levels), grown(coin, at + levels)
    item = grown(item, start + s.head[1])
    size[at : at + levels] = s.size[:levels]
    rounds[at : at + levels] = s.rounds[:levels]
    coin[at : at + levels] = s.coin[:levels]
    flatten(s, item[start:])
    size_off[row + 1], item_off[row + 1] = at + levels, start + s.head[1]
    return n, nans, low, high, size_off, size, rounds, coin, item_off, item


@kernel
def build(values: F64, present: Bool, shard: I32, order: I64, ends: I64, k: int, upper: bool, levels: int) -> Rows:
    """Rows of values float64[P, n]; series of each group in `order`, as `by_target`. Each shard apart, then folded."""
    panes, groups = len(values), len(ends) - 1
    whole, part = scratch(k, upper, levels), scratch(k, upper, levels)
    out: Rows = empty_rows(panes * groups)
    flat, spell = np.empty(len(whole.spare)), np.empty(values.shape[1])
    for p in range(panes):
        for g in range(groups):
            clear(whole)
            begin = ends[g]
            while begin < ends[g + 1]:
                end, held, of = begin, 0, shard[order[begin]]
                while end < ends[g + 1] and shard[order[end]] == of:
                    if present[p, order[end]]:
                        spell[held] = values[p, order[end]]
                        held += 1
                    end += 1
                _fold_values(whole, part, spell[:held], flat)
                begin = end
            out = put(out, p * groups + g, whole)
    return out


@kernel
def _fold_values(whole: Scratch, part: Scratch, values: F64, flat: F64) -> None:
    """Fold the values of one shard, as a row of their own, into the whole."""
    clear(part)
    take(part, values)
    levels = finish(part)
    flatten(part, flat)
    fold(
        whole, part.head[3], part.head[4], part.ends[0], part.ends[1],
        part.size[:levels], part.rounds[:levels], part.coin[:levels], flat,
    )  # fmt: skip


@kernel
def merge(rows: Rows, order: I64, ends: I64, k: int, upper: bool, levels: int) -> Rows:
    """Rows of the targets; sources of each target in `order`, as `by_target`."""
    n, nans, low, high, size_off, size, rounds, coin, item_off, item = rows
    whole = scratch(k, upper, levels)
    out: Rows = empty_rows(len(ends) - 1)
    for target in range(len(ends) - 1):
        clear(whole)
        for i in order[ends[target] : ends[target + 1]]:
            here = slice(size_off[i], size_off[i + 1])
            fold(
                whole, n[i], nans[i], low[i], high[i], size[here], rounds[here], coin[here],
                item[item_off[i] : item_off[i + 1]],
            )  # fmt: skip
        out = put(out, target, whole)
    return out


@kernel
def estimate(rows: Rows, phi: F64) -> F64:
    """PromQL's quantile of what each row's items stand for; float64[rows]."""
    n, nans, low, high, size_off, size, _, _, item_off, item = rows
    out, widest = np.empty(len(n)), 1
    for row in range(len(n)):
        widest = max(widest, item_off[row + 1] - item_off[row])
    value, weight = np.empty((2, widest)), np.empty((2, widest), np.int64)
    for row in range(len(n)):
        q = phi[row]
        if n[row] == 0 or np.isnan(q):
            out[row] = np.nan
        elif q < 0 or q > 1:
            out[row] = -np.inf if q < 0 else np.inf
        else:
            sizes = size[size_off[row] : size_off[row + 1]]
            side, held = _by_value(sizes, item[item_off[row] : item_off[row + 1]], value, weight)
            rank = q * (n[row] - 1)
            lower = math.floor(rank)
            upper = min(lower + 1, n[row] - 1)
            share, numbers = rank - lower, n[row] - nans[row]
            a = _at_rank(lower - nans[row], numbers, low[row], high[row], value[side, :held], weight[side, :held])
            b = _at_rank(upper - nans[row], numbers, low[row], high[row], value[side, :held], weight[side, :held])
            out[row] = a * (1 - share) + b * share
    return out


@kernel
def _by_value(size: I64, item: F64, value: F64, weight: I64) -> tuple[int, int]:
    """Items and their weights in ascending order, in one of two sides of value and weight [2, …]; which, how many."""
    side, held, begin = 0, 0, 0
    for h in range(len(size)):
        i, j, end = 0, begin, begin + size[h]
        for at in range(held + size[h]):
            if j == end or (i < held and value[side, i] <= item[j]):
                value[1 - side, at], weight[1 - side, at] = value[side, i], weight[side, i]
                i += 1
            else:
                value[1 - side, at], weight[1 - side, at] = item[j], 1 << h
                j += 1
        side, held, begin = 1 - side, held + size[h], end
    return side, held


@kernel
def _at_rank(rank: int, numbers: int, low: float, high: float, value: F64, weight: I64) -> float:
    """The order statistic of this rank among the numbers, NaN below; the smallest and the largest are exact."""
    if rank < 0:
        return np.nan
    if rank == 0:
        return low
    if rank >= numbers - 1:
        return high
    below = 0
    for i in range(len(value)):
        below += weight[i]
        if rank < below:
            return float(value[i])
    return high
