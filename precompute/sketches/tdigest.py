"""The t-digest (Dunning and Ertl 2019, "Computing extremely accurate quantiles using t-digests"), merging variant.

A row holds at most k centroids, means with weights, the smaller the nearer they are to either end (scale k1: one spans
at most one step of k / 2π · asin(2q - 1), so at most the share π / k of all values). Up to k values a row holds them
all. The bound, that widest share, is no proven one: centroids of merged rows may overlap. docs/accuracy.md shows what
is measured; where a bound must hold, take another sketch. It is here for those who compare with other systems.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import Accumulator, Bound, Column, State, Vectors
from precompute.sketches.family import Family, Parameter
from precompute.sketches.finite import HEAD, Head, check_head, head_of
from precompute.sketches.log_kernels import by_target
from precompute.sketches.tdigest_kernels import Centroids, build, estimate, merge, sound, step_of

COLUMNS = (*HEAD, Column("off", "<i8"), Column("mean", "<f8", "off"), Column("weight", "<i8", "off"))
"""mean, weight: a row's centroids, sorted by mean."""


@dataclass(frozen=True)
class TDigest:
    """The accumulator."""

    name: str
    k: int = 200
    version: int = 1
    columns: tuple[Column, ...] = COLUMNS
    feeds: ClassVar[type[Vectors]] = Vectors
    seams: ClassVar[bool] = False

    @property
    def answers(self) -> Mapping[str, Bound]:
        return {"quantile": Bound("rank", math.pi / self.k, 0.99)}

    def build(self, vectors: Vectors) -> State:
        values = np.ascontiguousarray(vectors.values.T) + 0.0
        present = np.ascontiguousarray(vectors.present.T)
        order, ends = by_target(vectors.group.astype(np.int64), vectors.groups)
        return self._state(*build(values, present, vectors.shard, order, ends, step_of(self.k)))

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        order, ends = by_target(into.astype(np.int64), n_rows)
        return self._state(*merge(head_of(state), _centroids(state), order, ends, step_of(self.k)))

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        phis = np.ascontiguousarray(np.broadcast_to(np.asarray(parameter, np.float64), state["n"].shape))
        return np.asarray(estimate(head_of(state), _centroids(state), phis))

    def check(self, state: State) -> None:
        check_head(self.name, state)
        if not sound(head_of(state), _centroids(state), self.k).all():
            raise BlobError(f"columns of {self.name} do not fit each other")

    def _state(self, head: Head, centroids: Centroids) -> State:
        return {c.name: a for c, a in zip(self.columns, (*head, *centroids), strict=True)}


def _centroids(state: State) -> Centroids:
    off, mean, weight = (np.ascontiguousarray(state[name]) for name in ("off", "mean", "weight"))
    return off, mean, weight


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, TDigest)
    return 56 + 16 * min(n, found.k)


FAMILY = Family(
    "tdigest",
    "t-digest: centroids, fine at both ends; its bound is measured, not proven",
    TDigest,
    _row_bytes,
    (Parameter("k", 200, 10, 2000, "most centroids"),),
    lambda error: {"k": max(200, math.ceil(math.pi / error))},
    few=200,
)
