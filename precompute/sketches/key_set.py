"""The exact set of keys, and its churn.

Of each key the first and the last time at which it was seen. That is a function of the set of items, so it merges in
any order, and it holds the churn at any time inside: what was first seen after `t` has appeared since, and what was
last seen at `t` or before is gone. For two panes this is the difference of their sets of keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.kernels import kernel
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import EXACT, Accumulator, Bound, Column, Items, State
from precompute.sketches.columns import run_sums, runs_rise
from precompute.sketches.family import Family
from precompute.sketches.keyed import Runs, rows_of_runs, runs_of


@dataclass(frozen=True)
class KeySet:
    """The accumulator."""

    name: str = "keyset"
    version: int = 1
    columns: tuple[Column, ...] = (
        Column("key_off", "<i8"),
        Column("key", "<u8", "key_off"),
        Column("first_ms", "<i8", "key_off"),
        Column("last_ms", "<i8", "key_off"),
    )
    """key: ascending within a row."""
    feeds: ClassVar[type[Items]] = Items
    seams: ClassVar[bool] = False
    answers: ClassVar[Mapping[str, Bound]] = {"distinct": EXACT, "appeared": EXACT, "gone": EXACT}
    """appeared, gone: how many keys, since the time in ms that is the parameter."""

    def build(self, items: Items) -> State:
        return _state(runs_of(items.row, items.key, items.rows), items.t_ms, items.t_ms)

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        runs = runs_of(rows_of_runs(state["key_off"], into), state["key"], n_rows)
        return _state(runs, state["first_ms"], state["last_ms"])

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        off = state["key_off"]
        if statistic == "distinct":
            return np.diff(off).astype(np.float64)
        since_ms = np.repeat(np.broadcast_to(np.asarray(parameter), len(off) - 1), np.diff(off))
        hit = state["first_ms"] > since_ms if statistic == "appeared" else state["last_ms"] <= since_ms
        return run_sums(hit, off).astype(np.float64)

    def check(self, state: State) -> None:
        if not (runs_rise(state["key"], state["key_off"]) and bool((state["first_ms"] <= state["last_ms"]).all())):
            raise BlobError(f"columns of {self.name} do not fit each other")


def _state(runs: Runs, first_ms: I64, last_ms: I64) -> State:
    first, last = _spans(runs.place, first_ms, last_ms, len(runs.keys))
    return {"key_off": runs.off, "key": runs.keys, "first_ms": first, "last_ms": last}


@kernel
def _spans(place: I64, first_ms: I64, last_ms: I64, n: int) -> tuple[I64, I64]:
    """The earliest first and the latest last time at each place; int64[n] both."""
    first, last = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    for i in range(len(place)):
        k = place[i]
        first[k], last[k] = min(first[k], first_ms[i]), max(last[k], last_ms[i])
    return first, last


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    return 8 + 24 * n


FAMILY = Family("keyset", "exact set of keys, when each was first and last seen", KeySet, _row_bytes)
