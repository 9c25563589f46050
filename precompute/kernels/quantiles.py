"""Kernels of exact quantiles by selection: only the two values that count are put in their places."""

import numpy as np

from precompute.kernels import kernel

_MOST_KEPT = 24
"""Largest values that are kept in order rather than selected."""

_SAMPLED = 128
_WORTH_SAMPLING = 2048


@kernel
def quantile(values, phi):
    """PromQL's φ-quantile of `values` float64[n], n >= 1, which it reorders; NaN counts as smallest.

    Linear between the two neighbours of rank φ · (n - 1).
    """
    n = len(values)
    if np.isnan(phi):
        return np.nan
    if phi < 0:
        return -np.inf
    if phi > 1:
        return np.inf
    rank = phi * (n - 1)
    lower = int(max(0.0, np.floor(rank)))
    weight = rank - np.floor(rank)
    below, above = _neighbours(values, _nans_first(values), lower)
    return below * (1 - weight) + above * weight


@kernel
def _nans_first(values):
    """Move NaNs to the front; how many there are."""
    nans = 0
    for i in range(len(values)):
        nans += np.isnan(values[i])
    if nans == 0:
        return 0
    moved = 0
    for i in range(len(values)):
        if np.isnan(values[i]):
            values[i], values[moved] = values[moved], values[i]
            moved += 1
    return nans


@kernel
def _neighbours(values, nans, k):
    """The values at ranks k and k + 1 (the last one where there is no further), the first `nans` of which are NaN."""
    n = len(values)
    if k + 1 < nans:
        return np.nan, np.nan
    if k < nans:
        return np.nan, (np.min(values[nans:]) if nans < n else np.nan)
    numbers, k = values[nans:], k - nans
    if len(numbers) - k <= _MOST_KEPT:
        return _from_the_top(numbers, len(numbers) - k)
    if len(numbers) >= _WORTH_SAMPLING:
        kept = _above_a_pivot(numbers, k)
        k -= len(numbers) - kept
        numbers = numbers[:kept]
    below = _select(numbers, k)
    if k + 1 == len(numbers):
        return below, below
    above = numbers[k + 1]
    for i in range(k + 2, len(numbers)):
        above = min(above, numbers[i])
    return below, above


@kernel
def _from_the_top(numbers, count):
    """The count-th largest number and the next larger one; what rises, as counters do, is read from its end."""
    kept = np.full(_MOST_KEPT + 1, -np.inf)
    for i in range(len(numbers) - 1, -1, -1):
        x = numbers[i]
        if x > kept[count - 1]:
            at = count - 1
            while at > 0 and kept[at - 1] < x:
                kept[at] = kept[at - 1]
                at -= 1
            kept[at] = x
    return kept[count - 1], kept[max(0, count - 2)]


@kernel
def _above_a_pivot(numbers, k):
    """Put numbers at or above a pivot in front, among them all of ranks k and more; how many they are.

    The pivot is drawn from a sample so that few but enough are above it; where that would be most of them, or
    fails, all stay.
    """
    n = len(numbers)
    share = (n - k) / n * _SAMPLED
    place = int(share + 4 * np.sqrt(share) + 3)
    if place > _SAMPLED // 2:
        return n
    sample = np.empty(_SAMPLED)
    for i in range(_SAMPLED):
        sample[i] = numbers[i * (n // _SAMPLED)]
    sample.sort()
    pivot = sample[_SAMPLED - place]
    kept = 0
    for i in range(n):
        if numbers[i] >= pivot:
            numbers[i], numbers[kept] = numbers[kept], numbers[i]
            kept += 1
    return kept if kept > n - k else n


@kernel
def _select(numbers, k):
    """The number at rank k, put there; smaller ones stand before it, larger ones behind (Hoare, median of three)."""
    lo, hi = 0, len(numbers) - 1
    while lo < hi:
        a, b, c = numbers[lo], numbers[(lo + hi) // 2], numbers[hi]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = lo, hi
        while i <= j:
            while numbers[i] < pivot:
                i += 1
            while numbers[j] > pivot:
                j -= 1
            if i <= j:
                numbers[i], numbers[j] = numbers[j], numbers[i]
                i += 1
                j -= 1
        if k <= j:
            hi = j
        elif k >= i:
            lo = i
        else:
            break
    return numbers[k]
