"""Kernels that read selectors out of the head, for many steps in one pass over each series.

Common shapes: `sids` int32[n]; `times` int64[s] ascending, ms; results in rows `rows` int64[n] of `out` float64[m, s]
and `present` bool[m, s], which the caller hands in zeroed. Series in order of their ids are read fastest: their
samples lie side by side.
"""

import numpy as np

from precompute.kernels import bare, inlined, kernel
from precompute.kernels.arithmetic import add, mean
from precompute.kernels.head import collect, most_held, newest
from precompute.kernels.over_time import extrapolated, last_extreme, median_deviation, regression, smoothed
from precompute.kernels.quantiles import quantile

_STALE_BITS = np.int64(0x7FF0000000000002)

RANGE_FUNCTIONS = (
    "rate", "increase", "delta", "irate", "idelta", "changes", "resets",
    "avg_over_time", "sum_over_time", "min_over_time", "max_over_time", "count_over_time",
    "last_over_time", "present_over_time", "stddev_over_time", "stdvar_over_time", "quantile_over_time",
    "first_over_time", "mad_over_time", "deriv", "predict_linear", "double_exponential_smoothing",
    "ts_of_first_over_time", "ts_of_last_over_time", "ts_of_min_over_time", "ts_of_max_over_time",
)  # fmt: skip
"""Functions of a range vector, in the order of their codes in `window_value`."""

(
    RATE, INCREASE, DELTA, IRATE, IDELTA, CHANGES, RESETS, AVG, SUM, MIN, MAX, COUNT, LAST, PRESENT,
    STDDEV, STDVAR, QUANTILE, FIRST, MAD, DERIV, PREDICT, SMOOTH, T_FIRST, T_LAST, T_MIN, T_MAX,
) = range(26)  # fmt: skip


@inlined
def _is_stale(x):
    return np.float64(x).view(np.int64) == _STALE_BITS


@kernel
def instant_values(h, sids, rows, times, lookback_ms, out, present):
    """The newest value in `(time - lookback, time]` at each step, unless it is a staleness marker."""
    if len(times) == 1:
        for i in range(len(sids)):
            slot, t = newest(h, sids[i], times[0])
            if slot >= 0 and t > times[0] - lookback_ms and not _is_stale(h.val[slot]):
                out[rows[i], 0] = h.val[slot]
                present[rows[i], 0] = True
        return
    size = most_held(h, sids)
    t_ms = np.empty(size, np.int64)
    values = np.empty(size, np.float64)
    for i in range(len(sids)):
        n = collect(h, sids[i], times[0] - lookback_ms, times[-1], t_ms, values)
        k = 0
        for step in range(len(times)):
            while k < n and t_ms[k] <= times[step]:
                k += 1
            if k > 0 and t_ms[k - 1] > times[step] - lookback_ms and not _is_stale(values[k - 1]):
                out[rows[i], step] = values[k - 1]
                present[rows[i], step] = True


@kernel
def instant_times(h, sids, rows, times, lookback_ms, out, present):
    """The times, in seconds, of the samples that `instant_values` finds."""
    for i in range(len(sids)):
        for step in range(len(times)):
            slot, t = newest(h, sids[i], times[step])
            if slot >= 0 and t > times[step] - lookback_ms and not _is_stale(h.val[slot]):
                out[rows[i], step] = t / 1000
                present[rows[i], step] = True


_CODE, _RANGE_MS, _BEGIN, _END = range(4)
"""The columns of looks."""


@kernel
def range_values(h, sids, rows, looks, times, parameters, out, present):
    """Range functions over `(time - range, time]`, all in one visit to each series; staleness markers are no samples.

    looks        int64[q, 4]: each one's index in RANGE_FUNCTIONS, its range, and where its times begin and end
    times        int64[s], those of each look, of which there is at least one, ascending; one look's after another's
    parameters   float64[2, s]: the function's scalar arguments per step, zero where it has none: φ of
                 quantile_over_time, and what `_fitted` says
    """
    size = most_held(h, sids)
    t_ms = np.empty(size, np.int64)
    values = np.empty(size, np.float64)
    scratch = np.empty(size, np.float64)
    after_ms, until_ms = times[0], times[0]
    for look in looks:
        after_ms = min(after_ms, times[look[_BEGIN]] - look[_RANGE_MS])
        until_ms = max(until_ms, times[look[_END] - 1])
    for i in range(len(sids)):
        n = _drop_stale(t_ms, values, collect(h, sids[i], after_ms, until_ms, t_ms, values))
        if len(times) == 1 and n > 0:
            # the whole of what was collected is the window
            found, value = window_value(
                looks[0, _CODE], t_ms, values, 0, n, times[0], looks[0, _RANGE_MS], parameters[0, 0], parameters[1, 0],
                scratch,
            )  # fmt: skip
            present[rows[i], 0] = found
            out[rows[i], 0] = value
        elif n > 0:
            for q in range(len(looks)):
                _windows(
                    t_ms, values, n, times, looks[q, _BEGIN], looks[q, _END], looks[q, _RANGE_MS], looks[q, _CODE],
                    parameters, scratch, rows[i], out, present,
                )  # fmt: skip


