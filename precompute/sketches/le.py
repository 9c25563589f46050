"""Classic histogram buckets: counts of values at or below fixed bounds, as Prometheus' own histograms keep them.

A quantile is read as `histogram_quantile` reads it (prometheus/promql/quantile.go), along a straight line through its
bucket, but the outermost buckets end at the smallest and the largest value, which are known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.kernels import kernel
from precompute.samples import F64, I32, I64, U64, Bool
from precompute.sketches.base import Accumulator, Bound, Column, State, Vectors
from precompute.sketches.columns import run_sums
from precompute.sketches.family import Family, Parameter
from precompute.sketches.finite import (
    HEAD,
    Head,
    add_head,
    check_head,
    count_in,
    empty_head,
    finite_count,
    head_of,
    neighbours,
    outside,
)

PROMETHEUS_DEFAULTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Buckets:
    """The accumulator; `hits` counts a row's finite values by bucket, the last of which is above all bounds."""

    name: str
    bounds: tuple[float, ...] = PROMETHEUS_DEFAULTS
    version: int = 1
    columns: tuple[Column, ...] = (*HEAD, Column("off", "<i8"), Column("hits", "<i8", "off"))
    feeds: ClassVar[type[Vectors]] = Vectors
    seams: ClassVar[bool] = False

    @property
    def answers(self) -> Mapping[str, Bound]:
        return {"quantile": Bound("bucket")}

    def build(self, vectors: Vectors) -> State:
        arguments: tuple[Any, ...] = (vectors.values, vectors.present, vectors.group, vectors.groups, self._edges())
        return self._state(*_build(*arguments))

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        hits = state["hits"].reshape(-1, len(self.bounds) + 1)
        return self._state(*_merge(head_of(state), np.ascontiguousarray(hits), into.astype(np.int64), n_rows))

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        phis = np.ascontiguousarray(np.broadcast_to(np.asarray(parameter, np.float64), state["n"].shape))
        hits = np.ascontiguousarray(state["hits"].reshape(-1, len(self.bounds) + 1))
        return np.asarray(_estimate(head_of(state), hits, self._edges(), phis))

    def check(self, state: State) -> None:
        finite, hits = check_head(self.name, state), state["hits"]
        even = (np.diff(state["off"]) == len(self.bounds) + 1).all()
        if not even or (hits < 0).any() or (run_sums(hits, state["off"]) != finite).any():
            raise BlobError(f"columns of {self.name} do not fit each other")

    def _edges(self) -> F64:
        return np.array(self.bounds, np.float64)

    def _state(self, head: Head, hits: I64) -> State:
        off = np.arange(len(hits) + 1) * hits.shape[1]
        return {c.name: a for c, a in zip(self.columns, (*head, off, hits.ravel()), strict=True)}


@kernel
def _build(values: F64, present: Bool, group: I32, groups: int, edges: F64) -> tuple[Head, I64]:
    """Counts int64[panes * groups, buckets] of values float64[n, P]."""
    n, panes = values.shape
    head, hits = empty_head(panes * groups), np.zeros((panes * groups, len(edges) + 1), np.int64)
    for i in range(n):
        for p in range(panes):
            row, value = p * groups + group[i], values[i, p] + 0.0
            if present[i, p] and count_in(head, row, value):
                hits[row, np.searchsorted(edges, value)] += 1
    return head, hits


@kernel
def _merge(more: Head, hits: I64, into: I64, n_rows: int) -> tuple[Head, I64]:
    head, total = empty_head(n_rows), np.zeros((n_rows, hits.shape[1]), np.int64)
    for i in range(len(into)):
        add_head(head, into[i], more, i)
        total[into[i]] += hits[i]
    return head, total


@kernel
def _estimate(head: Head, hits: I64, edges: F64, phi: F64) -> F64:
    """PromQL's quantile, with order statistics read off the buckets; float64[rows]."""
    out = np.empty(len(phi))
    for row in range(len(phi)):
        q = phi[row]
        if head[0][row] == 0 or np.isnan(q):
            out[row] = np.nan
        elif q < 0 or q > 1:
            out[row] = -np.inf if q < 0 else np.inf
        else:
            lower, upper, share = neighbours(head, row, q)
            a = _at_rank(head, row, lower, hits[row], edges)
            b = _at_rank(head, row, upper, hits[row], edges)
            out[row] = a * (1 - share) + b * share
    return out


@kernel
def _at_rank(head: Head, row: int, rank: int, hits: I64, edges: F64) -> float:
    """The order statistic of this rank: as far along its bucket as its place among the bucket's values."""
    if rank <= 0 or rank >= finite_count(head, row) - 1:
        return float(outside(head, row, rank))
    low, high, below = head[4][row], head[5][row], 0
    for b in range(len(hits)):
        if rank < below + hits[b]:
            left = low if b == 0 else max(low, edges[b - 1])
            right = high if b == len(edges) else min(high, edges[b])
            share = (rank + 1 - below) / hits[b]
            return float(left * (1 - share) + right * share)
        below += hits[b]
    return float(high)


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, Buckets)
    return 56 + 8 * (len(found.bounds) + 1)


FAMILY = Family(
    "le",
    "classic buckets: counts at or below fixed bounds",
    Buckets,
    _row_bytes,
    (Parameter("bounds", PROMETHEUS_DEFAULTS, -1e300, 1e300, "upper bounds, rising, with spaces between"),),
)
