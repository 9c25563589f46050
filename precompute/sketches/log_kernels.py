"""The quantile sketch's kernels: values to keys, rows of keys and counts, and quantiles of them.

log_index.py tells what a key is and log_buckets.py what the columns are. All of them stand in one file since numba
renews a cached kernel when the file that it stands in changes, not when another does that it calls.
"""

import math

import numpy as np
import numpy.typing as npt

from precompute.kernels import kernel
from precompute.samples import F64, I32, I64, Bool

U32 = npt.NDArray[np.uint32]

UNITS = 1 << 16
"""Magnitudes below UNITS * 2^-1074 are their own keys."""
FIRST_EXPONENT = 16 - 1074
SLICE_BITS = 12
MANTISSA = (1 << 52) - 1
RAW_LIMIT = 64
BLOCK_BITS = 6
"""Scratch counters are cleared and swept in blocks of 2^6."""


@kernel
def key_of(bits: int, top: int, per_octave: int, guess: I64, edge: I64) -> int:
    """Key of the float64 with these bits (int64)."""
    size = bits & 0x7FFFFFFFFFFFFFFF
    exponent, mantissa = size >> 52, size & MANTISSA
    if exponent == 2047:
        if mantissa:
            return -top - 2
        return top + 1 if bits > 0 else -top - 1
    if size < UNITS:
        return size if bits >= 0 else -size
    if exponent == 0:
        exponent = 1
        while mantissa <= MANTISSA:
            mantissa <<= 1
            exponent -= 1
        mantissa &= MANTISSA
    part: int = guess[mantissa >> (52 - SLICE_BITS)]
    if mantissa >= edge[part + 1]:
        part += 1
    key = UNITS + (exponent - 1023 - FIRST_EXPONENT) * per_octave + part
    return key if bits >= 0 else -key


@kernel
def middle_of(key: int, top: int, per_octave: int, middle: F64) -> float:
    """The value that stands for a bucket; itself for NaN, the infinities and zero."""
    if key < -top - 1:
        return np.nan
    if key == 0:
        return 0.0
    size = abs(key)
    if size > top:
        value = np.inf
    elif size < UNITS:
        value = size * 5e-324
    else:
        octave, part = divmod(size - UNITS, per_octave)
        value = math.ldexp(middle[part], octave + FIRST_EXPONENT)
    return value if key > 0 else -value


@kernel
def by_target(into: I64, targets: int) -> tuple[I64, I64]:
    """Indices of `into` by target, in order within each, and where each target's run ends: [n], [targets + 1]."""
    ends = np.zeros(targets + 1, np.int64)
    for t in into:
        ends[t + 1] += 1
    ends = np.cumsum(ends)
    place = ends[:-1].copy()
    order = np.empty(len(into), np.int64)
    for i in range(len(into)):
        order[place[into[i]]] = i
        place[into[i]] += 1
    return order, ends


@kernel
def _count(slot: int, hits: int, counts: I64, touched: Bool, blocks: I64, used: int) -> int:
    """Add to a scratch counter and remember its block; the number of blocks in use."""
    counts[slot] += hits
    block = slot >> BLOCK_BITS
    if not touched[block]:
        touched[block] = True
        blocks[used] = block
        return used + 1
    return used


@kernel
def _sweep(counts: I64, touched: Bool, blocks: I64, used: int, first_key: int, at: int, key: I32, hits: U32) -> int:
    """Write the counters that are not 0 as buckets from `at` on and clear them; where they end."""
    for block in np.sort(blocks[:used]):
        touched[block] = False
        for slot in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS):
            if counts[slot]:
                if counts[slot] > 0xFFFFFFFF:
                    raise OverflowError("a bucket holds more than 2^32 - 1 values")
                key[at], hits[at] = slot + first_key, counts[slot]
                counts[slot] = 0
                at += 1
    return at


