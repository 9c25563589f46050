"""A plan in words and as data: what is kept, for which queries, at what cost; what is not, and why."""

from collections.abc import Iterator, Sequence
from typing import Any

from precompute.aggregations import Aggregation
from precompute.evaluate.expr import duration_text
from precompute.planner.demand import Demand
from precompute.planner.merge import Refused
from precompute.planner.plan import Kept, Plan

_SHOWN = 200


def as_data(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """`plan`: a mapping for each decision to keep; `refused`: one for each not to."""
    kept_ids = {aggregation.id for aggregation in plan.aggregations}
    return {
        "plan": [_kept(one, kept_ids) for one in plan.kept],
        "refused": [
            {"why": one.why, "detail": one.detail, **_asked_for(one.demands), "expr": _expr(one)}
            for one in plan.refused
        ],
    }  # fmt: skip


def _kept(one: Kept, kept_ids: set[str]) -> dict[str, Any]:
    return {
        "aggregations": [_aggregation(a) for a in one.aggregations if a.id in kept_ids],
        **_asked_for(one.demands),
        "bound": one.bound,
        **({"why_shorter": one.why_shorter} if one.why_shorter else {}),
        **_weight(one),
    }


def _aggregation(kept: Aggregation) -> dict[str, Any]:
    return {
        "id": kept.id, "expr": str(kept.expr), "grouping": kept.grouping_text(),
        "accumulators": list(kept.accumulators), "width": duration_text(kept.width_ms),
        "retention": duration_text(kept.retention_ms), "reach": duration_text(kept.reach_ms),
    }  # fmt: skip


def _asked_for(demands: Sequence[Demand]) -> dict[str, Any]:
    """How many requirements, how often they are asked in an hour, one of them, where it stands, and the steps of those
    whose range follows the zoom."""
    steps = sorted({member.step_ms for demand in demands if len(demand.members) > 1 for member in demand.members})
    return {
        "requirements": len(demands), "per_hour": round(sum(d.asking.per_hour for d in demands), 3),
        "example": str(demands[0].finest.node), "origin": demands[0].asking.origin,
        "zoom_steps": [duration_text(step_ms) for step_ms in steps],
    }  # fmt: skip


def _weight(one: Kept) -> dict[str, Any]:
    if one.weight is None:
        return {}
    weight = one.weight
    return {
        "series": weight.series, "groups": weight.groups, "bytes": round(weight.cost.bytes),
        "cpu_share": float(f"{weight.cost.cpu_share:.3g}"), "saved_share": float(f"{weight.saved_share:.3g}"),
    }  # fmt: skip


def _expr(refused: Refused) -> str:
    return str(refused.demands[0].finest.normal.expr)


def lines(plan: Plan) -> Iterator[str]:
    """The same for people."""
    data = as_data(plan)
    for one in data["plan"]:
        yield from _kept_lines(one)
    for one in data["refused"]:
        detail = f" ({one['detail']})" if one["detail"] else ""
        yield f"not kept  {_short(one['expr'])}: {one['why']}{detail}"
        yield f"          for {_purpose(one)}"


def _kept_lines(one: dict[str, Any]) -> Iterator[str]:
    for kept in one["aggregations"]:
        yield f"keep      {_short(kept['expr'])} {kept['grouping']}: {', '.join(kept['accumulators'])}"
        yield f"          id {kept['id']}, panes of {kept['width']} for {kept['retention']}, reach {kept['reach']}"
    if one["aggregations"]:
        yield f"          for {_purpose(one)}; bound: {one['bound']}"
        yield f"          {_figures(one)}"
        if "why_shorter" in one:
            yield f"          not for as long as queries look back: {one['why_shorter']}"


def _purpose(one: dict[str, Any]) -> str:
    zooms = f", one range for each of the steps {', '.join(one['zoom_steps'])}" if one["zoom_steps"] else ""
    return f"{one['requirements']} asked {one['per_hour']:g} times an hour{zooms}, such as {_short(one['example'])}"


def _figures(one: dict[str, Any]) -> str:
    if "groups" not in one:
        return "cost and saving: not measured"
    return (
        f"{one['groups']} groups of {one['series']} series; costs {one['bytes']} bytes and {one['cpu_share']:.3g} of a "
        f"core, saves {one['saved_share']:.3g} of a core"
    )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
