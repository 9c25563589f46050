"""What is claimed of estimates, one Claim per accumulator and statistic, and how each is measured."""

import math
from collections.abc import Callable

import numpy as np

from precompute.samples import F64
from precompute.sketches.base import EXACT, Bound, State, one_pane
from precompute.sketches.columns import concat_columns, size_bytes
from precompute.sketches.exact import sum_of
from precompute.sketches.registry import FAMILIES, accumulator
from tests.bench.accuracy_claim import Claim, Trial
from tests.bench.accuracy_data import neighbours, rank_error
from tests.bench.accuracy_keys import distinct, topk, weight

PHIS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999)


def merged(name: str, values: F64, parts: int) -> State:
    """One row, built in parts."""
    kept = accumulator(name)
    states = [kept.build(one_pane(p, *(np.zeros(len(p), np.int32),) * 2, 1)) for p in np.array_split(values, parts)]
    return kept.merge(concat_columns(kept.columns, states), np.zeros(parts, np.int64), 1)


def quantiles(name: str) -> Claim:
    """The quantile of an accumulator that answers it."""
    bound = accumulator(name).answers["quantile"]

    def measure(values: F64, parts: int) -> Trial:
        state, ordered = merged(name, values, parts), np.sort(values)
        estimates = [float(accumulator(name).estimate(state, "quantile", phi)[0]) for phi in PHIS]
        found = [_error(name, bound, ordered, *both) for both in zip(PHIS, estimates, strict=True)]
        return Trial(np.array([e for e, _ in found]), np.array([held for _, held in found]), size_bytes(state))

    unit = "in rank" if "rank" in bound.kind else "of the larger neighbouring value"
    return Claim(name, "quantile", bound, unit, measure)


def _error(name: str, bound: Bound, ordered: F64, phi: float, estimate: float) -> tuple[float, bool]:
    below, above, right = neighbours(ordered, phi)
    if "rank" in bound.kind:
        error = rank_error(ordered, phi, estimate)
        # a bound below one value's rank cannot be told from it
        return error, error <= max(bound.size * (1 - phi if bound.kind == "upper rank" else 1), 1 / len(ordered))
    scale = max(abs(below), abs(above)) or 1.0
    error = abs(estimate - right) / scale
    if bound.kind == "bucket":
        edges = np.array([-math.inf, *accumulator(name).bounds, math.inf])  # type: ignore[attr-defined]
        low, high = np.searchsorted(edges, below) - 1, np.searchsorted(edges, above)
        return error, bool(edges[low] <= estimate <= edges[high])
    return error, error <= bound.size


def _sums(values: F64, parts: int) -> Trial:
    state = merged("sum", values, parts)
    error = abs(float(sum_of(state)[0]) - math.fsum(values)) / math.fsum(np.abs(values))
    return Trial(np.array([error]), np.array([error <= 1e-12]), size_bytes(state))


def _moments(values: F64, parts: int) -> Trial:
    state = merged("stddev", values, parts)
    mean = math.fsum(values) / len(values)
    error = abs(float(state["m2"][0]) - math.fsum((values - mean) ** 2)) / math.fsum(values**2)
    return Trial(np.array([error]), np.array([error <= 1e-12]), size_bytes(state))


MEASURES: dict[str, Callable[[str], Claim]] = {
    "quantile": quantiles,
    "distinct": distinct,
    "weight": weight,
    "topk": topk,
}
"""How an approximate statistic is measured, for the accumulator of a name."""

MEMBERS = (
    *FAMILIES,
    "quantile(alpha=0.001)", "kll(k=800)", "req(k=32)", "hll(p=10)", "countmin(width=272)", "frequent(k=1000)",
)  # fmt: skip
"""The accumulators whose approximate answers are measured: one of each family, and some with other parameters."""

CLAIMS: tuple[Claim, ...] = (
    Claim("sum", "sum", EXACT, "of Σ|x|; the bound is 1e-12", _sums),
    Claim("stddev", "M2", EXACT, "of Σx²; the bound is 1e-12", _moments),
    *(
        MEASURES[statistic](name)
        for name in MEMBERS
        for statistic, bound in accumulator(name).answers.items()
        if bound.kind != "exact"
    ),
)