@kernel
def column_values(column_ms, columns, held, times, range_ms, function, parameters, out, present):
    """One range function, over a matrix instead of the head: the steps of a subquery.

    column_ms int64[u] ascending; columns float64[n, u], held bool[n, u]: the value of row i at that time, if any
    """
    t_ms = np.empty(len(column_ms), np.int64)
    values = np.empty(len(column_ms), np.float64)
    scratch = np.empty(len(column_ms), np.float64)
    for i in range(len(columns)):
        n = 0
        for k in range(len(column_ms)):
            if held[i, k]:
                t_ms[n] = column_ms[k]
                values[n] = columns[i, k]
                n += 1
        _windows(
            t_ms, values, n, times, 0, len(times), range_ms, function, parameters, scratch, i, out, present
        )


@inlined
def _windows(t_ms, values, n, times, begin, end, range_ms, function, parameters, scratch, row, out, present):
    """One series' windows at the times from `begin` to before `end`, of n samples, into a row of out and present.

    rate, increase and delta are called at once: through `window_value` each would cost twice as much.
    """
    lo = 0
    hi = 0
    for step in range(begin, end):
        while hi < n and t_ms[hi] <= times[step]:
            hi += 1
        while lo < hi and t_ms[lo] <= times[step] - range_ms:
            lo += 1
        if lo < hi and function <= DELTA:
            found, value = _extrapolated(function, t_ms, values, lo, hi, times[step], range_ms)
            present[row, step] = found
            out[row, step] = value
        elif lo < hi:
            found, value = window_value(
                function, t_ms, values, lo, hi, times[step], range_ms, parameters[0, step], parameters[1, step], scratch
            )
            present[row, step] = found
            out[row, step] = value


@kernel
def count_samples(h, sids, after_ms, until_ms):
    """How many samples each series has in `(after_ms, until_ms]`, staleness markers left out; int64[n]."""
    size = most_held(h, sids)
    t_ms = np.empty(size, np.int64)
    values = np.empty(size, np.float64)
    counts = np.zeros(len(sids), np.int64)
    for i in range(len(sids)):
        counts[i] = _drop_stale(t_ms, values, collect(h, sids[i], after_ms, until_ms, t_ms, values))
    return counts


@kernel
def copy_samples(h, sids, after_ms, until_ms, starts):
    """The samples that `count_samples` counted, one series after another: t_ms int64[m], values float64[m]."""
    size = most_held(h, sids)
    t_ms = np.empty(starts[-1] + size, np.int64)
    values = np.empty(starts[-1] + size, np.float64)
    for i in range(len(sids)):
        t_here, v_here = t_ms[starts[i] :], values[starts[i] :]
        _drop_stale(t_here, v_here, collect(h, sids[i], after_ms, until_ms, t_here, v_here))
    return t_ms[: starts[-1]].copy(), values[: starts[-1]].copy()


@kernel
def _drop_stale(t_ms, values, n):
    bits = values[:n].view(np.int64)
    markers = 0
    for k in range(len(bits)):
        markers += bits[k] == _STALE_BITS
    if markers == 0:
        return n
    kept = 0
    for k in range(n):
        if not _is_stale(values[k]):
            t_ms[kept] = t_ms[k]
            values[kept] = values[k]
            kept += 1
    return kept


