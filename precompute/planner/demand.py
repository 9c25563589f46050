"""What the planner is asked to serve: requirements, with how often, at which steps and how far back they are asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from precompute.catalog import Requirement, Uncovered, requirements
from precompute.evaluate.expr import Aggregate, Expr, selectors, walk


@dataclass(frozen=True)
class Asking:
    """How a query is asked.

    per_hour        evaluations of it in an hour
    span_ms         from its first step to its last; 0 for an instant query
    accuracy_sla    the least accuracy that is asked for, 1 - error; None: the planner's own
    latency_ms      how long its answer may take; 0: as fast as can be
    origin          where it stands, to be shown
    """

    per_hour: float = 1.0
    span_ms: int = 0
    accuracy_sla: float | None = None
    latency_ms: float = 0.0
    origin: str = ""


@dataclass(frozen=True)
class Member:
    """A requirement as it is asked at steps on the multiples of step_ms; 0: at any time."""

    step_ms: int
    requirement: Requirement


@dataclass(frozen=True)
class Demand:
    """A requirement that is asked again and again.

    One whose range follows the zoom (`$__rate_interval`) has a member for each step, the finest first. They are one
    demand: kept or refused together.
    """

    members: tuple[Member, ...]
    asking: Asking

    @property
    def finest(self) -> Requirement:
        return self.members[0].requirement


@dataclass(frozen=True)
class Needs:
    """What a query needs of the planner."""

    demands: tuple[Demand, ...]
    uncovered: tuple[Uncovered, ...]
    """Parts that no aggregation can answer; those under an aggregation operator only."""
    eligible: bool
    """Whether some selector stands under an aggregation operator."""


def needs(forms: Sequence[tuple[int, Expr]], asking: Asking, lookback_ms: int, evaluation_interval_ms: int) -> Needs:
    """What a query needs, of which `forms` are (step_ms, expression): one, or one for each zoom, the finest first.

    The forms are alike but for their ranges.
    """
    found = [requirements(expr, lookback_ms, evaluation_interval_ms) for _, expr in forms]
    demands, uncovered = list[Demand](), list[Uncovered]()
    for parts in zip(*found, strict=True):
        members = [
            Member(step_ms, part)
            for (step_ms, _), part in zip(forms, parts, strict=True)
            if isinstance(part, Requirement)
        ]
        if len(members) == len(forms):
            demands.append(Demand(tuple(members), asking))
        uncovered += [part for part in parts[:1] if isinstance(part, Uncovered) and part.aggregated]
    return Needs(tuple(demands), tuple(uncovered), _aggregates(forms[0][1]))


def _aggregates(expr: Expr) -> bool:
    return any(isinstance(node, Aggregate) and selectors(node.expr) for node in walk(expr))


def rate_interval_ms(step_ms: int, scrape_ms: int) -> int:
    """What Grafana fills in for `$__rate_interval`: at least four scrapes, so that a range always holds two samples."""
    return max(step_ms + scrape_ms, 4 * scrape_ms)
