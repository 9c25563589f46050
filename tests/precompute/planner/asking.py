"""Demands of PromQL texts, and a plan for them."""

from collections.abc import Sequence, Set
from dataclasses import replace

from precompute.catalog import Coverage, cover
from precompute.planner.cardinality import Cardinality, Unknown
from precompute.planner.demand import Asking, Demand, needs
from precompute.planner.plan import Plan, PlannerSettings, plan
from query.promql.parse import parse
from tests.precompute.made_node import HOUR_MS, LOOKBACK_MS, WIDTH_MS

SETTINGS = PlannerSettings(WIDTH_MS, 15_000, 24 * HOUR_MS)


def demands(*texts: str, step_ms: int = WIDTH_MS, **asking: float) -> list[Demand]:
    """What these queries need; each is eligible and has parts that can be kept."""
    found = [needs([(step_ms, parse(text))], Asking(**asking), LOOKBACK_MS, 60_000) for text in texts]  # type: ignore[arg-type]
    assert all(one.eligible and one.demands for one in found)
    return [demand for one in found for demand in one.demands]


def zoomed(*forms: tuple[int, str], **asking: float) -> list[Demand]:
    """What a query needs that has a form for each step."""
    found = needs([(step_ms, parse(text)) for step_ms, text in forms], Asking(**asking), LOOKBACK_MS, 60_000)  # type: ignore[arg-type]
    return list(found.demands)


def planned(
    wanted: Sequence[Demand], cardinality: Cardinality | None = None, in_force: Set[str] = frozenset(),
    **settings: object,
) -> Plan:  # fmt: skip
    return plan(wanted, replace(SETTINGS, **settings), cardinality or Unknown(), in_force)  # type: ignore[arg-type]


def is_covered(demand: Demand, made: Plan) -> bool:
    """Whether what is kept answers all forms of a demand."""
    return all(isinstance(cover(m.requirement, made.aggregations), Coverage) for m in demand.members)


def kept(made: Plan) -> list[str]:
    """What is kept, in words."""
    return sorted(f"{a.expr} {a.grouping_text()} {' '.join(a.accumulators)}" for a in made.aggregations)


def whys(made: Plan) -> list[str]:
    return [one.why for one in made.refused]