@kernel
def window_value(function, t_ms, values, lo, hi, end_ms, range_ms, first, second, scratch):
    """(found, value) of one function over samples lo to hi - 1, of which there is at least one.

    first, second: its scalar arguments.

    Meanings: Prometheus 3, promql functions of a range vector.
    """
    if function <= DELTA:
        return _extrapolated(function, t_ms, values, lo, hi, end_ms, range_ms)
    if function <= IDELTA:
        return _last_two(function, t_ms, values, lo, hi)
    if function in (CHANGES, RESETS):
        return True, _events(function, values, lo, hi)
    if function == AVG:
        return True, mean(values, lo, hi)
    if function == SUM:
        return True, _sum(values, lo, hi)
    if function in (MIN, MAX):
        return True, _extreme(function == MIN, values, lo, hi)
    if function == COUNT:
        return True, float(hi - lo)
    if function == LAST:
        return True, values[hi - 1]
    if function == PRESENT:
        return True, 1.0
    if function == QUANTILE:
        scratch[: hi - lo] = values[lo:hi]
        return True, quantile(scratch[: hi - lo], first)
    if function in (STDDEV, STDVAR):
        variance = _variance(values, lo, hi)
        return True, np.sqrt(variance) if function == STDDEV else variance
    if function >= T_FIRST:
        return True, _sample_time(function, t_ms, values, lo, hi)
    return _fitted(function, t_ms, values, lo, hi, end_ms, first, second, scratch)


@bare
def _sample_time(function, t_ms, values, lo, hi):
    """When the window's oldest, newest, smallest or largest sample was, in seconds."""
    if function == T_FIRST:
        return t_ms[lo] / 1000
    if function == T_LAST:
        return t_ms[hi - 1] / 1000
    return t_ms[last_extreme(function == T_MIN, values, lo, hi)] / 1000


@kernel
def _fitted(function, t_ms, values, lo, hi, end_ms, first, second, scratch):
    """The oldest value, the deviation, and what is fitted through two samples or more.

    predict_linear   first: seconds ahead; second: ms from the window's end to the evaluation's time
    smoothing        first, second: its factors, within (0, 1)
    """
    if function == FIRST:
        return True, values[lo]
    if function == MAD:
        return True, median_deviation(values, lo, hi, scratch)
    if hi - lo < 2:
        return False, 0.0
    if function == SMOOTH:
        return True, smoothed(values, lo, hi, first, second)
    if function == DERIV:
        return True, regression(t_ms, values, lo, hi, t_ms[lo])[0]
    slope, here = regression(t_ms, values, lo, hi, end_ms + np.int64(second))
    return True, slope * first + here


@inlined
def _extrapolated(function, t_ms, values, lo, hi, end_ms, range_ms):
    """rate, increase, delta: the difference, resets added back, extrapolated towards the window's edges."""
    if hi - lo < 2:
        return False, 0.0
    result = values[hi - 1] - values[lo]
    counter = function != DELTA
    if counter:
        for k in range(lo + 1, hi):
            if values[k] < values[k - 1]:
                result += values[k - 1]
    rate = function == RATE
    return True, extrapolated(
        result, counter, rate, hi - lo, t_ms[lo], values[lo], t_ms[hi - 1], end_ms, range_ms
    )


@bare
def _last_two(function, t_ms, values, lo, hi):
    """irate, idelta: from the two newest samples."""
    if hi - lo < 2:
        return False, 0.0
    before, last = values[hi - 2], values[hi - 1]
    difference = last - before
    if function == IDELTA:
        return True, difference
    if last < before:
        difference = last
    return True, difference / ((t_ms[hi - 1] - t_ms[hi - 2]) / 1000)


@bare
def _events(function, values, lo, hi):
    """How often the value changed, or fell."""
    events = 0
    for k in range(lo + 1, hi):
        old, new = values[k - 1], values[k]
        if function == RESETS:
            events += new < old
        else:
            events += new != old and not (np.isnan(new) and np.isnan(old))
    return float(events)


@bare
def _sum(values, lo, hi):
    total, comp = 0.0, 0.0
    for k in range(lo, hi):
        total, comp = add(values[k], total, comp)
    return total if np.isinf(total) else total + comp


@bare
def _extreme(smallest, values, lo, hi):
    while lo < hi - 1 and np.isnan(values[lo]):
        lo += 1
    window = values[lo:hi]
    best = window[0]
    if smallest:
        for k in range(len(window)):
            best = window[k] if window[k] < best else best
    else:
        for k in range(len(window)):
            best = window[k] if window[k] > best else best
    return best


@bare
def _variance(values, lo, hi):
    count, mean_, mean_c, aux, aux_c = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(lo, hi):
        count += 1
        delta = values[k] - (mean_ + mean_c)
        mean_, mean_c = add(delta / count, mean_, mean_c)
        aux, aux_c = add(delta * (values[k] - (mean_ + mean_c)), aux, aux_c)
    return (aux + aux_c) / count
