"""Kernels of the t-digest (tdigest.py): rows of centroids, sorted by their means."""

import math
from typing import NamedTuple

import numpy as np

from precompute.kernels import bare, kernel
from precompute.samples import F64, I32, I64, Bool
from precompute.sketches.columns import grown
from precompute.sketches.finite import Head, add_head, count_in, empty_head, finite_count, neighbours, outside

Centroids = tuple[I64, F64, I64]
"""Where each row's begin, int64[rows + 1]; means float64 and weights int64, row after row."""


class Step(NamedTuple):
    """One step of scale k1."""

    k: int
    cosine: float
    """Of 2π / k, and its sine, both rounded to 40 bits."""
    sine: float


def step_of(k: int) -> Step:
    """The step for at most k centroids."""
    return Step(k, round(math.cos(2 * math.pi / k) * 2**40) / 2**40, round(math.sin(2 * math.pi / k) * 2**40) / 2**40)


@bare
def _reach(share: float, step: Step) -> float:
    """The share of all weight up to which a centroid may reach that begins at `share`: one step of scale k1.

    That is (sin(asin(2 share - 1) + 2π / k) + 1) / 2, without a sine, whose last bit differs between machines.
    """
    x = 2 * share - 1
    if x >= step.cosine:
        return 1.0
    return (x * step.cosine + math.sqrt(1 - x * x) * step.sine + 1) / 2


@bare
def _squeeze(mean: F64, weight: I64, held: int, step: Step) -> int:
    """Join neighbours where their scale allows it, in place, if they are more than k; how many are left."""
    if held <= step.k:
        return held
    total = 0
    for i in range(held):
        total += weight[i]
    at, before = 0, 0
    limit = _reach(0.0, step) * total
    for i in range(1, held):
        both = weight[at] + weight[i]
        if before + both <= limit:
            if mean[i] != mean[at]:
                joined = mean[at] * (weight[at] / both) + mean[i] * (weight[i] / both)
                mean[at] = min(max(joined, mean[at]), mean[i])
            weight[at] = both
        else:
            before += weight[at]
            limit = _reach(before / total, step) * total
            at += 1
            mean[at], weight[at] = mean[i], weight[i]
    return at + 1


@bare
def _fold(mean: F64, weight: I64, held: int, mean2: F64, weight2: I64, step: Step) -> int:
    """Merge sorted centroids into the first `held` sorted ones, from the end, and squeeze; how many are left."""
    i, j = held - 1, len(mean2) - 1
    for at in range(held + len(mean2) - 1, -1, -1):
        if j < 0:
            break
        if i >= 0 and mean[i] > mean2[j]:
            mean[at], weight[at] = mean[i], weight[i]
            i -= 1
        else:
            mean[at], weight[at] = mean2[j], weight2[j]
            j -= 1
    left: int = _squeeze(mean, weight, held + len(mean2), step)
    return left


@kernel
def build(values: F64, present: Bool, shard: I32, order: I64, ends: I64, step: Step) -> tuple[Head, Centroids]:
    """Rows of values float64[P, n]; series of each group in `order`, as `by_target`. Each shard apart, then folded."""
    panes, groups = len(values), len(ends) - 1
    head = empty_head(panes * groups)
    off, means, weights = np.zeros(panes * groups + 1, np.int64), np.empty(1024), np.empty(1024, np.int64)
    mean, weight = np.empty(2 * step.k + 8), np.empty(2 * step.k + 8, np.int64)
    spell, ones = np.empty(values.shape[1]), np.empty(values.shape[1], np.int64)
    for row in range(panes * groups):
        p, g = divmod(row, groups)
        held, begin = 0, ends[g]
        while begin < ends[g + 1]:
            end, many, of = begin, 0, shard[order[begin]]
            while end < ends[g + 1] and shard[order[end]] == of:
                v = values[p, order[end]]
                if present[p, order[end]] and count_in(head, row, v):
                    spell[many], ones[many] = v, 1
                    many += 1
                end += 1
            spell[:many].sort()
            many = _squeeze(spell, ones, many, step)
            held = _fold(mean, weight, held, spell[:many], ones[:many], step)
            begin = end
        means, weights = grown(means, off[row] + held), grown(weights, off[row] + held)
        means[off[row] : off[row] + held], weights[off[row] : off[row] + held] = mean[:held], weight[:held]
        off[row + 1] = off[row] + held
    return head, (off, means[: off[-1]].copy(), weights[: off[-1]].copy())


