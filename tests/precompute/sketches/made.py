"""Vectors and references for the tests of sketches, written without looking at the sketches."""

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from precompute.samples import F64, I64
from precompute.sketches.base import Items, State, Vectors

drawn = settings(deadline=None, max_examples=60)
"""For tests over drawn vectors; no deadline, since the first example may compile kernels."""

ODD = (0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, -5e-324, 2.2e-308, 1e-310, 1.7e308, -1.7e308, 1e200)
"""Values that sums, logarithms and orders get wrong."""


@st.composite
def vectors(draw: st.DrawFn, odd: bool = True, panes: int | None = None) -> Vectors:
    """Up to 400 series in 1 to 3 groups (so that some rows are raw and some are buckets), 4 shards, 1 to 3 panes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, groups = draw(st.integers(0, 400)), draw(st.integers(1, 3))
    shape = (n, panes or draw(st.integers(1, 3)))
    values = rng.normal(0, 10.0 ** rng.integers(-3, 6), shape) * rng.choice([1.0, 1e-5, 1e9], shape)
    if odd:
        values = np.where(rng.random(shape) < draw(st.sampled_from([0.0, 0.02, 0.5])), rng.choice(ODD, shape), values)
    return Vectors(
        values,
        rng.random(shape) < draw(st.sampled_from([1.0, 0.7, 0.1])),
        rng.integers(0, groups, n).astype(np.int32),
        np.sort(rng.integers(0, 4, n)).astype(np.int32),
        groups,
    )


@st.composite
def items(draw: st.DrawFn, by_series: bool = False) -> tuple[Items, I64]:
    """Up to 300 items of up to 5 series in 1 to 3 rows, or of a row a series, and the pane, 0 to 3, of each.

    They stand in order of time, some at the same time in different series; counters that fall now and then, odd values
    among them, and keys of which some are frequent.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, rows = draw(st.integers(0, 300)), 5 if by_series else draw(st.integers(1, 3))
    t_ms = np.sort(rng.choice(4000, m, replace=False)).astype(np.int64)
    value = np.floor(np.abs(rng.normal(0, 20, m))) if draw(st.booleans()) else rng.normal(0, 1e3, m)
    if draw(st.booleans()):
        value = np.where(rng.random(m) < 0.1, rng.choice(ODD, m), value)
    key = np.minimum(rng.zipf(1.3, m), 2**40).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    row = rng.integers(0, rows, m).astype(np.int32)
    return Items(row, value, t_ms, key, rows), t_ms // 1000


def of_pane(whole: Items, pane: I64, which: int) -> Items:
    keep = pane == which
    return Items(whole.row[keep], whole.value[keep], whole.t_ms[keep], whole.key[keep], whole.rows)


def of_shard(whole: Vectors, shard: int) -> Vectors:
    keep = whole.shard == shard
    return Vectors(whole.values[keep], whole.present[keep], whole.group[keep], whole.shard[keep], whole.groups)


def of_row(whole: Vectors, row: int) -> F64:
    """The values that belong to a row of a State built from `whole`, in order."""
    pane, group = divmod(row, whole.groups)
    return np.ascontiguousarray(whole.values[(whole.group == group) & whole.present[:, pane], pane])


def same_bits(a: State, b: State) -> bool:
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and a[name].tobytes() == b[name].tobytes() for name in a
    )


def close(a: float, b: float, tolerance: float) -> bool:
    """Equal, both NaN, or both finite and within `tolerance`."""
    return a == b or (math.isnan(a) and math.isnan(b)) or (math.isfinite(a - b) and abs(a - b) <= tolerance)


def in_order(values: Sequence[float]) -> list[float]:
    """Sorted as PromQL's quantile sorts: NaN before all numbers."""
    nans = [v for v in values if math.isnan(v)]
    return nans + sorted(v for v in values if not math.isnan(v))


def quantile(phi: float, values: Sequence[float]) -> tuple[float, float]:
    """PromQL's quantile(phi, values), and the larger magnitude of the two order statistics it lies between."""
    if math.isnan(phi) or not len(values):
        return math.nan, 0.0
    if phi < 0 or phi > 1:
        return math.copysign(math.inf, phi - 0.5), 0.0
    ordered = in_order(values)
    rank = phi * (len(ordered) - 1)
    lower = ordered[math.floor(rank)]
    upper = ordered[min(math.floor(rank) + 1, len(ordered) - 1)]
    weight = rank - math.floor(rank)
    return lower * (1 - weight) + upper * weight, max(abs(lower), abs(upper))
