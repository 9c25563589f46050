"""Count-min with the heaviest keys beside it, which count-min alone cannot name.

While a row has few keys they are all known, with their weights. Beyond, it keeps the k keys that weigh most by its
cells, among those of its parts. A key of more than 1/k of the total and the cells' error is among them: it weighs
that share in one part at least, fewer than k keys can seem to weigh as much there, and so it is kept in that part, and
likewise in every merge.

The bound on `topk` must hold for all keys at once, so its error is larger than that of one key: that which none of a
million keys passes with 99 % probability. Source: G. Cormode, S. Muthukrishnan 2005 (count_min_kernels.py), section 5.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import Accumulator, Array, Bound, Column, Items, State
from precompute.sketches.columns import runs_rise
from precompute.sketches.count_min import SIZES, CountMin
from precompute.sketches.count_min import row_bytes as cells_bytes
from precompute.sketches.family import Family, Parameter, Value
from precompute.sketches.keyed import best_of_runs, nth_of_runs, rows_of_runs, runs_of
from precompute.sketches.weights import known, weighty

KEYS, CONFIDENCE = 1e6, 0.99


def worst_of_many(depth: int) -> float:
    """Error, as totals per cell of a line, that none of KEYS keys passes: each does with probability error^-depth."""
    return float((KEYS / (1 - CONFIDENCE)) ** (1 / depth))


@dataclass(frozen=True)
class CountMinHeap:
    """The accumulator: a count-min sketch and the candidates of each row that has cells."""

    name: str = "countminheap"
    width: int = 2719
    depth: int = 5
    k: int = 100
    version: int = 1
    feeds: ClassVar[type[Items]] = Items
    seams: ClassVar[bool] = False
    cells: CountMin = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", CountMin(self.name, self.width, self.depth))

    @property
    def columns(self) -> tuple[Column, ...]:
        """best: keys, ascending; none in a row that has no cells."""
        return (*self.cells.columns, Column("best_off", "<i8"), Column("best", "<u8", "best_off"))

    @property
    def answers(self) -> Mapping[str, Bound]:
        """topk: the weight of rank `parameter`, from 1 for the heaviest to k."""
        heaviest = Bound("additive", 1 / self.k + worst_of_many(self.depth) / self.width, CONFIDENCE)
        return {**self.cells.answers, "topk": heaviest}

    def build(self, items: Items) -> State:
        built = self.cells.build(items)
        row, key, _ = weighty(items)
        return {**built, **self._best(built, row, key)}

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        merged = self.cells.merge(state, into, n_rows)
        row = np.concatenate([rows_of_runs(state[f"{of}_off"], into) for of in ("key", "best")])
        return {**merged, **self._best(merged, row, np.concatenate([state["key"], state["best"]]))}

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        if statistic != "topk":
            return self.cells.estimate(state, statistic, parameter)
        off, _, weight = self.heaviest(state)
        return np.where(known(state), nth_of_runs(off, weight, parameter), np.nan)

    def heaviest(self, state: State) -> tuple[I64, U64, F64]:
        """The k heaviest keys of each row as runs, heaviest first: offsets, keys, and their weights by estimate."""
        row = np.concatenate([_rows(state["key_off"]), _rows(state["best_off"])])
        runs = runs_of(row, np.concatenate([state["key"], state["best"]]), len(state["total"]))
        weight = self.cells.weights(state, _rows(runs.off), runs.keys)
        picks, off = best_of_runs(runs.off, weight.view(np.int64), self.k)
        return off, runs.keys[picks], weight[picks]

    def check(self, state: State) -> None:
        self.cells.check(state)
        kept = np.diff(state["best_off"])
        alone = (kept == 0) | (np.diff(state["cell_off"]) > 0)
        if not (bool((alone & (kept <= self.k)).all()) and runs_rise(state["best"], state["best_off"])):
            raise BlobError(f"columns of {self.name} do not fit each other")

    def _best(self, built: State, row: I64, key: U64) -> dict[str, Array]:
        """The candidates of rows with cells, chosen among (row, key)."""
        rows = len(built["total"])
        offered = (np.diff(built["cell_off"]) > 0)[row]
        runs = runs_of(row[offered], key[offered], rows)
        weight = self.cells.weights(built, _rows(runs.off), runs.keys)
        picks, off = best_of_runs(runs.off, weight.view(np.int64), self.k)
        best = runs_of(_rows(off), runs.keys[picks], rows)
        return {"best_off": best.off, "best": best.keys}


def _rows(off: I64) -> I64:
    return rows_of_runs(off, np.arange(len(off) - 1))


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, CountMinHeap)
    return 8 + cells_bytes(found.cells, n) + (0 if n <= found.cells.few else 8 * found.k)


def _fit(error: float) -> Mapping[str, Value]:
    half = min(error, 0.1) / 2
    return {"k": min(math.ceil(1 / half), 10_000), "width": min(math.ceil(worst_of_many(5) / half), 1 << 16)}


FAMILY = Family(
    "countminheap",
    "weight of each key, and the k heaviest keys, by count-min once they are many",
    CountMinHeap,
    _row_bytes,
    (*SIZES, Parameter("k", 100, 10, 10_000, "how many keys are remembered once they are many")),
    _fit,
    few=CountMin().few,
)
