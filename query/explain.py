"""Why an answer is what it is: the plan as a tree, with who served each node and why not a better tier.

`described` gives it as JSON has it, `lines` as a person reads it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from query.answers import Answer, Forwarded, Told
from query.plan import Node


def described(made: Answer | Forwarded) -> dict[str, Any]:
    """The whole explanation. Times are seconds."""
    told = made.told
    assert told is not None, "the engine tells of every answer"
    steps, account = told.steps, told.account
    whole = {"whole_query_upstream": told.why or "it cannot be answered here"} if isinstance(made, Forwarded) else {}
    return {
        "query": told.text,
        "steps": len(steps.times), "start": steps.start_ms / 1000, "end": steps.end_ms / 1000,
        "step": steps.step_ms / 1000,
        "tiers": list(made.tiers) if isinstance(made, Answer) else ["upstream"],
        "bound": made.bound if isinstance(made, Answer) else "exact",
        "seconds": account.seconds, "samples": account.samples, "panes": account.panes, "groups": account.groups,
        "steps_from_cache": account.cached,
        **whole,
        "plan": _node(told.plan.root, told) if told.plan is not None else None,
    }  # fmt: skip


def _node(node: Node, told: Told) -> dict[str, Any]:
    spent = told.trace.of(node.expr) if told.trace is not None else None
    out: dict[str, Any] = {"expr": str(node.expr), "served": [*_served(node, told)]}
    if spent is not None:
        out["evaluated"] = {"seconds": spent.seconds, "samples": spent.samples}
    reasons = _reasons(node, told)
    if reasons:
        out["not_from_summary"] = reasons
    if node.missing:
        out["missing"] = node.missing
    elif not node.children and (why := told.account.why.get(node.number)) and node.coverage is None:
        out["not_from_head"] = why
    out["parts"] = [_node(child, told) for child in node.children]
    return out


def _served(node: Node, told: Told) -> Iterator[dict[str, Any]]:
    for (number, tier), served in told.account.served.items():
        if number != node.number or not served.steps:
            continue
        entry: dict[str, Any] = {"tier": tier, "steps": served.steps}
        if tier == "summary" and node.coverage is not None:
            aggregation, statistic = node.coverage.aggregation, node.coverage.statistic
            entry |= {
                "aggregation": aggregation.id, "keeps": f"{aggregation.expr} {aggregation.grouping_text()}",
                "panes": served.panes, "groups": served.groups, "accumulators": list(statistic.needs),
                "bound": str(statistic.bound),
                "seconds": served.seconds,
            }  # fmt: skip
        elif tier == "upstream":
            entry["seconds"] = served.seconds
        yield entry


def _reasons(node: Node, told: Told) -> list[str]:
    """Why no summary served it, or, of a covered node, some steps of it."""
    if node.coverage is not None:
        why = told.account.why.get(node.number, "")
        return [f"aggregation {node.coverage.aggregation.id}: {why}"] if why else []
    return list(node.reasons)


def lines(explained: Mapping[str, Any]) -> Iterator[str]:
    """The explanation as text, line by line."""
    yield explained["query"]
    cached = f", {explained['steps_from_cache']:,} of them from the cache" if explained["steps_from_cache"] else ""
    yield (
        f"{_count(explained['steps'], 'step')}{cached}; from {', '.join(explained['tiers'])}; {explained['bound']}; "
        f"{_count(explained['samples'], 'sample')}, {_count(explained['panes'], 'pane')}, "
        f"{_count(explained['groups'], 'group')} in {_time(explained['seconds'])}"
    )
    if why := explained.get("whole_query_upstream"):
        yield f"the upstream answered the whole query: {why}"
    if explained["plan"] is not None:
        yield from _tree(explained["plan"], "", "")


def _tree(node: Mapping[str, Any], first: str, rest: str) -> Iterator[str]:
    spent = node.get("evaluated")
    cost = f"  {_time(spent['seconds'])}, {_count(spent['samples'], 'sample')}" if spent else ""
    yield f"{first}{node['expr']}{cost}"
    inner = rest + ("│  " if node["parts"] else "   ")
    yield from (f"{inner}{line}" for line in _remarks(node))
    for place, part in enumerate(node["parts"]):
        last = place == len(node["parts"]) - 1
        yield from _tree(part, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _remarks(node: Mapping[str, Any]) -> Iterator[str]:
    for served in node["served"]:
        yield _served_line(served)
    yield from (f"not from a summary: {reason}" for reason in node.get("not_from_summary", ()))
    if why := node.get("not_from_head"):
        yield f"not from the head: {why}"
    if feature := node.get("missing"):
        yield f"not evaluated here: {feature}"


def _served_line(served: Mapping[str, Any]) -> str:
    parts = [f"{served['tier']}: {_count(served['steps'], 'step')}"]
    if "aggregation" in served:
        parts += [
            f"aggregation {served['aggregation']} ({served['keeps']})", _count(served["panes"], "pane"),
            _count(served["groups"], "group"), served["bound"],
        ]  # fmt: skip
    if "seconds" in served:
        parts.append(_time(served["seconds"]))
    return ", ".join(parts)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def stats(made: Answer, queue_s: float, planned: bool) -> dict[str, Any]:
    """`stats` of the query API, as Prometheus has it (util/stats), and the plan where it is asked for.

    What is not measured apart is 0; peakSamples is the count of all samples read, which no moment exceeds.
    """
    assert made.told is not None, "the engine tells of every answer"
    account = made.told.account
    timings = {
        "evalTotalTime": account.seconds, "resultSortTime": 0, "queryPreparationTime": 0,
        "innerEvalTime": account.seconds, "execQueueTime": queue_s, "execTotalTime": queue_s + account.seconds,
    }  # fmt: skip
    samples = {"totalQueryableSamples": account.samples, "peakSamples": account.samples}
    return {"timings": timings, "samples": samples} | ({"asap": described(made)} if planned else {})
