"""Walks: samples of one series in order of time, as far as changes, resets and the increase need them; see seams.py."""

import numpy as np

from precompute.kernels import inlined, kernel
from precompute.kernels.arithmetic import add
from precompute.kernels.over_time import extrapolated
from precompute.samples import F64, I64

WHOLE = ("n", "first_ms", "last_ms", "overlaps", "resets", "changes")
REAL = ("first", "last", "added", "comp")
"""What a walk consists of, in the order of the planes that kernels take: int64[6, rows] and float64[4, rows].

n samples; time and value of the oldest and the newest; how often what was joined did not come later; how often the
value fell, and how often it changed; added and comp: the compensated sum of the values that a reset fell from.
All zero where n is 0."""

N, FIRST_MS, LAST_MS, OVERLAPS, RESETS, CHANGES = range(6)
FIRST, LAST, ADDED, COMP = range(4)
DELTA, INCREASE, RATE = range(3)
"""What `extrapolate` computes."""


@kernel
def join_walks(whole: I64, real: F64, into: I64, rows: int) -> tuple[I64, F64]:
    """Walks put behind each other, each target's in order of time; what is not so is counted as an overlap."""
    w, r = np.zeros((rows, 6), np.int64), np.zeros((rows, 4))
    for i in range(len(into)):
        if whole[N, i] == 0:
            continue
        to, first = into[i], real[FIRST, i]
        if w[to, N]:
            last = r[to, LAST]
            w[to, OVERLAPS] += whole[FIRST_MS, i] <= w[to, LAST_MS]
            if first < last:
                w[to, RESETS] += 1
                r[to, ADDED], r[to, COMP] = add(last, r[to, ADDED], r[to, COMP])
            # PromQL's changes(): NaN to NaN is none
            w[to, CHANGES] += first != last and not (np.isnan(first) and np.isnan(last))
        else:
            w[to, FIRST_MS], r[to, FIRST] = whole[FIRST_MS, i], first
        w[to, LAST_MS], r[to, LAST] = whole[LAST_MS, i], real[LAST, i]
        w[to, N] += whole[N, i]
        if whole[N, i] > 1:  # one sample has no steps
            w[to, OVERLAPS] += whole[OVERLAPS, i]
            w[to, RESETS] += whole[RESETS, i]
            w[to, CHANGES] += whole[CHANGES, i]
            r[to, ADDED], r[to, COMP] = add(real[ADDED, i], r[to, ADDED], r[to, COMP] + real[COMP, i])
    return w.T.copy(), r.T.copy()


@kernel
def join_ends(whole: I64, real: F64, into: I64, rows: int) -> tuple[I64, F64]:
    """Oldest and newest samples of walks in any order; planes N to LAST_MS and FIRST to LAST.

    Of two samples of one time the one that DESIGN's rule chooses: a number beats NaN, then the larger.
    """
    w, r = np.zeros((3, rows), np.int64), np.zeros((2, rows))
    for i in range(len(into)):
        if whole[N, i]:
            to, empty = into[i], w[N, into[i]] == 0
            w[N, to] += whole[N, i]
            t, v = whole[FIRST_MS, i], real[FIRST, i]
            if empty or t < w[FIRST_MS, to] or (t == w[FIRST_MS, to] and _beats(v, r[FIRST, to])):
                w[FIRST_MS, to], r[FIRST, to] = t, v
            t, v = whole[LAST_MS, i], real[LAST, i]
            if empty or t > w[LAST_MS, to] or (t == w[LAST_MS, to] and _beats(v, r[LAST, to])):
                w[LAST_MS, to], r[LAST, to] = t, v
    return w, r


@inlined
def _beats(a: float, b: float) -> bool:
    return a > b or (np.isnan(b) and not np.isnan(a)) or (a == b and np.signbit(b) and not np.signbit(a))


@kernel
def extrapolate(whole: I64, real: F64, what: int, until_ms: I64, range_ms: I64) -> F64:
    """PromQL's delta, increase or rate of each row over `(until - range, until]`; NaN of fewer than two samples, and
    where walks overlapped.

    Raises ValueError where a window does not hold all samples of its row.
    """
    out = np.full(whole.shape[1], np.nan)
    for row in range(len(out)):
        w, r = whole[:, row], real[:, row]
        if w[N] and not w[OVERLAPS] and not until_ms[row] - range_ms[row] < w[FIRST_MS] <= w[LAST_MS] <= until_ms[row]:
            raise ValueError("the window does not hold all samples of the summary")
        if w[N] >= 2 and not w[OVERLAPS]:
            difference = r[LAST] - r[FIRST]
            if what != DELTA:
                difference += r[ADDED] + r[COMP]
            out[row] = extrapolated(
                difference, what != DELTA, what == RATE, w[N], w[FIRST_MS], r[FIRST], w[LAST_MS], until_ms[row],
                range_ms[row],
            )  # fmt: skip
    return out
