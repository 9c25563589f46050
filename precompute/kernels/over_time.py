"""Kernels of range functions that fit a line, smooth, take deviations or tell times; see kernels.selectors.

Common shapes: `t_ms` int64[], `values` float64[]: a series' samples; a window is samples lo to hi - 1, at least one.
"""

import numpy as np

from precompute.kernels import kernel
from precompute.kernels.arithmetic import add, quantile_sorted, sort_nan_first


@kernel
def extrapolated(difference, counter, per_second, n, first_ms, first, last_ms, end_ms, range_ms):
    """The difference over n >= 2 samples, extrapolated towards the edges of the window `(end - range, end]`.

    counter: it never lay below zero, so the window's start is no earlier than where it would have been zero.
    Source: Prometheus, extrapolatedRate.
    """
    to_start = (first_ms - (end_ms - range_ms)) / 1000
    to_end = (end_ms - last_ms) / 1000
    sampled = (last_ms - first_ms) / 1000
    spacing = sampled / (n - 1)
    threshold = spacing * 1.1
    if to_start >= threshold:
        to_start = spacing / 2
    if counter and difference > 0 and first >= 0:
        to_start = min(to_start, sampled * (first / difference))
    if to_end >= threshold:
        to_end = spacing / 2
    factor = (sampled + to_start + to_end) / sampled
    if per_second:
        factor /= range_ms / 1000
    return difference * factor


@kernel
def regression(t_ms, values, lo, hi, origin_ms):
    """Slope per second and value at `origin_ms` of the least-squares line through a window of two samples or more.

    Compensated sums, and a constant for values that are all equal, as Prometheus' linear regression.
    """
    constant = True
    sum_x, c_x, sum_y, c_y, sum_xy, c_xy, sum_x2, c_x2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(lo, hi):
        y = values[k]
        if k > lo and y != values[lo]:
            constant = False
        x = (t_ms[k] - origin_ms) / 1000
        sum_x, c_x = add(x, sum_x, c_x)
        sum_y, c_y = add(y, sum_y, c_y)
        sum_xy, c_xy = add(x * y, sum_xy, c_xy)
        sum_x2, c_x2 = add(x * x, sum_x2, c_x2)
    if constant:
        return (np.nan, np.nan) if np.isinf(values[lo]) else (0.0, values[lo])
    n = float(hi - lo)
    sum_x, sum_y, sum_xy, sum_x2 = sum_x + c_x, sum_y + c_y, sum_xy + c_xy, sum_x2 + c_x2
    covariance = sum_xy - sum_x * sum_y / n
    variance = sum_x2 - sum_x * sum_x / n
    slope = np.divide(covariance, variance)
    return slope, sum_y / n - slope * sum_x / n


@kernel
def smoothed(values, lo, hi, smoothing, trend):
    """The last value of a double exponential smoothing with these factors, of a window of two samples or more.

    Source: Prometheus, double_exponential_smoothing: the trend before the second sample is the first difference.
    """
    before, level = 0.0, values[lo]
    slope = values[lo + 1] - values[lo]
    for k in range(lo + 1, hi):
        if k > lo + 1:
            slope = trend * (level - before) + (1 - trend) * slope
        before, level = level, smoothing * values[k] + (1 - smoothing) * (level + slope)
    return level


@kernel
def median_deviation(values, lo, hi, scratch):
    """The median of the distances to the median; NaN as soon as one value is. scratch float64[>= hi - lo]."""
    n = hi - lo
    for k in range(n):
        if np.isnan(values[lo + k]):
            return np.nan
        scratch[k] = values[lo + k]
    sort_nan_first(scratch, n)
    median = quantile_sorted(0.5, scratch, n)
    for k in range(n):
        scratch[k] = abs(scratch[k] - median)
    sort_nan_first(scratch, n)
    return quantile_sorted(0.5, scratch, n)


@kernel
def last_extreme(smallest, values, lo, hi):
    """The index of the newest sample that has the window's smallest or largest value; NaN only if all are."""
    best = lo
    for k in range(lo, hi):
        better = values[k] <= values[best] if smallest else values[k] >= values[best]
        if better or np.isnan(values[best]):
            best = k
    return best
