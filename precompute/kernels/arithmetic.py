"""Arithmetic that must come out as PromQL's: compensated sums and the quantile of sorted values."""

import numpy as np

from precompute.kernels import kernel


@kernel
def add(x, total, comp):
    """Neumaier's compensated sum, one step: new (total, comp). An infinite total drops its compensation.

    Source: A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen" (1974).
    """
    t = total + x
    if np.isinf(t):
        return t, 0.0
    if abs(total) >= abs(x):
        return t, comp + ((total - t) + x)
    return t, comp + ((x - t) + total)


@kernel
def quantile_sorted(phi, values, n):
    """PromQL's quantile of values[:n], sorted with NaN smallest: linear between the two neighbours."""
    if n == 0 or np.isnan(phi):
        return np.nan
    if phi < 0:
        return -np.inf
    if phi > 1:
        return np.inf
    rank = phi * (n - 1)
    lower = max(0.0, np.floor(rank))
    upper = min(n - 1.0, lower + 1)
    weight = rank - np.floor(rank)
    return values[int(lower)] * (1 - weight) + values[int(upper)] * weight


@kernel
def sort_nan_first(values, n):
    """Sort values[:n] in place, NaN smallest, as PromQL does before it takes a quantile."""
    nans = 0
    for i in range(n):
        if np.isnan(values[i]):
            values[i] = values[nans]
            values[nans] = np.nan
            nans += 1
    values[nans:n].sort()


@kernel
def mean(values, lo, hi):
    """PromQL's mean of values[lo:hi]: compensated sum over count, incremental once the sum overflows."""
    total = values[lo]
    comp = 0.0
    count = 1.0
    k = lo + 1
    while k < hi:
        more, c = add(values[k], total, comp)
        if np.isinf(more):
            break
        total, comp, count = more, c, count + 1
        k += 1
    if k == hi:
        return total / count + comp / count
    average = total / count
    comp /= count
    while k < hi:
        count += 1
        share = (count - 1) / count
        average, comp = add(values[k] / count, share * average, share * comp)
        k += 1
    return average + comp
