"""How far a summary's answer is from the exact one, measured in what its bound is measured in."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from precompute.catalog import Coverage
from precompute.evaluate.grouping import grouping
from precompute.evaluate.values import Vector
from precompute.labels import Labels
from precompute.samples import F64
from precompute.sketches.le import Buckets
from precompute.sketches.registry import Statistic, accumulator

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
    confidence: float = 1.0
    """How probable it is that a right answer is within."""
    end_ms: int = 0
    """Of the pane that was read."""

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
            detail = f"{dict(key)}: {got[key]!r}, exactly {exact[key]!r}"
            yield Deviation(error, allowed, detail, compared.coverage.statistic.bound.confidence)


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
    phi = float(getattr(coverage.requirement.node.parameter, "value", math.nan))
    if op != "quantile" or not 0 <= phi <= 1 or not np.isfinite(ordered).all():
        return None
    if not math.isfinite(got):
        return math.inf, 0.0
    return _JUDGES[bound.kind](coverage.statistic, phi, got, exact, ordered) if bound.kind in _JUDGES else None


def _of_relative(how: Statistic, phi: float, got: float, exact: float, ordered: F64) -> tuple[float, float]:
    scale = float(np.abs(_beside(phi, ordered)).max())
    return (abs(got - exact) / scale if scale else math.inf), how.bound.size * (1 + _ROUNDING)


def _of_rank(how: Statistic, phi: float, got: float, exact: float, ordered: F64) -> tuple[float, float]:
    """How far φ is from the nearest φ' of which the answer is the quantile."""
    size = how.bound.size * (1 - phi if how.bound.kind == "upper rank" else 1)
    low, high = (_rank(got + sign * _ROUNDING * abs(got), ordered) for sign in (-1, 1))
    within = ordered[0] - _ROUNDING * abs(got) <= got <= ordered[-1] + _ROUNDING * abs(got)
    error = max(0.0, low[0] - phi, phi - high[1]) if within else math.inf
    return error, size * (1 + _ROUNDING) + _ROUNDING


def _rank(value: float, ordered: F64) -> tuple[float, float]:
    """The least and the largest φ of which the value is the quantile, or would be between its neighbours."""
    last = max(1, len(ordered) - 1)
    first, end = int(np.searchsorted(ordered, value, "left")), int(np.searchsorted(ordered, value, "right"))
    if first < end:
        return (0.0 if first == 0 else first / last), (1.0 if end == len(ordered) else (end - 1) / last)
    if first in (0, len(ordered)):
        return (0.0, 0.0) if first == 0 else (1.0, 1.0)
    before, after = ordered[first - 1 : first + 1].tolist()
    phi = (first - 1 + (value - before) / (after - before)) / last
    return phi, phi


def _of_bucket(how: Statistic, phi: float, got: float, exact: float, ordered: F64) -> tuple[float, float]:
    """The distance to the right value, in that from it to what the buckets of the values beside allow on that side."""
    (kept,) = (accumulator(name) for name in how.needs)
    assert isinstance(kept, Buckets), "no other has this bound"
    edges = np.array([-math.inf, *kept.bounds, math.inf])
    place = np.searchsorted(edges, _beside(phi, ordered))
    least, most = (np.clip(edges[place - side], ordered[0], ordered[-1]) for side in (1, 0))
    share = phi * (len(ordered) - 1) % 1
    limit = float(np.interp(share, (0, 1), (most if got > exact else least)[[0, -1]]))
    allowed = abs(limit - exact) + _ROUNDING * max(abs(limit), abs(exact))
    return (abs(got - exact) / allowed if allowed else math.inf), 1.0


_JUDGES: Mapping[str, Callable[[Statistic, float, float, float, F64], tuple[float, float]]] = {
    "relative": _of_relative, "rank": _of_rank, "upper rank": _of_rank, "bucket": _of_bucket,
}  # fmt: skip


def _of_exact(op: str, got: float, exact: float, ordered: F64) -> tuple[float, float] | None:
    if op not in ("sum", "avg", "stddev", "stdvar"):
        return math.inf, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(ordered)
        scale = float(size.sum()) if op == "sum" else float(size.max() ** (2 if op == "stdvar" else 1))
    if not math.isfinite(scale) or scale == 0:
        return None
    return abs(got - exact) / scale, _ROUNDING


def _beside(phi: float, ordered: F64) -> F64:
    """The two values beside a quantile, or the one that it is."""
    low = math.floor(phi * (len(ordered) - 1))
    return ordered[low : low + 2]
