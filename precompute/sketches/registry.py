"""Which accumulators there are, and which statistics they answer. Planner, explain and docs read this table.

A new accumulator is one file, one line in ACCUMULATORS, its statistics here, and one line in the contract test.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from precompute.samples import F64, Bool
from precompute.sketches.base import EXACT, Accumulator, Bound, State
from precompute.sketches.columns import row_count
from precompute.sketches.exact import COUNT, MAX, MIN, SUM, mean_covered, mean_of, sum_of
from precompute.sketches.log_buckets import QUANTILE
from precompute.sketches.moments import STDDEV, variance_covered, variance_of

States = Mapping[str, State]
"""State by accumulator name, all with the same rows."""

ACCUMULATORS: Mapping[str, Accumulator] = MappingProxyType(
    {a.name: a for a in (SUM, COUNT, MIN, MAX, STDDEV, QUANTILE)}
)


def _everywhere(states: States) -> Bool:
    name, state = next(iter(states.items()))
    return np.ones(row_count(ACCUMULATORS[name].columns, state), np.bool_)


@dataclass(frozen=True)
class Statistic:
    """One of PromQL's aggregation operators, as accumulators answer it."""

    name: str
    needs: tuple[str, ...]
    """Names of the accumulators that it reads; all are needed."""
    estimate: Callable[[States, float | F64], F64]
    """(states, parameter) -> float64[rows]. Only `quantile` has a parameter, one or one per row."""
    bound: Bound = EXACT
    covered: Callable[[States], Bool] = _everywhere
    """Rows whose estimate holds the bound; bool[rows]. The others are answered by another tier."""


_ALL = (
    Statistic("sum", ("sum",), lambda s, _: sum_of(s["sum"])),
    Statistic("count", ("count",), lambda s, _: s["count"]["n"].astype(np.float64)),
    Statistic("group", ("count",), lambda s, _: np.ones(len(s["count"]["n"]))),
    Statistic("min", ("min",), lambda s, _: np.asarray(s["min"]["min"])),
    Statistic("max", ("max",), lambda s, _: np.asarray(s["max"]["max"])),
    Statistic(
        "avg",
        ("sum", "count"),
        lambda s, _: mean_of(s["sum"], s["count"]),
        covered=lambda s: mean_covered(s["sum"]),
    ),
    Statistic(
        "stdvar",
        ("stddev",),
        lambda s, _: variance_of(s["stddev"]),
        covered=lambda s: variance_covered(s["stddev"]),
    ),
    Statistic(
        "stddev",
        ("stddev",),
        lambda s, _: np.sqrt(variance_of(s["stddev"])),
        covered=lambda s: variance_covered(s["stddev"]),
    ),
    Statistic("quantile", ("quantile",), lambda s, phi: QUANTILE.estimate(s["quantile"], phi), bound=QUANTILE.bound),
)

STATISTICS: Mapping[str, Statistic] = MappingProxyType({s.name: s for s in _ALL})
