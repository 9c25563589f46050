"""Requirements of queries, and coverage: whether an aggregation answers one, by proof, and why not.

What cannot be done is data: `requirements` and `cover` return reasons, never an exception.

An aggregation keeps A, grouped; a requirement is an operator over E. Where both have one normal form, each is the rows
of it that fulfil its own matchers (lifting.py). So the groups of A that fulfil the matchers of E hold the rows of E, if

- each matcher of A is implied by those of E. With several selectors they must be the very same, at the same places:
  of the others, A may be no error where E is one;
- each matcher of E that A does not imply is on a label that A's groups tell apart;
- the operator's grouping joins groups of A, and never splits one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from precompute.aggregations import Aggregation
from precompute.evaluate.expr import (
    EQUAL,
    Aggregate,
    Call,
    Expr,
    Matcher,
    Number,
    Range,
    Selector,
    Subquery,
    children,
    duration_text,
    rebuilt,
    selectors,
    walk,
)
from precompute.evaluate.functions import FUNCTIONS
from precompute.evaluate.values import OF_THE_METRIC
from precompute.matchers import Condition, accepts_everything
from precompute.normal import Normal, metrics, normal, reach_ms, why_not_kept, with_steps
from precompute.sketches.registry import STATISTICS, Statistic, best, looseness

_READ_AS_ONE = frozenset(("timestamp", "info"))
"""Functions that look at their argument's selector themselves."""


@dataclass(frozen=True)
class Requirement:
    """What one aggregation operator of a query needs."""

    node: Aggregate
    """The operator, its parameter and its grouping."""
    normal: Normal
    """Of what it aggregates: its fixed part, the matchers that groups can answer, and the time that is read."""
    lookback_ms: int

    @property
    def metrics(self) -> tuple[str, ...]:
        return metrics(self.normal.expr)

    @property
    def reach_ms(self) -> int:
        """How far before a pane's end its summary must look."""
        return reach_ms(self.normal.expr, self.lookback_ms)


@dataclass(frozen=True)
class Uncovered:
    """A sub-expression that no aggregation can answer, and why."""

    node: Expr
    why: str
    aggregated: bool
    """Whether an aggregation operator stands over a selector of it."""


@dataclass(frozen=True)
class Coverage:
    """An aggregation that answers a requirement, and how it is read."""

    requirement: Requirement
    aggregation: Aggregation
    filters: tuple[Matcher, ...]
    """Conditions on the groups' labels, still to be applied."""
    statistic: Statistic
    """How the accumulators answer the operator."""


def requirements(expr: Expr, lookback_ms: int, evaluation_interval_ms: int) -> list[Requirement | Uncovered]:
    """What a query's parts need, from left to right: those that an aggregation can answer whole, as large as may be,
    and the parts with selectors that are left. A query without selectors needs nothing.

    evaluation_interval_ms: the step of subqueries that name none.
    """
    return list(_needs(expr, lookback_ms, evaluation_interval_ms, ""))


def _needs(expr: Expr, lookback_ms: int, evaluation_interval_ms: int, above: str) -> Iterator[Requirement | Uncovered]:
    """above: why the aggregation operator around is answered by no aggregation; empty if there is none."""
    own = requirement_of(expr, lookback_ms, evaluation_interval_ms) if isinstance(expr, Aggregate) else above
    if isinstance(own, Requirement):
        yield own
        return
    inside = parts(expr)
    if not inside or (isinstance(expr, Aggregate) and not any(map(_aggregates, inside))):
        if selectors(expr):
            yield Uncovered(expr, own or why_bare(expr), bool(above) or _aggregates(expr))
        return
    for part in inside:
        yield from _needs(part, lookback_ms, evaluation_interval_ms, own)


def _aggregates(expr: Expr) -> bool:
    return any(isinstance(node, Aggregate) for node in walk(expr))


def requirement_of(node: Aggregate, lookback_ms: int, evaluation_interval_ms: int) -> Requirement | str:
    """The requirement of an aggregation operator, or why it has none."""
    if node.op not in STATISTICS:
        return f"no summary answers {node.op}"
    if node.parameter is not None and not isinstance(node.parameter, Number):
        return f"the parameter of {node.op} is no number"
    if why := why_not_kept(node.expr):
        return why
    return Requirement(node, normal(with_steps(node.expr, evaluation_interval_ms)), lookback_ms)


def parts(expr: Expr) -> list[Expr]:
    """What of an expression may come from another tier than the rest: the sub-expressions with selectors that it has
    the values of at its own steps. Nothing for what is read as one: what looks at other steps (a subquery), or at a
    selector itself rather than its value."""
    inside = list(children(expr))
    if any(isinstance(child, (Range, Subquery)) for child in inside) or isinstance(expr, (Range, Subquery)):
        return []
    if isinstance(expr, Call) and (expr.function in _READ_AS_ONE or expr.function not in FUNCTIONS):
        return []
    return [child for child in inside if any(isinstance(node, Selector) for node in walk(child))]


