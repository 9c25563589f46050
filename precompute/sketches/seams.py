"""What is known of one series from pane to pane: first and last sample, increase, changes, resets.

Rows are one series each. A row joins the next pane's at a *seam*: between the last sample of one and the first of
the other lies a step like any other, which may be a change or a reset.

    pane 1        pane 2
    3   5   9  |  2   4        seam 9 -> 2: a change, a reset, and 9 is added to the increase

So these merge along time in order of time alone. A row that was merged out of that order, or of two series, knows
that (`overlaps`) and answers NaN. `firstlast` has no seam: it takes rows in any order, of several series too.

Staleness markers are no samples; whoever feeds items leaves them out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import EXACT, Bound, Column, Items, State
from precompute.sketches.family import Family
from precompute.sketches.walk_kernels import (
    DELTA,
    FIRST,
    FIRST_MS,
    INCREASE,
    LAST,
    LAST_MS,
    RATE,
    REAL,
    WHOLE,
    N,
    extrapolate,
    join_ends,
    join_walks,
)

ENDS = ("n", "first_ms", "first", "last_ms", "last")
STEPS = (*ENDS, "overlaps")

Parameter = float | F64 | U64


@dataclass(frozen=True)
class Walk:
    """An accumulator that keeps some planes of a walk (walk_kernels.py) as columns."""

    name: str
    planes: tuple[str, ...]
    join: Callable[[I64, F64, I64, int], tuple[I64, F64]]
    estimates: Mapping[str, Callable[[State, Parameter], F64]]
    seams: bool = True
    version: int = 1
    feeds: ClassVar[type[Items]] = Items

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "<i8" if name in WHOLE else "<f8") for name in self.planes)

    @property
    def answers(self) -> Mapping[str, Bound]:
        return dict.fromkeys(self.estimates, EXACT)

    def build(self, items: Items) -> State:
        m = len(items.row)
        whole, real = np.zeros((len(WHOLE), m), np.int64), np.zeros((len(REAL), m))
        whole[N] = 1
        whole[FIRST_MS] = whole[LAST_MS] = items.t_ms
        real[FIRST] = real[LAST] = np.where(np.isnan(items.value), np.nan, items.value)
        return self._state(*self.join(whole, real, items.row.astype(np.int64), items.rows))

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        return self._state(*self.join(*_planes(state), into.astype(np.int64), n_rows))

    def estimate(self, state: State, statistic: str, parameter: Parameter = 0.0) -> F64:
        known = state["n"] > 0
        if self.seams:
            known &= state["overlaps"] == 0
        return np.where(known, self.estimates[statistic](state, parameter), np.nan)

    def check(self, state: State) -> None:
        n, steps = state["n"], np.maximum(state["n"] - 1, 0)
        events = [state[name] for name in ("overlaps", "resets", "changes") if name in state]
        counted = all(bool(((e >= 0) & (e <= steps)).all()) for e in events)
        if not (counted and bool((n >= 0).all())):
            raise BlobError(f"columns of {self.name} do not fit each other")

    def _state(self, whole: I64, real: F64) -> State:
        planes = {**dict(zip(WHOLE, whole, strict=False)), **dict(zip(REAL, real, strict=False))}
        return {name: planes[name] for name in self.planes}


def _planes(state: State) -> tuple[I64, F64]:
    """All planes; those that are not kept are zero."""
    nothing = np.zeros(len(state["n"]), np.int64)
    return np.stack([state.get(name, nothing) for name in WHOLE]), np.stack(
        [state.get(name, nothing.view(np.float64)) for name in REAL]
    )


def _over_window(what: int) -> Callable[[State, Parameter], F64]:
    """PromQL's extrapolated function; its parameter is the window, (until_ms, range_ms), one or one per row."""

    def estimate(state: State, parameter: Parameter) -> F64:
        window = np.asarray(parameter, np.float64)
        if window.shape[-1:] != (2,):
            raise ValueError("the parameter of rate, increase and delta is a window: (until_ms, range_ms)")
        ends, ranges = np.broadcast_to(window, (len(state["n"]), 2)).T.astype(np.int64)
        found = np.asarray(extrapolate(*_planes(state), what, ends, ranges))
        # infinite by a sample that was, or by overflow, where PromQL, which takes the first sample off before, has none
        return found if what == DELTA else np.where(np.isfinite(state["added"]), found, np.nan)

    return estimate


FIRSTLAST = Walk(
    "firstlast",
    ENDS,
    join_ends,
    {
        "first_over_time": lambda s, _: np.asarray(s["first"]),
        "last_over_time": lambda s, _: np.asarray(s["last"]),
        "ts_of_first_over_time": lambda s, _: s["first_ms"] / 1000,
        "ts_of_last_over_time": lambda s, _: s["last_ms"] / 1000,
    },
    seams=False,
)
INCREASE_OF = Walk(
    "increase",
    (*STEPS, "added", "comp"),
    join_walks,
    {"increase": _over_window(INCREASE), "rate": _over_window(RATE), "delta": _over_window(DELTA)},
)
CHANGES_OF = Walk("changes", (*STEPS, "changes"), join_walks, {"changes": lambda s, _: s["changes"].astype(np.float64)})
RESETS_OF = Walk("resets", (*STEPS, "resets"), join_walks, {"resets": lambda s, _: s["resets"].astype(np.float64)})


def _family(member: Walk, meaning: str) -> Family:
    return Family(member.name, meaning, lambda name: member, lambda accumulator, n: 8 * len(member.planes))


FAMILIES = (
    _family(FIRSTLAST, "oldest and newest sample, with their times"),
    _family(INCREASE_OF, "increase of one series, resets corrected, across panes"),
    _family(CHANGES_OF, "how often one series' value changed, across panes"),
    _family(RESETS_OF, "how often one series' value fell, across panes"),
)
