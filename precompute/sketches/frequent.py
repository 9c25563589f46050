"""The keys that weigh most, with a bound that always holds: the frequent items of Misra and Gries.

A row keeps up to k keys. With more, the (k + 1)th largest weight is taken off all and what is left of none is
dropped; `error` adds up what was taken off. So a kept weight w stands for a right one in [w, w + error], a key that is
not kept weighs at most `error`, and error <= total / (k + 1), however the parts were cut and merged. Rows that never
had more than k keys are exact.

Our own over columns, and not the frequent items of `datasketches`: that is an object for each group, which takes one
key a call from Python and holds the GIL, and its bound, 3.5 / 2^lg of the total, is looser for as many keys.

Sources: J. Misra, D. Gries 1982, "Finding repeated elements"; P. Agarwal, G. Cormode, Z. Huang, J. Phillips, Z. Wei,
K. Yi 2012, "Mergeable summaries", section 3. Which weights are taken: weights.py.
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
from precompute.sketches.family import Family, Parameter, Value
from precompute.sketches.keyed import (
    NOWHERE,
    best_of_runs,
    find_in_runs,
    nth_of_runs,
    rows_of_runs,
    runs_of,
    sums_by_place,
)
from precompute.sketches.weights import TOTALS, fit, known, merged_totals, totals_of, weighty


@dataclass(frozen=True)
class FrequentItems:
    """The accumulator."""

    name: str = "frequent"
    k: int = 200
    version: int = 1
    columns: tuple[Column, ...] = (
        *TOTALS,
        Column("error", "<f8"),
        Column("key_off", "<i8"),
        Column("key", "<u8", "key_off"),
        Column("weight", "<f8", "key_off"),
    )
    """error: by which the right weights may be larger. key: ascending."""
    feeds: ClassVar[type[Items]] = Items
    seams: ClassVar[bool] = False

    @property
    def answers(self) -> Mapping[str, Bound]:
        """weight: of the key that is the parameter, at least; 0 in an empty row. topk: of rank `parameter`, from 1."""
        bound = Bound("additive", 1 / (self.k + 1))
        return {"weight": bound, "topk": bound}

    def build(self, items: Items) -> State:
        return totals_of(items) | self._reduced(*weighty(items), np.zeros(items.rows))

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        into = into.astype(np.int64)
        entries = rows_of_runs(state["key_off"], into), state["key"], state["weight"]
        error = sums_by_place(into, state["error"], n_rows)
        return merged_totals(state, into, n_rows) | self._reduced(*entries, error)

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        answer = self._nth if statistic == "topk" else self._weight
        return np.where(known(state), answer(state, parameter), np.nan)

    def heaviest(self, state: State) -> tuple[I64, U64, F64]:
        """The keys of each row as runs, heaviest first: offsets, keys, and the least that they weigh."""
        picks, off = best_of_runs(state["key_off"], np.ascontiguousarray(state["weight"]).view(np.int64), self.k)
        return off, state["key"][picks], state["weight"][picks]

    def check(self, state: State) -> None:
        off = state["key_off"]
        if not (runs_rise(state["key"], off) and bool((np.diff(off) <= self.k).all())):
            raise BlobError(f"columns of {self.name} do not fit each other")
        if not fit(state, state["weight"], state["error"]):
            raise BlobError(f"{self.name} holds a weight below zero or NaN")

    def _nth(self, state: State, nth: float | F64 | U64) -> F64:
        off, _, weight = self.heaviest(state)
        return nth_of_runs(off, weight, nth)

    def _weight(self, state: State, parameter: float | F64 | U64) -> F64:
        rows = np.arange(len(state["total"]))
        keys = np.broadcast_to(np.asarray(parameter).astype(np.uint64), len(rows))
        place = find_in_runs(state["key_off"], state["key"], rows, keys)
        out = np.zeros(len(rows))
        out[place != NOWHERE] = state["weight"][place[place != NOWHERE]]
        return out

    def _reduced(self, row: I64, key: U64, weight: F64, error: F64) -> dict[str, Array]:
        runs = runs_of(row, key, len(error))
        sums = sums_by_place(runs.place, weight, len(runs.keys))
        kept, cut = _over_cut(runs.off, sums, self.k)
        off = np.concatenate([[0], np.cumsum(kept)])[runs.off]
        left = sums - np.repeat(cut, np.diff(runs.off))
        return {"error": error + cut, "key_off": off, "key": runs.keys[kept], "weight": left[kept]}


def _over_cut(off: I64, weight: F64, k: int) -> tuple[Bool, F64]:
    """What each run's weights are cut by: the (k + 1)th largest, 0 if there are fewer; and which are larger."""
    picks, best_off = best_of_runs(off, weight.view(np.int64), k + 1)
    cut, full = np.zeros(len(off) - 1), np.diff(best_off) > k
    cut[full] = weight[picks[best_off[1:][full] - 1]]
    return weight > np.repeat(cut, np.diff(off)), cut


def _fit(error: float) -> Mapping[str, Value]:
    return {"k": min(max(math.ceil(1 / error), 50), 100_000)}


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, FrequentItems)
    return 32 + 16 * min(n, found.k)


FAMILY = Family(
    "frequent",
    "the keys that weigh most, to within total / (k + 1)",
    FrequentItems,
    _row_bytes,
    (Parameter("k", 200, 10, 100_000, "how many keys"),),
    _fit,
    few=10,
)