@kernel
def _room(key: I32, hits: U32, needed: int) -> tuple[I32, U32]:
    """The arrays, or longer copies with at least `needed` places."""
    if needed <= len(key):
        return key, hits
    size = max(needed, 2 * len(key))
    key2, hits2 = np.empty(size, key.dtype), np.empty(size, hits.dtype)
    key2[: len(key)], hits2[: len(hits)] = key, hits
    return key2, hits2


@kernel
def _sort_nan_first(a: F64) -> None:
    """Sort up to RAW_LIMIT values in place; every NaN becomes the same NaN."""
    for i in range(1, len(a)):
        v, j = a[i], i
        while j > 0 and (np.isnan(v) or v < a[j - 1]) and not np.isnan(a[j - 1]):
            a[j] = a[j - 1]
            j -= 1
        a[j] = v
    for i in range(len(a)):
        if not np.isnan(a[i]):
            break
        a[i] = np.nan


@kernel
def build(
    values: F64, bits: I64, present: Bool, order: I64, ends: I64, top: int, per_octave: int, guess: I64, edge: I64
) -> tuple[I64, F64, F64, I64, F64, I64, I32, U32]:
    """Columns for values float64[P, n] (bits: the same as int64), series of each group in `order`, as `by_target`."""
    panes, groups = len(values), len(ends) - 1
    rows = panes * groups
    n = np.zeros(rows, np.int64)
    low, high = np.full(rows, np.nan), np.full(rows, np.nan)
    raw_off, key_off = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    for p in range(panes):
        for g in range(groups):
            row, lowest, highest = p * groups + g, np.inf, -np.inf
            for i in order[ends[g] : ends[g + 1]]:
                if present[p, i]:
                    n[row] += 1
                    v = values[p, i]
                    if np.isfinite(v):
                        lowest, highest = min(lowest, v), max(highest, v)
            if lowest <= highest:
                low[row], high[row] = lowest, highest
            raw_off[row + 1] = raw_off[row] + (n[row] if n[row] <= RAW_LIMIT else 0)
    raw = np.empty(raw_off[rows], np.float64)
    key, hits = np.empty(1024, np.int32), np.empty(1024, np.uint32)
    counts = np.zeros(((2 * top + 4) >> BLOCK_BITS << BLOCK_BITS) + (1 << BLOCK_BITS), np.int64)
    touched, blocks = np.zeros(len(counts) >> BLOCK_BITS, np.bool_), np.empty(len(counts) >> BLOCK_BITS, np.int64)
    for row in range(rows):
        p, g = divmod(row, groups)
        at, used = raw_off[row], 0
        for i in order[ends[g] : ends[g + 1]]:
            if not present[p, i]:
                continue
            if n[row] <= RAW_LIMIT:
                raw[at] = values[p, i]
                at += 1
            else:
                slot = key_of(bits[p, i], top, per_octave, guess, edge) + top + 2
                used = _count(slot, 1, counts, touched, blocks, used)
        _sort_nan_first(raw[raw_off[row] : raw_off[row + 1]])
        key, hits = _room(key, hits, key_off[row] + (used << BLOCK_BITS))
        key_off[row + 1] = _sweep(counts, touched, blocks, used, -top - 2, key_off[row], key, hits)
    return n, low, high, raw_off, raw, key_off, key[: key_off[rows]].copy(), hits[: key_off[rows]].copy()


