"""What a plan does for a workload, as data and in words."""

from collections.abc import Iterator
from typing import Any

from precompute.evaluate.expr import duration_text
from precompute.planner import report
from query.workloads.coverage import Covered

_UNPARSED_SHOWN = 20


def as_data(found: Covered, max_reach_ms: int) -> dict[str, Any]:
    """Counts (`parsed`, `eligible`, `served`, `aggregations`, `reasons`), and each decision.

    max_reach_ms: the longest reach that the config keeps.
    """
    reaches = [aggregation.reach_ms for aggregation in found.plan.aggregations]
    return {
        "parsed": found.parsed, "eligible": found.eligible, "served": len(found.served), "aggregations": len(reaches),
        "reasons": dict(found.reasons.most_common()),
        "unparsed": [{"query": text, "error": error} for text, error in found.unparsed.items()],
        "reach": {"longest": duration_text(max(reaches, default=0)), "max_reach": duration_text(max_reach_ms),
                  "beyond": sum(reach > max_reach_ms for reach in reaches)},
        **report.as_data(found.plan),
    }  # fmt: skip


def lines(found: Covered, max_reach_ms: int) -> Iterator[str]:
    """The same for people: decisions first, counts last."""
    yield from report.lines(found.plan)
    data = as_data(found, max_reach_ms)
    for one in data["unparsed"][:_UNPARSED_SHOWN]:
        yield f"no query  {one['query'][:200]}: {one['error']}"
    yield f"{found.parsed} queries parsed, {len(found.unparsed)} not"
    yield f"{found.eligible} have a selector under an aggregation operator, {data['served']} of them come from groups"
    yield f"{data['aggregations']} aggregations"
    for reason, count in found.reasons.most_common():
        yield f"{count:6} not served: {reason}"
    reach = data["reach"]
    if reach["beyond"]:
        yield (
            f"{reach['beyond']} aggregations look back further than engine.minibatch.max_reach, {reach['max_reach']}; "
            f"the longest {reach['longest']}"
        )
