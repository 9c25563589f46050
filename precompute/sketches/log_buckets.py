"""The quantile sketch: raw values while a row has few, else counts in log buckets.

A row of n values is *raw* if n <= RAW_LIMIT (a raw value costs 8 bytes, as a bucket does), else it is
*buckets*. So a row is a function of its multiset of values: merging is free of order, and merging parts
gives exactly what building the whole gives. Every order statistic of a bucket row is known to within alpha of
itself, hence PromQL's interpolation between two of them to within alpha of the larger.

-0.0 counts as 0.0. PromQL sorts NaN below all numbers, and so does this.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import Accumulator, Array, Bound, Column, State, Vectors
from precompute.sketches.columns import run_sums, runs_rise
from precompute.sketches.family import Family, Parameter
from precompute.sketches.log_index import LogIndex, log_index
from precompute.sketches.log_kernels import RAW_LIMIT, build, by_target, estimate, merge

COLUMNS = (
    Column("n", "<i8"),
    Column("low", "<f8"),
    Column("high", "<f8"),
    Column("raw_off", "<i8"),
    Column("raw", "<f8", "raw_off"),
    Column("key_off", "<i8"),
    Column("key", "<i4", "key_off"),
    Column("hits", "<u4", "key_off"),
)
"""n: values, all kinds. low, high: smallest and largest finite value, NaN if none. raw: sorted, NaN first.
key: ascending bucket keys, with `hits` values each."""


@dataclass(frozen=True)
class LogBuckets:
    """The accumulator; all States of one name and version share one alpha."""

    name: str = "quantile"
    alpha: float = 0.01
    version: int = 1
    columns: tuple[Column, ...] = COLUMNS
    feeds: ClassVar[type[Vectors]] = Vectors
    seams: ClassVar[bool] = False
    index: LogIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", log_index(self.alpha))

    @property
    def answers(self) -> Mapping[str, Bound]:
        return {"quantile": Bound("relative", self.alpha)}

    def build(self, vectors: Vectors) -> State:
        values = np.ascontiguousarray(vectors.values.T) + 0.0
        present = np.ascontiguousarray(vectors.present.T)
        members = by_target(vectors.group.astype(np.int64), vectors.groups)
        arguments: tuple[Any, ...] = (values, values.view(np.int64), present, *members, *self._tables())
        return _state(*build(*arguments))

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        raw = np.ascontiguousarray(state["raw"])
        sources = by_target(into.astype(np.int64), n_rows)
        columns = [state[c.name] for c in COLUMNS if c.name != "raw"]
        arguments: tuple[Any, ...] = (*columns, raw, raw.view(np.int64), *sources, *self._tables())
        return _state(*merge(*arguments))

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        phis = np.ascontiguousarray(np.broadcast_to(np.asarray(parameter, np.float64), state["n"].shape))
        columns = [state[c.name] for c in COLUMNS]
        arguments: tuple[Any, ...] = (*columns, phis, self.index.top, self.index.per_octave, self.index.middle)
        return np.asarray(estimate(*arguments))

    def check(self, state: State) -> None:
        n, key, key_off, top = state["n"], state["key"], state["key_off"], self.index.top
        raw = np.where(n <= RAW_LIMIT, n, 0)
        counted = (np.diff(state["raw_off"]) == raw) & (run_sums(state["hits"], key_off) == n - raw)
        inside = not len(key) or -top - 2 <= key.min() <= key.max() <= top + 1
        if not (counted.all() and inside and runs_rise(key, key_off)):
            raise BlobError(f"columns of {self.name} do not fit each other")

    def _tables(self) -> tuple[int, int, I64, I64]:
        return self.index.top, self.index.per_octave, self.index.guess, self.index.edge


QUANTILE = LogBuckets()


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    """At 8 bytes a bucket, of values that lie within six decades."""
    decades = 6 * math.log(10) / (2 * found.answers["quantile"].size)
    return 40 + 8 * (n if n <= RAW_LIMIT else min(n, math.ceil(decades)))


FAMILY = Family(
    "quantile",
    "log buckets",
    LogBuckets,
    _row_bytes,
    (Parameter("alpha", 0.01, 0.001, 0.1, "bound, as a share of the value"),),
    lambda error: {"alpha": min(error, 0.1)},
    few=RAW_LIMIT,
)


def _state(*columns: Array) -> State:
    return {c.name: a for c, a in zip(COLUMNS, columns, strict=True)}
