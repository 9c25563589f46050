"""The weight of each key: the weights themselves while a row has few keys, then a count-min sketch.

A row is exact while its keys and weights take no more bytes than its cells would. Beyond, an estimate is never below
the right weight (but for rounding), and above it by at most e / width of the row's total, with probability
1 - exp(-depth). Which form a row has is a function of its set of keys, and sums of whole weights below 2^53 are exact:
then merging parts in any order gives the bits of building the whole. Sums of other weights are compensated and
rounded once per merge. Which weights are taken: weights.py.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.samples import F64, I32, I64, U64, Bool
from precompute.sketches.base import Accumulator, Array, Bound, Column, Items, State
from precompute.sketches.columns import runs_rise
from precompute.sketches.count_min_kernels import cell_estimates, fill_cells
from precompute.sketches.family import Family, Parameter, Value
from precompute.sketches.keyed import NOWHERE, find_in_runs, full_runs, rows_of_runs, runs_of, sums_by_place
from precompute.sketches.log_kernels import by_target
from precompute.sketches.weights import TOTALS, fit, known, merged_totals, totals_of, weighty


@dataclass(frozen=True)
class CountMin:
    """The accumulator with `depth` lines of `width` cells."""

    name: str = "countmin"
    width: int = 2719
    depth: int = 5
    version: int = 1
    columns: tuple[Column, ...] = (
        *TOTALS,
        Column("key_off", "<i8"),
        Column("key", "<u8", "key_off"),
        Column("weight", "<f8", "key_off"),
        Column("cell_off", "<i8"),
        Column("cell", "<f8", "cell_off"),
    )
    """key: ascending. A row has either keys or [depth, width] cells; one without weights neither."""
    feeds: ClassVar[type[Items]] = Items
    seams: ClassVar[bool] = False

    @property
    def answers(self) -> Mapping[str, Bound]:
        """weight: of the key that is the parameter; 0 in an empty row."""
        return {"weight": Bound("additive", math.e / self.width, 1 - math.exp(-self.depth))}

    @property
    def few(self) -> int:
        """The largest number of keys that are kept as they are."""
        return self.width * self.depth // 2

    def build(self, items: Items) -> State:
        nothing = np.zeros((0, self.width * self.depth)), np.zeros(0, np.int64)
        return totals_of(items) | self._keyed(*weighty(items), *nothing, items.rows)

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        into = into.astype(np.int64)
        entries = rows_of_runs(state["key_off"], into), state["key"], state["weight"]
        cells = self.cells(state), into[full_runs(state["cell_off"])]
        return merged_totals(state, into, n_rows) | self._keyed(*entries, *cells, n_rows)

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        rows = np.arange(len(state["total"]))
        keys = np.broadcast_to(np.asarray(parameter).astype(np.uint64), len(rows))
        return np.where(known(state), self.weights(state, rows, keys), np.nan)

    def weights(self, state: State, row: I64, key: U64) -> F64:
        """What is known of each (row, key), the total's bounds aside; float64[len(row)]."""
        place = find_in_runs(state["key_off"], state["key"], row, key)
        out = np.zeros(len(row))
        out[place != NOWHERE] = state["weight"][place[place != NOWHERE]]
        has_cells = np.diff(state["cell_off"]) > 0
        dense, own = has_cells[row], (np.cumsum(has_cells) - 1)[row]
        out[dense] = cell_estimates(self.cells(state), own[dense], key[dense], self.width, self.depth)
        return out

    def cells(self, state: State) -> F64:
        """The cells of the rows that have some; float64[rows with cells, depth * width]."""
        return np.ascontiguousarray(state["cell"]).reshape(-1, self.width * self.depth)

    def check(self, state: State) -> None:
        keys, cells = np.diff(state["key_off"]), np.diff(state["cell_off"])
        either = (cells == 0) | ((cells == self.width * self.depth) & (keys == 0))
        if not (bool(either.all()) and bool((keys <= self.few).all()) and runs_rise(state["key"], state["key_off"])):
            raise BlobError(f"columns of {self.name} do not fit each other")
        if not fit(state, state["weight"], state["cell"]):
            raise BlobError(f"{self.name} holds a weight below zero or NaN")

    def _keyed(self, row: I64, key: U64, weight: F64, source: F64, targets: I64, rows: int) -> dict[str, Array]:
        """The columns of single weights, and of cells that are merged into the rows `targets`."""
        over: Bool = np.zeros(rows, np.bool_)
        over[targets] = True
        runs = runs_of(row, key, rows, self.few, over)
        cells = np.zeros((int(runs.over.sum()), self.width * self.depth))
        items = key, weight, runs.order, runs.ends
        fill_cells(source, *by_target(targets, rows), *items, runs.dense, self.width, self.depth, cells)
        return {
            "key_off": runs.off,
            "key": runs.keys,
            "weight": sums_by_place(runs.place, weight, len(runs.keys)),
            "cell_off": np.concatenate([[0], np.cumsum(runs.over * np.int64(self.width * self.depth))]),
            "cell": cells.ravel(),
        }


def row_bytes(found: Accumulator[Any], n: int) -> float:
    """Bytes of a row of n keys."""
    assert isinstance(found, CountMin)
    return 32 + (16 * n if n <= found.few else 8 * found.width * found.depth)


SIZES = (
    Parameter("width", 2719, 64, 1 << 16, "cells of a line; an estimate is off by up to e / width of the total"),
    Parameter("depth", 5, 3, 16, "lines; an estimate is off by more with probability exp(-depth)"),
)


def _fit(error: float) -> Mapping[str, Value]:
    return {"width": min(max(math.ceil(math.e / error), 272), 1 << 16)}


FAMILY = Family(
    "countmin",
    "weight of each key, by count-min once they are many",
    CountMin,
    row_bytes,
    SIZES,
    _fit,
    few=CountMin().few,
)
