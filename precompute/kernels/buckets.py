"""Kernels of classic histograms: quantiles and fractions out of cumulative bucket counts.

Common shapes: rows are buckets, histogram by histogram and each by ascending upper bound: `bounds` float64[n],
`values` float64[n, s], `present` bool[n, s]; `starts` int64[h + 1]: where each histogram's rows begin; results `out`
float64[h, s] and `found` bool[h, s], which the caller hands in zeroed. A histogram is found where it has a bucket.
Meanings: Prometheus 3, promql/quantile.go.
"""

import numpy as np

from precompute.kernels import kernel

_SMALL_DELTA = 1e-12
"""Relative differences between neighbouring counts that are taken for rounding."""

_SMALLEST_NORMAL = 2.2250738585072014e-308


@kernel
def bucket_quantiles(bounds, values, present, starts, phi, out, found, fixes):
    """The φ-quantiles; phi float64[s].

    fixes float64[h, s, 3], zeroed by the caller: where counts had to be made monotonic, the largest difference and the
    smallest and largest bound at which that was done
    """
    widest = 0
    for h in range(len(out)):
        widest = max(widest, starts[h + 1] - starts[h])
    upper = np.empty(widest, np.float64)
    count = np.empty(widest, np.float64)
    for h in range(len(out)):
        for s in range(out.shape[1]):
            n = _gather(bounds, values, present, starts[h], starts[h + 1], s, upper, count)
            if n > 0:
                found[h, s] = True
                out[h, s] = _quantile(phi[s], upper, count, n, fixes[h, s])


@kernel
def bucket_fractions(bounds, values, present, starts, lower, above, out, found):
    """The fractions of observations between lower float64[s] and above float64[s]."""
    widest = 0
    for h in range(len(out)):
        widest = max(widest, starts[h + 1] - starts[h])
    upper = np.empty(widest, np.float64)
    count = np.empty(widest, np.float64)
    for h in range(len(out)):
        for s in range(out.shape[1]):
            n = _gather(bounds, values, present, starts[h], starts[h + 1], s, upper, count)
            if n > 0:
                found[h, s] = True
                out[h, s] = _fraction(lower[s], above[s], upper, count, n)


@kernel
def _gather(bounds, values, present, first, last, s, upper, count):
    """The buckets of one histogram at step s, those of equal bounds added up; how many."""
    n = 0
    for row in range(first, last):
        if not present[row, s]:
            continue
        if n > 0 and upper[n - 1] == bounds[row]:
            count[n - 1] += values[row, s]
        else:
            upper[n] = bounds[row]
            count[n] = values[row, s]
            n += 1
    return n


@kernel
def _quantile(phi, upper, count, n, fix):
    if np.isnan(phi):
        return np.nan
    if phi < 0:
        return -np.inf
    if phi > 1:
        return np.inf
    if upper[n - 1] != np.inf:
        return np.nan
    _make_monotonic(upper, count, n, fix)
    if n < 2 or count[n - 1] == 0:
        return np.nan
    rank = phi * count[n - 1]
    b = _first_at_least(rank, count, n - 1)
    if b == n - 1:
        return upper[n - 2]
    if b == 0 and upper[0] <= 0:
        return upper[0]
    below = upper[b - 1] if b > 0 else 0.0
    before = count[b - 1] if b > 0 else 0.0
    return below + (upper[b] - below) * np.divide(rank - before, count[b] - before)


@kernel
def _first_at_least(rank, count, n):
    """Binary search among count[:n]; n if all are smaller."""
    lo, hi = 0, n
    while lo < hi:
        mid = (lo + hi) // 2
        if count[mid] >= rank:
            hi = mid
        else:
            lo = mid + 1
    return lo


@kernel
def _make_monotonic(upper, count, n, fix):
    """Counts that never fall: rounding errors are ignored in silence, real decreases are noted in `fix`."""
    before = count[0]
    for i in range(1, n):
        here = count[i]
        if here == before:
            continue
        if _nearly_equal(before, here):
            count[i] = before
        elif here < before:
            count[i] = before
            fix[1] = upper[i] if fix[0] == 0 else min(fix[1], upper[i])
            fix[2] = upper[i] if fix[0] == 0 else max(fix[2], upper[i])
            fix[0] = max(fix[0], before - here)
        else:
            before = here


@kernel
def _nearly_equal(a, b):
    """Prometheus' util/almost with the tolerance of small deltas."""
    if np.isnan(a) and np.isnan(b):
        return True
    total, difference = abs(a) + abs(b), abs(a - b)
    if a == 0 or b == 0 or total < _SMALLEST_NORMAL:
        return difference < _SMALL_DELTA * _SMALLEST_NORMAL
    return difference / min(total, 1.7976931348623157e308) < _SMALL_DELTA


@kernel
def _fraction(lower, above, upper, count, n):
    total = count[n - 1]
    if upper[n - 1] != np.inf or total == 0 or np.isnan(lower) or np.isnan(above):
        return np.nan
    if lower >= above:
        return 0.0
    share = _rank_at(above, upper, count, n) - _rank_at(lower, upper, count, n)
    return np.divide(share, total)


@kernel
def _rank_at(value, upper, count, n):
    """How many observations lie below `value`: linear within a bucket, none within an infinite one."""
    below = -np.inf if upper[0] <= 0 else 0.0
    rank = 0.0
    for i in range(n):
        if below >= value:
            break
        if upper[i] > value:
            if below == -np.inf:
                rank = count[i]
            else:
                rank += np.divide((count[i] - rank) * (value - below), upper[i] - below)
            break
        rank = count[i]
        below = upper[i]
    return count[n - 1] if rank > count[n - 1] else rank
