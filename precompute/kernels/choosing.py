"""Kernels that choose k rows of each group at each step.

Common shapes: values float64[n, s], present bool[n, s], group int32[n] below `groups`, k int64[s];
results `chosen` bool[n, s], which the caller hands in zeroed.
"""

import numpy as np

from precompute.kernels import kernel


@kernel
def choose_best(values, present, group, groups, k, largest, chosen):
    """The k largest (or smallest) values; NaN is the worst, and of equal values the rows that come first win."""
    order, starts = _rows_by_group(group, groups)
    scratch = np.empty(len(group), np.float64)
    for s in range(values.shape[1]):
        if k[s] < 1:
            continue
        for g in range(groups):
            lo, hi = starts[g], starts[g + 1]
            numbers, held = 0, 0
            for at in range(lo, hi):
                i = order[at]
                if present[i, s]:
                    held += 1
                    if not np.isnan(values[i, s]):
                        scratch[numbers] = values[i, s] if largest else -values[i, s]
                        numbers += 1
            if held:
                _mark(values, present, order, lo, hi, s, k[s], largest, scratch[:numbers], held, chosen)


@kernel
def _mark(values, present, order, lo, hi, s, k, largest, numbers, held, chosen):
    """Mark one group's best k at one step; `numbers` are its values but NaN, turned so that the largest is best."""
    if k >= held:
        for at in range(lo, hi):
            chosen[order[at], s] = present[order[at], s]
        return
    m = len(numbers)
    worst, ties, nans = -np.inf, m, max(0, k - m)
    if k < m:
        worst = np.partition(numbers, m - k)[m - k]
        ties = k
        for j in range(m):
            ties -= numbers[j] > worst
    for at in range(lo, hi):
        i = order[at]
        if not present[i, s]:
            continue
        v = values[i, s] if largest else -values[i, s]
        if np.isnan(v):
            chosen[i, s] = nans > 0
            nans -= 1
        elif v > worst:
            chosen[i, s] = True
        elif v == worst:
            chosen[i, s] = ties > 0
            ties -= 1


@kernel
def choose_first(present, group, groups, k, chosen):
    """The first k rows that are present."""
    n, steps = present.shape
    taken = np.zeros((groups, steps), np.int64)
    for i in range(n):
        g = group[i]
        for s in range(steps):
            if present[i, s] and taken[g, s] < k[s]:
                chosen[i, s] = True
                taken[g, s] += 1


@kernel
def _rows_by_group(group, groups):
    """Row numbers group by group, in order of rows, int64[n], and where each group's begin, int64[groups + 1]."""
    starts = np.zeros(groups + 1, np.int64)
    for i in range(len(group)):
        starts[group[i] + 1] += 1
    for g in range(groups):
        starts[g + 1] += starts[g]
    fill = starts.copy()
    order = np.empty(len(group), np.int64)
    for i in range(len(group)):
        order[fill[group[i]]] = i
        fill[group[i]] += 1
    return order, starts
