"""The accumulators that the contract suite runs with, one line each; small, so that rows are full and drop values."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

from precompute.samples import F64
from precompute.sketches.base import Accumulator, State, Vectors
from precompute.sketches.columns import concat_columns
from precompute.sketches.registry import accumulator
from tests.precompute.sketches.made import items, of_pane, of_shard, vectors


@dataclass(frozen=True)
class Line:
    """One accumulator and what merging its parts promises."""

    name: str
    parts: Literal["any order", "in order", "approximate"]
    """Parts merged give the bits of the whole: in any order; in the order of the values (for `seams`, of time); or
    they give an answer within the bound, and the same bits when they are merged in the same order again."""

    stepwise: bool = True
    """Merging rows at once gives the bits of merging them one by one."""

    def __str__(self) -> str:
        return self.name


def parameter_of(statistic: str) -> float | F64:
    """A parameter that a statistic has a meaning for: a window of time, a rank, or a number."""
    if statistic in ("increase", "rate", "delta"):
        return np.array([2.0**40, 2.0**41])
    return 1.0 if statistic in ("topk", "bottomk") else 0.5


LINES = (
    Line("sum", "in order"),
    Line("count", "any order"),
    Line("min", "any order"),
    Line("max", "any order"),
    Line("stddev", "in order"),
    Line("firstlast", "any order"),
    Line("increase", "approximate"),
    Line("changes", "in order"),
    Line("resets", "in order"),
    Line("keyset", "any order"),
    Line("valuecounts", "any order"),
    Line("topk", "any order"),
    Line("bottomk(k=3)", "any order"),
    Line("hll", "any order"),
    Line("hll(p=7)", "any order"),
    Line("theta(lg_k=5)", "any order"),
    Line("countmin(width=64, depth=3)", "approximate", stepwise=False),
    Line("countminheap(width=64, depth=3, k=10)", "approximate", stepwise=False),
    Line("frequent(k=10)", "approximate", stepwise=False),
    Line("quantile", "any order"),
    Line("quantile(alpha=0.05)", "any order"),
    Line("kll(k=8)", "in order"),
    Line("req(k=4)", "in order"),
    Line("tdigest(k=10)", "in order"),
    Line("le", "any order"),
    Line("le(bounds=-5.0 0.0 0.001)", "any order"),
)


@dataclass(frozen=True)
class World:
    """The same drawn values as one State, and as four parts with the same rows: shards, or panes in order of time."""

    kept: Accumulator[Any]
    whole: State
    parts: tuple[State, ...]
    rows: int

    def joined(self, order: list[int]) -> State:
        """The rows of these parts, one part after another."""
        return concat_columns(self.kept.columns, [self.parts[i] for i in order])


@st.composite
def worlds(draw: st.DrawFn, line: Line) -> World:
    """Drawn values for one line."""
    kept = accumulator(line.name)
    if kept.feeds is Vectors:
        whole = draw(vectors())
        parts = [kept.build(of_shard(whole, shard)) for shard in range(4)]
        return World(kept, kept.build(whole), tuple(parts), whole.rows)
    samples, pane = draw(items(by_series=kept.seams))
    parts = [kept.build(of_pane(samples, pane, which)) for which in range(4)]
    return World(kept, kept.build(samples), tuple(parts), samples.rows)
