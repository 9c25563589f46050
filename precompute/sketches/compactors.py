"""The accumulator of the quantile sketches that halve: KLL and REQ are two ways to choose what is halved.

Few values are kept as they are, and then quantiles are PromQL's own; beyond that the bound is in rank. The smallest
and the largest number, and the numbers of values and of NaN, are exact. -0.0 counts as 0.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import Array, Bound, Column, State, Vectors
from precompute.sketches.compactor_kernels import sound
from precompute.sketches.compactor_rows import Rows, build, estimate, merge
from precompute.sketches.log_kernels import by_target

COLUMNS = (
    Column("n", "<i8"),
    Column("nans", "<i8"),
    Column("low", "<f8"),
    Column("high", "<f8"),
    Column("size_off", "<i8"),
    Column("size", "<u4", "size_off"),
    Column("item_off", "<i8"),
    Column("item", "<f8", "item_off"),
)
"""n: values, all kinds; nans: NaN among them. low, high: smallest and largest number, NaN if none.
size: items of each level, level 0 first. item: the levels one after another, each sorted."""

UPPER = (Column("rounds", "<u8", "size_off"), Column("coin", "|u1", "size_off"))
"""Of REQ's levels: rounds of compaction, and the last coin."""


@dataclass(frozen=True)
class Compactors:
    """KLL, or REQ where `upper`."""

    name: str
    k: int
    upper: bool
    bound: Bound
    version: int = 1
    feeds: ClassVar[type[Vectors]] = Vectors
    seams: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS + UPPER if self.upper else COLUMNS

    @property
    def answers(self) -> Mapping[str, Bound]:
        return {"quantile": self.bound}

    def build(self, vectors: Vectors) -> State:
        values = np.ascontiguousarray(vectors.values.T) + 0.0
        present = np.ascontiguousarray(vectors.present.T)
        order, ends = by_target(vectors.group.astype(np.int64), vectors.groups)
        arguments: tuple[Any, ...] = (values, present, vectors.shard, order, ends, self.k, self.upper)
        return self._state(build(*arguments, _levels(len(vectors.group))))

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        order, ends = by_target(into.astype(np.int64), n_rows)
        arguments: tuple[Any, ...] = (self._rows(state), order, ends, self.k, self.upper)
        return self._state(merge(*arguments, _levels(int(state["n"].sum()))))

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        phis = np.ascontiguousarray(np.broadcast_to(np.asarray(parameter, np.float64), state["n"].shape))
        return np.asarray(estimate(self._rows(state), phis))

    def check(self, state: State) -> None:
        n, nans, _, _, size_off, size, rounds, _, item_off, item = self._rows(state)
        arguments: tuple[Any, ...] = (self.k, self.upper, n, nans, size_off, size, rounds, item_off, item)
        if not sound(*arguments).all():
            raise BlobError(f"columns of {self.name} do not fit each other")

    def _rows(self, state: State) -> Rows:
        first = [state[c] for c in ("n", "nans", "low", "high", "size_off")]
        size = state["size"].astype(np.int64)
        rounds, coin = state.get("rounds", size.astype(np.uint64)), state.get("coin", size.astype(np.uint8))
        rows = (*first, size, rounds, coin, state["item_off"], state["item"])
        return tuple(np.ascontiguousarray(column) for column in rows)  # type: ignore[return-value]  # ten arrays

    def _state(self, rows: Rows) -> State:
        n, nans, low, high, size_off, size, rounds, coin, item_off, item = rows
        levels, items = size_off[-1], item_off[-1]
        state: dict[str, Array] = {
            "n": n, "nans": nans, "low": low, "high": high, "size_off": size_off,
            "size": size[:levels].astype(np.uint32), "item_off": item_off, "item": item[:items].copy(),
        }  # fmt: skip
        return state | ({"rounds": rounds[:levels].copy(), "coin": coin[:levels].copy()} if self.upper else {})


def _levels(values: int) -> int:
    """Levels that rows of so many values can come to, and one above."""
    return max(values, 1).bit_length() + 2
