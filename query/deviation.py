"""How far a summary's answer is from the exact one, measured in what its bound is measured in."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from precompute.catalog import Coverage
from precompute.evaluate.grouping import grouping
from precompute.evaluate.values import Vector
from precompute.labels import Labels
from precompute.samples import F64

_ROUNDING = 1e-9
"""Of sums and what is made from them, relative to the magnitudes that are added: far above what rounding can do."""
_MOST_GROUPS = 64
"""So many groups of a step are compared; that the groups are the same ones is checked of all."""


@dataclass(frozen=True)
class Deviation:
    """error: what the bound bounds; allowed: the bound."""

    error: float
    allowed: float
    detail: str = ""

    @property
    def outside(self) -> bool:
        return not self.error <= self.allowed


@dataclass(frozen=True)
class Compared:
    """One operator's answers at some steps: from summaries, exactly, and the rows that it aggregates."""

    coverage: Coverage
    got: Vector
    exact: Vector
    rows: Vector


def deviations(compared: Compared, step: int, chance: np.random.Generator) -> Iterator[Deviation]:
    """Of the groups at a step."""
    got, exact = _at(compared.got, step), _at(compared.exact, step)
    if got.keys() != exact.keys():
        other = next(iter(got.keys() ^ exact.keys()))
        yield Deviation(math.inf, 0.0, f"group {dict(other)} is in one of them only")
        return
    keys = list(exact)
    if len(keys) > _MOST_GROUPS:
        keys = [keys[k] for k in chance.choice(len(keys), _MOST_GROUPS, replace=False)]
    members = _members(compared, set(keys))
    for key in keys:
        values = compared.rows.values[members[key], step][compared.rows.present[members[key], step]]
        found = _deviation(compared.coverage, got[key], exact[key], np.sort(values))
        if found is not None:
            error, allowed = found
            yield Deviation(error, allowed, f"{dict(key)}: {got[key]!r}, exactly {exact[key]!r}")


def _at(value: Vector, step: int) -> dict[Labels, float]:
    rows = np.flatnonzero(value.present[:, step]).tolist()
    return {value.frame.labels(row): float(value.values[row, step]) for row in rows}


def _members(compared: Compared, wanted: set[Labels]) -> dict[Labels, Sequence[int]]:
    """The rows of each group."""
    node = compared.coverage.requirement.node
    frame, group = grouping(compared.rows.frame, node.labels, node.without).groups()
    keys = [frame.labels(k) for k in range(len(frame))]
    return {key: np.flatnonzero(group == k).tolist() for k, key in enumerate(keys) if key in wanted}


def _deviation(coverage: Coverage, got: float, exact: float, ordered: F64) -> tuple[float, float] | None:
    """(error, bound) of a group's answer, whose values are given in order; None where the bound says nothing."""
    if got == exact or (math.isnan(got) and math.isnan(exact)):
        return 0.0, 0.0
    bound, op = coverage.statistic.bound, coverage.requirement.node.op
    if bound.kind == "exact":
        return _of_exact(op, got, exact, ordered)
    if not np.isfinite(ordered).all() or bound.confidence < 1 or op != "quantile":
        return None
    scale = _beside(float(getattr(coverage.requirement.node.parameter, "value", math.nan)), ordered)
    if bound.kind != "relative" or scale is None:
        return None
    return (abs(got - exact) / scale if scale else math.inf), bound.size * (1 + _ROUNDING)


def _of_exact(op: str, got: float, exact: float, ordered: F64) -> tuple[float, float] | None:
    if op not in ("sum", "avg", "stddev", "stdvar"):
        return math.inf, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(ordered)
        scale = float(size.sum()) if op == "sum" else float(size.max()) ** (2 if op == "stdvar" else 1)
    if not math.isfinite(scale) or scale == 0:
        return None
    return abs(got - exact) / scale, _ROUNDING


def _beside(phi: float, ordered: F64) -> float | None:
    """The larger magnitude of the two values beside a quantile."""
    if not 0 <= phi <= 1:
        return None
    low = math.floor(phi * (len(ordered) - 1))
    return float(np.abs(ordered[low : low + 2]).max())
