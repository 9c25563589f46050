"""Kernels of aggregations that no accumulator answers exactly: quantiles, and means whose sum overflows."""

import numpy as np

from precompute.kernels import kernel
from precompute.kernels.arithmetic import mean

_STEPS = 8
"""Steps gathered in one pass over the rows: as many values as a cache line holds."""


@kernel
def group_quantiles(values, present, group, groups, phi):
    """Exact φ-quantiles as PromQL takes them: float64[groups, s]; NaN for a group without values.

    values float64[n, s], present bool[n, s], group int32[n], phi float64[s]
    """
    n, steps = values.shape
    out = np.full((groups, steps), np.nan)
    gathered = np.empty((_STEPS, n), np.float64)
    for first in range(0, steps, _STEPS):
        last = min(steps, first + _STEPS)
        starts = _gather(values, present, group, groups, first, last, gathered)
        for s in range(first, last):
            for g in range(groups):
                lo, hi = starts[s - first, g], starts[s - first, g + 1]
                if hi > lo:
                    out[g, s] = _quantile(gathered[s - first, lo:hi], phi[s])
    return out


@kernel
def group_means(values, present, group, groups):
    """PromQL's mean of each group at each step, float64[groups, s]; NaN for a group without values."""
    n, steps = values.shape
    out = np.full((groups, steps), np.nan)
    gathered = np.empty((_STEPS, n), np.float64)
    for first in range(0, steps, _STEPS):
        last = min(steps, first + _STEPS)
        starts = _gather(values, present, group, groups, first, last, gathered)
        for s in range(first, last):
            for g in range(groups):
                lo, hi = starts[s - first, g], starts[s - first, g + 1]
                if hi > lo:
                    out[g, s] = mean(gathered[s - first], lo, hi)
    return out


@kernel
def _gather(values, present, group, groups, first, last, gathered):
    """Put the values of steps [first, last) group by group into `gathered` float64[_STEPS, n], a row a step.

    Where each group's begin in its row: int64[_STEPS, groups + 1].
    """
    starts = np.zeros((_STEPS, groups + 1), np.int64)
    for i in range(len(group)):
        for s in range(first, last):
            starts[s - first, group[i] + 1] += present[i, s]
    for k in range(last - first):
        for g in range(groups):
            starts[k, g + 1] += starts[k, g]
    fill = starts.copy()
    for i in range(len(group)):
        g = group[i]
        for s in range(first, last):
            if present[i, s]:
                gathered[s - first, fill[s - first, g]] = values[i, s]
                fill[s - first, g] += 1
    return starts


@kernel
def _quantile(values, phi):
    """The φ-quantile of `values`, which it reorders; NaN counts as smallest."""
    n = len(values)
    if np.isnan(phi):
        return np.nan
    if phi < 0:
        return -np.inf
    if phi > 1:
        return np.inf
    rank = phi * (n - 1)
    lower = int(max(0.0, np.floor(rank)))
    upper = min(n - 1, lower + 1)
    weight = rank - np.floor(rank)
    nans = 0
    for i in range(n):
        if np.isnan(values[i]):
            values[i], values[nans] = values[nans], values[i]
            nans += 1
    return _ranked(values, nans, lower) * (1 - weight) + _ranked(values, nans, upper) * weight


@kernel
def _ranked(values, nans, k):
    """The value at rank k, the first `nans` of which are NaN (quickselect, median of three)."""
    if k < nans:
        return np.nan
    lo, hi = nans, len(values) - 1
    while lo < hi:
        mid = (lo + hi) // 2
        a, b, c = values[lo], values[mid], values[hi]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = lo, hi
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            hi = j
        elif k >= i:
            lo = i
        else:
            break
    return values[k]
