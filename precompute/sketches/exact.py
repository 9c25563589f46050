"""The exact accumulators sum, count, min and max.

PromQL's own rules (prometheus/promql/engine.go, aggregation): sums are compensated by Neumaier's method
(A. Neumaier 1974, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen"); min and max take
any number in place of a NaN.

All NaN are written as one NaN, so that equal states have equal bits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from precompute.kernels import kernel
from precompute.samples import F64, I32, I64, U8, U64, Bool
from precompute.sketches.base import EXACT, Array, Bound, Column, State, Vectors
from precompute.sketches.family import Family

SAW_NAN, SAW_PLUS_INF, SAW_MINUS_INF = 1, 2, 4
"""Bits of the sum's column `saw`: what an infinite or NaN sum may come from, other than overflow."""


@dataclass(frozen=True)
class Exact:
    """An accumulator whose columns all have one item per row."""

    name: str
    columns: tuple[Column, ...]
    build_columns: Callable[[Vectors], tuple[Array, ...]]
    """Columns as [groups, P] arrays."""
    merge_columns: Callable[..., tuple[Array, ...]]
    """(*columns, into, n_rows) -> columns"""
    estimates: Mapping[str, Callable[[State], F64]]
    """Statistics that it answers alone."""
    version: int = 1
    feeds: ClassVar[type[Vectors]] = Vectors
    seams: ClassVar[bool] = False

    @property
    def answers(self) -> Mapping[str, Bound]:
        return dict.fromkeys(self.estimates, EXACT)

    def build(self, vectors: Vectors) -> State:
        built = self.build_columns(vectors)
        return {c.name: np.ascontiguousarray(a.T).ravel() for c, a in zip(self.columns, built, strict=True)}

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        merged = self.merge_columns(*(state[c.name] for c in self.columns), into.astype(np.int64), n_rows)
        return {c.name: a for c, a in zip(self.columns, merged, strict=True)}

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        return self.estimates[statistic](state)

    def check(self, state: State) -> None:
        """Columns of one item per row always fit each other."""


@kernel
def _add(total: float, comp: float, value: float, value_comp: float) -> tuple[float, float]:
    """`total` plus `value`, each with its compensation. An infinite or NaN sum has none.

    The empty sum is -0.0, the only float that changes no other.
    """
    t = total + value
    if np.isnan(t):
        return np.nan, 0.0
    if np.isinf(t):
        return t, 0.0
    if abs(total) >= abs(value):
        comp += (total - t) + value
    else:
        comp += (value - t) + total
    return t, comp + value_comp


@kernel
def _saw(value: float) -> int:
    if np.isnan(value):
        return SAW_NAN
    if np.isinf(value):
        return SAW_PLUS_INF if value > 0 else SAW_MINUS_INF
    return 0


@kernel
def _build_sum(values: F64, present: Bool, group: I32, shard: I32, groups: int) -> tuple[F64, F64, U8]:
    """Sum and compensation float64[groups, P], `saw` uint8[groups, P].

    A group's values within one shard go to `part`; it is folded into `total` when the group is met again in
    a later shard, which gives each group's shards in order whatever the other groups do.
    """
    n, panes = values.shape
    total = np.full((groups, panes), -0.0)
    total_comp = np.zeros((groups, panes))
    part = np.full((groups, panes), -0.0)
    part_comp = np.zeros((groups, panes))
    saw = np.zeros((groups, panes), np.uint8)
    last = np.full(groups, -1, np.int32)
    for i in range(n):
        g = group[i]
        if last[g] != shard[i]:
            _fold_sums(total[g], total_comp[g], part[g], part_comp[g])
            last[g] = shard[i]
        for p in range(panes):
            if present[i, p]:
                v = values[i, p]
                part[g, p], part_comp[g, p] = _add(part[g, p], part_comp[g, p], v, 0.0)
                if not np.isfinite(v):
                    saw[g, p] |= np.uint8(_saw(v))
    for g in range(groups):
        _fold_sums(total[g], total_comp[g], part[g], part_comp[g])
    return total, total_comp, saw


@kernel
def _fold_sums(total: F64, total_comp: F64, part: F64, part_comp: F64) -> None:
    for p in range(len(total)):
        total[p], total_comp[p] = _add(total[p], total_comp[p], part[p], part_comp[p])
        part[p], part_comp[p] = -0.0, 0.0


@kernel
def _merge_sum(sums: F64, comps: F64, saw: U8, into: I64, n_rows: int) -> tuple[F64, F64, U8]:
    total = np.full(n_rows, -0.0)
    total_comp = np.zeros(n_rows)
    total_saw = np.zeros(n_rows, np.uint8)
    for i in range(len(into)):
        r = into[i]
        total[r], total_comp[r] = _add(total[r], total_comp[r], sums[i], comps[i])
        total_saw[r] |= saw[i]
    return total, total_comp, total_saw