@kernel
def merge(
    n: I64, low: F64, high: F64, raw_off: I64, key_off: I64, key: I32, hits: U32, raw: F64, bits: I64,
    order: I64, ends: I64, top: int, per_octave: int, guess: I64, edge: I64,
) -> tuple[I64, F64, F64, I64, F64, I64, I32, U32]:  # fmt: skip
    """Columns of the targets; bits: `raw` as int64; sources of each target in `order`, as `by_target`."""
    rows = len(ends) - 1
    n2 = np.zeros(rows, np.int64)
    low2, high2 = np.full(rows, np.nan), np.full(rows, np.nan)
    raw_off2, key_off2 = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    for row in range(rows):
        for i in order[ends[row] : ends[row + 1]]:
            n2[row] += n[i]
            low2[row], high2[row] = np.fmin(low2[row], low[i]), np.fmax(high2[row], high[i])
        raw_off2[row + 1] = raw_off2[row] + (n2[row] if n2[row] <= RAW_LIMIT else 0)
    raw2 = np.empty(raw_off2[rows], np.float64)
    key2, hits2 = np.empty(len(key) + 1024, np.int32), np.empty(len(key) + 1024, np.uint32)
    counts = np.zeros(((2 * top + 4) >> BLOCK_BITS << BLOCK_BITS) + (1 << BLOCK_BITS), np.int64)
    touched, blocks = np.zeros(len(counts) >> BLOCK_BITS, np.bool_), np.empty(len(counts) >> BLOCK_BITS, np.int64)
    for row in range(rows):
        at, used = raw_off2[row], 0
        for i in order[ends[row] : ends[row + 1]]:
            for k in range(raw_off[i], raw_off[i + 1]):
                if n2[row] <= RAW_LIMIT:
                    raw2[at] = raw[k]
                    at += 1
                else:
                    slot = key_of(bits[k], top, per_octave, guess, edge) + top + 2
                    used = _count(slot, 1, counts, touched, blocks, used)
            for k in range(key_off[i], key_off[i + 1]):
                used = _count(key[k] + top + 2, hits[k], counts, touched, blocks, used)
        _sort_nan_first(raw2[raw_off2[row] : raw_off2[row + 1]])
        key2, hits2 = _room(key2, hits2, key_off2[row] + (used << BLOCK_BITS))
        key_off2[row + 1] = _sweep(counts, touched, blocks, used, -top - 2, key_off2[row], key2, hits2)
    return n2, low2, high2, raw_off2, raw2, key_off2, key2[: key_off2[rows]].copy(), hits2[: key_off2[rows]].copy()


@kernel
def _at_rank(rank: int, low: float, high: float, key: I32, hits: U32, top: int, per_octave: int, middle: F64) -> float:
    """The order statistic `rank` of one bucket row; the smallest and largest finite value are exact."""
    below, finite_from = 0, 0
    for k in range(len(key)):
        if key[k] < -top:
            finite_from += hits[k]
        below += hits[k]
        if rank < below:
            value = middle_of(key[k], top, per_octave, middle)
            if not np.isfinite(value):
                return float(value)
            if rank == finite_from:
                return low
            last = k == len(key) - 1 or key[k + 1] > top
            return high if last and rank == below - 1 else min(max(value, low), high)
    return np.nan


@kernel
def estimate(
    n: I64, low: F64, high: F64, raw_off: I64, raw: F64, key_off: I64, key: I32, hits: U32,
    phi: F64, top: int, per_octave: int, middle: F64,
) -> F64:  # fmt: skip
    """prometheus/promql/quantile.go, quantile(): order and interpolation; float64[rows]."""
    out = np.empty(len(n), np.float64)
    for row in range(len(n)):
        q = phi[row]
        if n[row] == 0 or np.isnan(q):
            out[row] = np.nan
        elif q < 0 or q > 1:
            out[row] = -np.inf if q < 0 else np.inf
        else:
            rank = q * (n[row] - 1)
            lower = math.floor(rank)
            upper = min(lower + 1, n[row] - 1)
            weight = rank - lower
            if n[row] <= RAW_LIMIT:
                a, b = raw[raw_off[row] + lower], raw[raw_off[row] + upper]
            else:
                keys, counts = key[key_off[row] : key_off[row + 1]], hits[key_off[row] : key_off[row + 1]]
                a = _at_rank(lower, low[row], high[row], keys, counts, top, per_octave, middle)
                b = _at_rank(upper, low[row], high[row], keys, counts, top, per_octave, middle)
            out[row] = a * (1 - weight) + b * weight
    return out