def why_bare(expr: Expr) -> str:
    """Why what is read as one is not from summaries."""
    if any(isinstance(node, Subquery) for node in walk(expr)):
        return "summaries are not read at the steps of a subquery"
    if isinstance(expr, Call) and expr.function in _READ_AS_ONE:
        return f"{expr.function} looks at the series themselves"
    return "no aggregation operator around it"


def cover(requirement: Requirement, aggregations: Sequence[Aggregation]) -> Coverage | list[str]:
    """The first coverage, or why there is none."""
    found = coverages(requirement, aggregations)
    return found[0] if found else why_uncovered(requirement, aggregations)


def coverages(requirement: Requirement, aggregations: Iterable[Aggregation]) -> tuple[Coverage, ...]:
    """All that answer it: those with the best bound first, of them that by the aggregation that keeps least."""
    found, wanted = [], requirement.normal.text
    for aggregation in aggregations:
        if aggregation.normal.text != wanted:  # most end here, at no cost
            continue
        why, filters = _why_not(requirement, aggregation)
        statistic = best(requirement.node.op, aggregation.accumulators)
        if not why and statistic is not None:
            found.append(Coverage(requirement, aggregation, filters, statistic))
    return tuple(sorted(found, key=_burden))


def why_uncovered(requirement: Requirement, aggregations: Iterable[Aggregation]) -> list[str]:
    """Of what has no coverage, one reason for each aggregation of the same metrics."""
    wanted = requirement.metrics
    alike = [aggregation for aggregation in aggregations if aggregation.metrics == wanted]
    reasons = [f"aggregation {aggregation.id}: {_why_not(requirement, aggregation)[0]}" for aggregation in alike]
    return reasons or [f"no aggregation is of {' and '.join(wanted)}"]


def _burden(coverage: Coverage) -> tuple[object, ...]:
    aggregation = coverage.aggregation
    return looseness(coverage.statistic), aggregation.without, len(aggregation.labels), aggregation.width_ms


def _why_not(requirement: Requirement, aggregation: Aggregation) -> tuple[str, tuple[Matcher, ...]]:
    wanted, kept = requirement.normal, aggregation.normal
    if kept.text != wanted.text:
        return _why_another(wanted.expr, kept.expr, aggregation), ()
    if aggregation.lookback_ms != requirement.lookback_ms:
        return f"keeps a lookback of {duration_text(aggregation.lookback_ms)}", ()
    missing = set(STATISTICS[requirement.node.op].needs) - set(aggregation.accumulators)
    if best(requirement.node.op, aggregation.accumulators) is None:
        return f"does not keep {', '.join(sorted(missing))}", ()
    if why := _why_held(wanted, aggregation):
        return why, ()
    filters = tuple(m for m in wanted.matchers if not (accepts_everything(m) or _implied(m, kept.matchers)))
    lost = [m for m in filters if not aggregation.keeps(m.name)]
    if lost:
        return f"filter on `{lost[0].name}`, which it does not keep", ()
    return _why_not_grouped(requirement.node, aggregation), filters


def _why_held(wanted: Normal, aggregation: Aggregation) -> str:
    """Why what the aggregation leaves out is needed; empty if it is not."""
    fixed = aggregation.normal.matchers
    for matcher in fixed:
        if not _implied(matcher, wanted.matchers):
            return f"holds only {matcher}"
    if fixed and len(selectors(wanted.expr)) > 1 and str(wanted.but(fixed)) != str(aggregation.expr):
        return f"holds only {', '.join(map(str, fixed))}, and not where the query asks for it"
    return ""


def _why_another(wanted: Expr, kept: Expr, aggregation: Aggregation) -> str:
    """How the expression that is kept differs from the one that is wanted; both without filters."""
    if _without_ranges(wanted) == _without_ranges(kept):
        return f"range {_ranges(wanted)}, it keeps {_ranges(kept)}"
    return f"keeps {aggregation.expr}, not {wanted}"


def _ranges(expr: Expr) -> str:
    return ", ".join(duration_text(node.range_ms) for node in walk(expr) if isinstance(node, (Range, Subquery)))


def _without_ranges(expr: Expr) -> Expr:
    made = rebuilt(expr, _without_ranges)
    return replace(made, range_ms=0) if isinstance(made, (Range, Subquery)) else made


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
    if any(label in OF_THE_METRIC for label in node.labels):
        return "grouping by the metric name"
    lost = [label for label in node.labels if not aggregation.keeps(label)]
    return f"grouping by `{lost[0]}`, which it does not keep" if lost else ""
