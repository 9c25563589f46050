"""How many items have each value, as PromQL's count_values counts: all NaN are one value, 0 and -0 are two."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.kernels import kernel
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import EXACT, Accumulator, Bound, Column, Items, State
from precompute.sketches.columns import runs_rise
from precompute.sketches.family import Family
from precompute.sketches.keyed import NOWHERE, find_in_runs, rows_of_runs, runs_of


@dataclass(frozen=True)
class ValueCounts:
    """The accumulator."""

    name: str = "valuecounts"
    version: int = 1
    columns: tuple[Column, ...] = (
        Column("value_off", "<i8"),
        Column("value", "<f8", "value_off"),
        Column("hits", "<i8", "value_off"),
    )
    """value: each once in a row, ascending as unsigned integers of the same bits."""
    feeds: ClassVar[type[Items]] = Items
    seams: ClassVar[bool] = False
    answers: ClassVar[Mapping[str, Bound]] = {"count_values": EXACT}
    """How many items have the value that is the parameter."""

    def build(self, items: Items) -> State:
        return _state(items.row.astype(np.int64), items.value, np.ones(len(items.row), np.int64), items.rows)

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        return _state(rows_of_runs(state["value_off"], into), state["value"], state["hits"], n_rows)

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        rows = np.arange(len(state["value_off"]) - 1)
        asked = np.broadcast_to(np.asarray(parameter, np.float64), len(rows))
        place = find_in_runs(state["value_off"], _bits(state["value"]), rows, _bits(asked))
        hits = np.zeros(len(rows))
        hits[place != NOWHERE] = state["hits"][place[place != NOWHERE]]
        return hits

    def check(self, state: State) -> None:
        value = np.ascontiguousarray(state["value"])
        one_nan = bool((_bits(value) == value.view(np.uint64)).all())
        if not (one_nan and runs_rise(_bits(value), state["value_off"]) and bool((state["hits"] > 0).all())):
            raise BlobError(f"columns of {self.name} do not fit each other")


def _bits(value: F64) -> U64:
    return np.where(np.isnan(value), np.nan, value).view(np.uint64)


def _state(row: I64, value: F64, hits: I64, rows: int) -> State:
    runs = runs_of(row, _bits(value), rows)
    return {
        "value_off": runs.off,
        "value": runs.keys.view(np.float64),
        "hits": _hits(runs.place, hits, len(runs.keys)),
    }


@kernel
def _hits(place: I64, hits: I64, n: int) -> I64:
    total = np.zeros(n, np.int64)
    for i in range(len(place)):
        total[place[i]] += hits[i]
    return total


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    return 8 + 16 * n


FAMILY = Family("valuecounts", "how many items have each value", ValueCounts, _row_bytes)
