"""Which accumulators there are, and which statistics they answer. Planner, explain and docs read this table.

A new sketch is one file with its Family, one line in FAMILIES, and one line in the contract suite
(docs/add-a-sketch.md).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from precompute.samples import F64, Bool
from precompute.sketches import (
    count_min,
    count_min_heap,
    exact,
    frequent,
    hll,
    key_set,
    kll,
    le,
    log_buckets,
    moments,
    req,
    seams,
    tdigest,
    theta,
    top_k,
    value_counts,
)
from precompute.sketches.base import EXACT, Accumulator, Bound, BoundKind, State, Vectors
from precompute.sketches.columns import row_count
from precompute.sketches.exact import mean_covered, mean_of
from precompute.sketches.family import Family, split_name
from precompute.sketches.moments import variance_covered

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: family
        for family in (
            *exact.FAMILIES,
            moments.FAMILY,
            *seams.FAMILIES,
            key_set.FAMILY,
            value_counts.FAMILY,
            *top_k.FAMILIES,
            hll.FAMILY,
            theta.FAMILY,
            count_min.FAMILY,
            count_min_heap.FAMILY,
            frequent.FAMILY,
            log_buckets.FAMILY,
            kll.FAMILY,
            req.FAMILY,
            tdigest.FAMILY,
            le.FAMILY,
        )
    }
)

States = Mapping[str, State]
"""State by accumulator name, all with the same rows."""


@lru_cache(maxsize=256)
def accumulator(name: str) -> Accumulator[Any]:
    """The accumulator of a name. Raises ValueError, with the remedy, for what is none."""
    family, text = split_name(name, FAMILIES)
    values = family.read(text)
    return family.make(family.named(values), **values)


def canonical(name: str) -> str:
    """The one name of an accumulator that may be written in several ways. Raises ValueError as `accumulator` does."""
    return accumulator(name).name


def family_of(name: str) -> Family:
    """The family of an accumulator's name. Raises ValueError as `accumulator` does."""
    return split_name(name, FAMILIES)[0]


def fitted(name: str, accuracy_sla: float) -> str:
    """The name with parameters for errors of at most 1 - accuracy_sla, in what its bound is measured in.

    Parameters that the name gives are kept. Raises ValueError, with the reason, where they or the family's limits do
    not allow it.
    """
    error = round(1 - accuracy_sla, 12)
    if not 0 < error < 1:
        raise ValueError(f"accuracy_sla should be above 0 and below 1, not {accuracy_sla:g}")
    family, text = split_name(name, FAMILIES)
    found = accumulator(family.named(family.fit(error)) if family.fit and not text else name)
    for statistic, bound in found.answers.items():
        if bound.kind == "bucket" or bound.size > error:
            raise ValueError(f"{found.name} answers {statistic} within {bound}, not within {error:g}")
    return found.name


def kept_of_vectors() -> tuple[str, ...]:
    """Names, with default parameters, of all that an aggregation of snapshots can keep."""
    return tuple(name for name in FAMILIES if accumulator(name).feeds is Vectors)


def _everywhere(states: States) -> Bool:
    name, state = next(iter(states.items()))
    return np.ones(row_count(accumulator(name).columns, state), np.bool_)


@dataclass(frozen=True)
class Statistic:
    """One of PromQL's aggregation operators, as one or more accumulators answer it together."""

    name: str
    needs: tuple[str, ...]
    """Names of the accumulators that it reads; all are needed."""
    estimate: Callable[[States, float | F64], F64]
    """(states, parameter) -> float64[rows]. Only `quantile` has a parameter, one or one per row."""
    bound: Bound = EXACT
    covered: Callable[[States], Bool] = _everywhere
    """Rows whose estimate holds the bound; bool[rows]. The others are answered by another tier."""


@lru_cache(maxsize=256)
def _alone(name: str, kept: str, covered: Callable[[State], Bool] | None = None) -> Statistic:
    """The statistic as one accumulator answers it by itself."""
    found = accumulator(kept)

    def estimate(states: States, parameter: float | F64) -> F64:
        return found.estimate(states[kept], name, parameter)

    if covered is None:
        return Statistic(name, (kept,), estimate, found.answers[name])
    return Statistic(name, (kept,), estimate, found.answers[name], lambda states: covered(states[kept]))


_ALL = (
    _alone("sum", "sum"),
    _alone("count", "count"),
    _alone("group", "count"),
    _alone("min", "min"),
    _alone("max", "max"),
    Statistic(
        "avg",
        ("sum", "count"),
        lambda s, _: mean_of(s["sum"], s["count"]),
        covered=lambda s: mean_covered(s["sum"]),
    ),
    _alone("stdvar", "stddev", variance_covered),
    _alone("stddev", "stddev", variance_covered),
    _alone("quantile", "quantile"),
)

STATISTICS: Mapping[str, Statistic] = MappingProxyType({s.name: s for s in _ALL})
"""PromQL's operators that summaries can answer, each from the accumulators that are first choice for it."""


def best(statistic: str, kept: Iterable[str]) -> Statistic | None:
    """How accumulators that are kept answer one of STATISTICS with the best bound; None if they do not."""
    first, kept = STATISTICS[statistic], tuple(kept)
    ways = [first] if set(first.needs) <= set(kept) else []
    ways += [_alone(statistic, name) for name in kept if name not in first.needs and _may_answer(statistic, name)]
    return min(ways, key=looseness) if ways else None


def _may_answer(statistic: str, name: str) -> bool:
    found = accumulator(name)
    return found.feeds is Vectors and statistic in found.answers


def looseness(way: Statistic) -> tuple[int, bool, float]:
    """Orders ways to answer one statistic by their bounds, the best one first."""
    return get_args(BoundKind).index(way.bound.kind), way.bound.confidence < 1, way.bound.size