@kernel
def merge(more: Head, rows: Centroids, order: I64, ends: I64, step: Step) -> tuple[Head, Centroids]:
    """Rows of the targets; sources of each target in `order`, as `by_target`."""
    off, means, weights = rows
    head = empty_head(len(ends) - 1)
    off2, means2, weights2 = np.zeros(len(ends), np.int64), np.empty(1024), np.empty(1024, np.int64)
    mean, weight = np.empty(2 * step.k + 8), np.empty(2 * step.k + 8, np.int64)
    for row in range(len(ends) - 1):
        held = 0
        for i in order[ends[row] : ends[row + 1]]:
            add_head(head, row, more, i)
            held = _fold(mean, weight, held, means[off[i] : off[i + 1]], weights[off[i] : off[i + 1]], step)
        means2, weights2 = grown(means2, off2[row] + held), grown(weights2, off2[row] + held)
        means2[off2[row] : off2[row] + held], weights2[off2[row] : off2[row] + held] = mean[:held], weight[:held]
        off2[row + 1] = off2[row] + held
    return head, (off2, means2[: off2[-1]].copy(), weights2[: off2[-1]].copy())


@kernel
def estimate(head: Head, rows: Centroids, phi: F64) -> F64:
    """PromQL's quantile, with order statistics read off the centroids; float64[rows]."""
    off, means, weights = rows
    out = np.empty(len(phi))
    for row in range(len(phi)):
        q = phi[row]
        if head[0][row] == 0 or np.isnan(q):
            out[row] = np.nan
        elif q < 0 or q > 1:
            out[row] = -np.inf if q < 0 else np.inf
        else:
            lower, upper, share = neighbours(head, row, q)
            here = slice(off[row], off[row + 1])
            a = _at_rank(head, row, lower, means[here], weights[here])
            b = _at_rank(head, row, upper, means[here], weights[here])
            out[row] = a * (1 - share) + b * share
    return out


@kernel
def _at_rank(head: Head, row: int, rank: int, mean: F64, weight: I64) -> float:
    """An order statistic: a straight line between the middles of centroids, from the smallest to the largest value."""
    last = finite_count(head, row) - 1
    if rank <= 0 or rank >= last:
        return float(outside(head, row, rank))
    place, left, value, before = rank + 0.5, 0.5, head[4][row], 0
    for i in range(len(mean)):
        middle = before + weight[i] / 2
        if place <= middle:
            return float(_between(place, left, value, middle, mean[i]))
        left, value, before = middle, mean[i], before + weight[i]
    return float(_between(place, left, value, last + 0.5, head[5][row]))


@bare
def _between(place: float, left: float, low: float, right: float, high: float) -> float:
    if place >= right or low == high:
        return high
    share = (place - left) / (right - left)
    return min(max(low * (1 - share) + high * share, low), high)


@kernel
def sound(head: Head, rows: Centroids, k: int) -> Bool:
    """Rows that other kernels may be given: sorted within the ends, weights that add up, at most k; bool[rows]."""
    off, means, weights = rows
    fine = np.zeros(len(off) - 1, np.bool_)
    for row in range(len(fine)):
        total, good = 0, off[row + 1] - off[row] <= k
        for i in range(off[row], off[row + 1]):
            good &= weights[i] >= 1 and head[4][row] <= means[i] <= head[5][row]
            good &= i == off[row] or means[i - 1] <= means[i]
            total += weights[i]
        fine[row] = good and total == finite_count(head, row)
    return fine
