"""Coverage: whether an aggregation answers what a query asks, by proof, and why not.

What cannot be done is data: `cover` returns coverage or reasons, never an exception.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from precompute.aggregations import Aggregation, skeleton, why_not_kept
from precompute.evaluate.expr import EQUAL, Aggregate, Expr, Matcher, Number, duration_text, selectors
from precompute.labels import METRIC_NAME
from precompute.matchers import Condition, accepts_everything
from precompute.sketches.registry import STATISTICS, Statistic, best, looseness


@dataclass(frozen=True)
class Requirement:
    """What one aggregation operator of a query needs."""

    node: Aggregate
    skeleton: Expr
    matchers: tuple[Matcher, ...]
    offset_ms: int
    at: int | str | None
    lookback_ms: int


@dataclass(frozen=True)
class Coverage:
    """An aggregation that answers a requirement, and how it is read."""

    requirement: Requirement
    aggregation: Aggregation
    filters: tuple[Matcher, ...]
    """Conditions on the groups' labels, still to be applied."""
    statistic: Statistic
    """How the accumulators answer the operator."""


def requirement_of(node: Aggregate, lookback_ms: int) -> Requirement | str:
    """The requirement of an aggregation operator, or why it has none."""
    if node.op not in STATISTICS:
        return f"no summary answers {node.op}"
    if node.parameter is not None and not isinstance(node.parameter, Number):
        return f"the parameter of {node.op} is no number"
    if why := why_not_kept(node.expr):
        return why
    selector = selectors(node.expr)[0]
    bare, matchers = skeleton(node.expr)
    return Requirement(node, bare, matchers, selector.offset_ms, selector.at, lookback_ms)


def cover(requirement: Requirement, aggregations: Iterable[Aggregation]) -> Coverage | list[str]:
    """Coverage with the best bound by the aggregation that keeps least, or one reason for each that was considered."""
    found, reasons = [], []
    for aggregation in aggregations:
        why, filters = _why_not(requirement, aggregation)
        statistic = best(requirement.node.op, aggregation.accumulators)
        if why or statistic is None:
            reasons.append(f"aggregation {aggregation.id}: {why}")
        else:
            found.append(Coverage(requirement, aggregation, filters, statistic))
    if found:
        return min(found, key=_burden)
    return reasons or ["there are no aggregations"]


def _burden(coverage: Coverage) -> tuple[object, ...]:
    aggregation = coverage.aggregation
    return looseness(coverage.statistic), aggregation.without, len(aggregation.labels), aggregation.width_ms


def _why_not(requirement: Requirement, aggregation: Aggregation) -> tuple[str, tuple[Matcher, ...]]:
    kept, fixed = skeleton(aggregation.expr)
    if kept != requirement.skeleton:
        return f"keeps {aggregation.expr}, not {requirement.skeleton}", ()
    if aggregation.lookback_ms != requirement.lookback_ms:
        return f"keeps a lookback of {duration_text(aggregation.lookback_ms)}", ()
    missing = set(STATISTICS[requirement.node.op].needs) - set(aggregation.accumulators)
    if best(requirement.node.op, aggregation.accumulators) is None:
        return f"does not keep {', '.join(sorted(missing))}", ()
    for matcher in fixed:
        if not _implied(matcher, requirement.matchers):
            return f"holds only {matcher}", ()
    filters = tuple(m for m in requirement.matchers if not (accepts_everything(m) or _implied(m, fixed)))
    lost = [m for m in filters if not aggregation.keeps(m.name)]
    if lost:
        return f"filter on `{lost[0].name}`, which it does not keep", ()
    return _why_not_grouped(requirement.node, aggregation), filters


def _implied(matcher: Matcher, known: Sequence[Matcher]) -> bool:
    """Whether whatever fulfils all of `known` fulfils `matcher`; only what is certain."""
    equal = [m.value for m in known if m.op == EQUAL and m.name == matcher.name]
    return matcher in known or any(Condition(matcher).accepts(value) for value in equal)


def _why_not_grouped(node: Aggregate, aggregation: Aggregation) -> str:
    if node.without:
        if not aggregation.without:
            return f"grouping without ({', '.join(node.labels)}), which no list of labels covers"
        extra = sorted(set(aggregation.labels) - set(node.labels))
        return f"it leaves out `{extra[0]}`, which the grouping keeps" if extra else ""
    if METRIC_NAME in node.labels:
        return "grouping by the metric name"
    lost = [label for label in node.labels if not aggregation.keeps(label)]
    return f"grouping by `{lost[0]}`, which it does not keep" if lost else ""
