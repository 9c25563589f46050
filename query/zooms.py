"""Queries whose range follows the zoom, `$__rate_interval` in a dashboard: at each step another range, one query."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from precompute.evaluate.expr import Expr, Range, Subquery, rebuilt, walk
from precompute.planner.demand import Demand, rate_interval_ms


def without_zoom(expr: Expr, step_ms: int, scrape_ms: int) -> str | None:
    """A text that is the same at every zoom; None where the ranges are not those that follow this step."""
    nodes = list(walk(expr))
    ranges = {node.range_ms for node in nodes if isinstance(node, Range)}
    if ranges != {rate_interval_ms(step_ms, scrape_ms)} or any(isinstance(node, Subquery) for node in nodes):
        return None
    return str(_at_no_zoom(expr))


def _at_no_zoom(expr: Expr) -> Expr:
    return replace(expr, range_ms=0) if isinstance(expr, Range) else rebuilt(expr, _at_no_zoom)


def joined(demands: Iterable[tuple[object, Demand]]) -> list[Demand]:
    """One demand of those that have the same key: its members are all of theirs, the finest first."""
    found = defaultdict[object, list[Demand]](list)
    for key, demand in demands:
        found[key].append(demand)
    return [_one(alike) for alike in found.values()]


def _one(alike: list[Demand]) -> Demand:
    members = sorted((member for demand in alike for member in demand.members), key=lambda m: m.step_ms)
    asking = replace(
        alike[0].asking, per_hour=sum(demand.asking.per_hour for demand in alike),
        span_ms=max(demand.asking.span_ms for demand in alike),
    )  # fmt: skip
    return Demand(tuple(members), asking)
