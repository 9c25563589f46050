"""The queries of `make bench-promql`, their answers, and whether the systems agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.bench.data import METRIC, STEP_MS
from tests.bench.measure import OFF_GRID_MS
from tests.bench.promql_data import BUCKET, COUNTER, LanguageDataset

RELATIVE = 1e-9
_OWN_RATES = ("rate", "_over_time")
"""What VictoriaMetrics computes by rules of its own, in which some of them keep the metric's name."""


@dataclass(frozen=True)
class Query:
    text: str
    over_the_hour: bool = False


QUERIES = (
    Query(f"quantile by (pattern) (0.99, {METRIC})"),
    Query(f"sum by (region) (rate({COUNTER}[5m]))"),
    Query(f"quantile_over_time(0.99, {COUNTER}[1h])"),
    Query(f"max_over_time({COUNTER}[1h])"),
    Query(f"avg by (service) (avg_over_time({METRIC}[5m]))"),
    Query(f"topk(10, sum by (host) ({METRIC}))"),
    Query(f"count({METRIC})"),
    Query(f"sum by (region, service) ({METRIC}) / on (region, service) sum by (region, service) ({COUNTER})"),
    Query(f"histogram_quantile(0.99, sum by (le, job) (rate({BUCKET}[5m])))"),
    Query(f'{COUNTER}{{region="region0"}}'),
    Query(f'{COUNTER}{{service=~".*7",region=~"region[12]"}}'),
    Query(f"quantile by (pattern) (0.99, {METRIC})", over_the_hour=True),
)


def parameters(query: Query, data: LanguageDataset) -> tuple[str, dict[str, str]]:
    """Path and parameters: at the hour's end, or over it at 15 s, a millisecond off the samples' times.

    There Prometheus 2, whose ranges include their left edge, and 3 agree.
    """
    first, last = (_seconds(t + OFF_GRID_MS) for t in (data.times_ms[0], data.end_ms))
    if query.over_the_hour:
        return "/api/v1/query_range", {"query": query.text, "start": first, "end": last, "step": _seconds(STEP_MS)}
    return "/api/v1/query", {"query": query.text, "time": last}


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}"


@dataclass(frozen=True)
class Measured:
    """One query's times and its last answer."""

    query: Query
    took_s: tuple[float, ...]
    cpu_s: float
    """Per query."""
    body_bytes: int
    rows: Sequence[Any] = field(repr=False)

    @property
    def median_s(self) -> float:
        return float(np.median(self.took_s))

    @property
    def p99_s(self) -> float:
        return float(np.percentile(self.took_s, 99))

    def points(self, without: str = "") -> dict[tuple[tuple[tuple[str, str], ...], int], float]:
        """By labels, one of them left out, and ms."""
        found = {}
        for row in self.rows:
            labels = tuple(sorted((name, text) for name, text in row["metric"].items() if name != without))
            for t_s, text in row.get("values") or [row["value"]]:
                found[labels, round(t_s * 1000)] = float(text)
        return found


@dataclass(frozen=True)
class Outcome:
    """One system."""

    title: str
    version: str
    options: str
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class Results:
    """All systems on one dataset; the first one is ASAP."""

    scale: str
    data: LanguageDataset
    begun: str
    outcomes: Sequence[Outcome]

    def ratios(self, peer: Outcome) -> list[float]:
        """How many times faster than a peer, query by query."""
        pairs = zip(self.outcomes[0].measured, peer.measured, strict=True)
        return [theirs.median_s / ours.median_s for ours, theirs in pairs]

    def wrong(self) -> list[str]:
        """Where a peer's answer is another one, values included where both compute by the same rules."""
        return [
            f"{ours.query.text}: {why}, {peer.title}"
            for peer in self.outcomes[1:]
            for ours, theirs in zip(self.outcomes[0].measured, peer.measured, strict=True)
            if (why := _unlike(ours, theirs, peer.title))
        ]


def _unlike(ours: Measured, theirs: Measured, title: str) -> str:
    by_own_rules = title != "Prometheus" and any(word in ours.query.text for word in _OWN_RATES)
    here, there = (one.points("__name__" if by_own_rules else "") for one in (ours, theirs))
    if here.keys() != there.keys():
        return f"{len(here)} points here, {len(there)} there"
    if by_own_rules:
        return ""
    off = [key for key in here if not math.isclose(here[key], there[key], rel_tol=RELATIVE)]
    return f"{len(off)} of {len(here)} values differ, as {here[off[0]]!r} and {there[off[0]]!r}" if off else ""


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))