@kernel
def _build_count(present: Bool, group: I32, groups: int) -> I64:
    n, panes = present.shape
    counts = np.zeros((groups, panes), np.int64)
    for i in range(n):
        for p in range(panes):
            counts[group[i], p] += present[i, p]
    return counts


@kernel
def _merge_count(counts: I64, into: I64, n_rows: int) -> tuple[I64]:
    total = np.zeros(n_rows, np.int64)
    for i in range(len(into)):
        total[into[i]] += counts[i]
    return (total,)


@kernel
def _lower(a: float, b: float) -> float:
    """The smaller number; NaN only of two NaN; -0.0 below 0.0, so that order does not matter."""
    if np.isnan(a):
        return np.nan if np.isnan(b) else b
    if b < a or (b == a and np.signbit(b)):
        return b
    return a


@kernel
def _build_lowest(values: F64, present: Bool, group: I32, groups: int, sign: float) -> F64:
    """`sign` times the lowest of `sign` times the values: min for 1, max for -1; float64[groups, P]."""
    n, panes = values.shape
    lowest = np.full((groups, panes), np.nan)
    for i in range(n):
        g = group[i]
        for p in range(panes):
            if present[i, p]:
                lowest[g, p] = _lower(lowest[g, p], sign * values[i, p])
    return np.where(np.isnan(lowest), np.nan, sign * lowest)


@kernel
def _merge_lowest(values: F64, into: I64, n_rows: int, sign: float) -> F64:
    lowest = np.full(n_rows, np.nan)
    for i in range(len(into)):
        lowest[into[i]] = _lower(lowest[into[i]], sign * values[i])
    return np.where(np.isnan(lowest), np.nan, sign * lowest)


def in_order(v: Vectors) -> tuple[F64, Bool, I32, I32, int]:
    """What a kernel needs that folds values in their order."""
    return v.values, v.present, v.group, v.shard, v.groups


def sum_of(state: State) -> F64:
    """PromQL's sum: the compensation counts, except beside an infinity (where it is 0 here)."""
    return np.asarray(state["sum"] + state["comp"])


SUM = Exact(
    "sum",
    (Column("sum", "<f8"), Column("comp", "<f8"), Column("saw", "|u1")),
    lambda v: _build_sum(*in_order(v)),
    _merge_sum,
    {"sum": sum_of},
)
COUNT = Exact(
    "count",
    (Column("n", "<i8"),),
    lambda v: (_build_count(v.present, v.group, v.groups),),
    _merge_count,
    {"count": lambda s: s["n"].astype(np.float64), "group": lambda s: np.ones(len(s["n"]))},
)
MIN = Exact(
    "min",
    (Column("min", "<f8"),),
    lambda v: (_build_lowest(v.values, v.present, v.group, v.groups, 1.0),),
    lambda values, into, n_rows: (_merge_lowest(values, into, n_rows, 1.0),),
    {"min": lambda s: np.asarray(s["min"])},
)
MAX = Exact(
    "max",
    (Column("max", "<f8"),),
    lambda v: (_build_lowest(v.values, v.present, v.group, v.groups, -1.0),),
    lambda values, into, n_rows: (_merge_lowest(values, into, n_rows, -1.0),),
    {"max": lambda s: np.asarray(s["max"])},
)


def family(member: Exact, meaning: str) -> Family:
    """The family of an accumulator without parameters, whose rows all have one size."""
    row_bytes = sum(np.dtype(c.dtype).itemsize for c in member.columns)
    return Family(member.name, meaning, lambda name: member, lambda accumulator, n: row_bytes)


FAMILIES = (
    family(SUM, "sum of the values, compensated"),
    family(COUNT, "number of values"),
    family(MIN, "smallest value"),
    family(MAX, "largest value"),
)


def mean_of(sums: State, counts: State) -> F64:
    """PromQL's avg; only right where `mean_covered`."""
    saw, n = sums["saw"], counts["n"]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.asarray(sums["sum"] / n + sums["comp"] / n)
    mean[saw == SAW_PLUS_INF] = np.inf
    mean[saw == SAW_MINUS_INF] = -np.inf
    mean[((saw & SAW_NAN) != 0) | (saw >= SAW_PLUS_INF + SAW_MINUS_INF)] = np.nan
    return mean


def mean_covered(sums: State) -> Bool:
    """False where the sum of finite values overflowed: their mean is finite and not known here."""
    return np.asarray(np.isfinite(sums["sum"]) | (sums["saw"] != 0))
