"""Kernels of aggregations that no accumulator answers exactly: quantiles, and means whose sum overflows."""

import numpy as np

from precompute.kernels import kernel
from precompute.kernels.arithmetic import mean
from precompute.kernels.quantiles import quantile

_STEPS = 8
"""Steps gathered in one pass over the rows: as many values as a cache line holds."""


@kernel
def group_quantiles(values, present, group, phi, begin, end, out):
    """Exact φ-quantiles as PromQL takes them, of steps begin to end - 1, put into out float64[groups, s].

    values float64[n, s], present bool[n, s], group int32[n], phi float64[s]; a group without values is left as it is
    """
    n, groups = len(group), len(out)
    gathered = np.empty((_STEPS, n), np.float64)
    for first in range(begin, end, _STEPS):
        last = min(end, first + _STEPS)
        starts = _gather(values, present, group, groups, first, last, gathered)
        for s in range(first, last):
            for g in range(groups):
                lo, hi = starts[s - first, g], starts[s - first, g + 1]
                if hi > lo:
                    out[g, s] = quantile(gathered[s - first, lo:hi], phi[s])
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
