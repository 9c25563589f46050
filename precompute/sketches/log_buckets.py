"""The quantile sketch: raw values while a row has few, else counts in log buckets.

A row of n values is *raw* if n <= RAW_LIMIT (a raw value costs 8 bytes, as a bucket does), else it is
*buckets*. So a row is a function of its multiset of values: merging is free of order, and merging parts
gives exactly what building the whole gives. Every order statistic of a bucket row is known to within alpha of
itself, hence PromQL's interpolation between two of them to within alpha of the larger.

-0.0 counts as 0.0. PromQL sorts NaN below all numbers, and so does this.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from precompute.samples import F64, I32, I64
from precompute.sketches.base import Array, Bound, Column, State, Vectors
from precompute.sketches.log_index import LogIndex, log_index
from precompute.sketches.log_kernels import build, by_target, estimate, merge

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
    index: LogIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", log_index(self.alpha))

    @property
    def bound(self) -> Bound:
        return Bound("relative", self.alpha)

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

    def estimate(self, state: State, phi: float | F64) -> F64:
        """PromQL's quantile of each row; phi one for all or float64[rows]."""
        phis = np.ascontiguousarray(np.broadcast_to(np.asarray(phi, np.float64), state["n"].shape))
        columns = [state[c.name] for c in COLUMNS]
        arguments: tuple[Any, ...] = (*columns, phis, self.index.top, self.index.per_octave, self.index.middle)
        return np.asarray(estimate(*arguments))

    def _tables(self) -> tuple[int, int, I64, I64]:
        return self.index.top, self.index.per_octave, self.index.guess, self.index.edge


QUANTILE = LogBuckets()


def _state(*columns: Array) -> State:
    return {c.name: a for c, a in zip(COLUMNS, columns, strict=True)}
