"""How much of a workload a plan serves from summaries.

*Eligible* is an expression with a selector under an aggregation operator. *Served* is one of which each such selector
reaches the answer only through groups that are kept; selectors under no operator are the head's.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, Requirement, cover
from precompute.errors import QueryError
from precompute.evaluate.expr import Expr, Range, Subquery, rebuilt
from precompute.planner.cardinality import Cardinality
from precompute.planner.demand import Needs, needs
from precompute.planner.plan import Plan, PlannerSettings, plan
from query.promql.parse import parse
from query.workloads.base import Query

COLLECTED_MS = 300_000
"""The range that collections of expressions have where a dashboard had `$__rate_interval`."""


@dataclass(frozen=True)
class Covered:
    """What a plan does for a workload; `reasons` counts the eligible queries that are not served because of each."""

    plan: Plan
    parsed: int
    unparsed: Mapping[str, str]
    """By text: why it is no query."""
    eligible: int
    served: tuple[Query, ...]
    reasons: Counter[str]


@dataclass(frozen=True)
class Language:
    """How queries are read: instant selectors' lookback, the step of subqueries, and the range that stands for 5m."""

    lookback_ms: int
    evaluation_interval_ms: int
    range_ms: int = COLLECTED_MS


def covered(
    queries: Sequence[Query], settings: PlannerSettings, cardinality: Cardinality, language: Language
) -> Covered:
    """Plan for all of the queries, and count."""
    wanted, unparsed = list[tuple[Query, Needs]](), dict[str, str]()
    for query in queries:
        try:
            wanted.append((query, _needs(query, language)))
        except QueryError as error:
            unparsed[query.forms[0][1]] = str(error)
    made = plan([demand for _, one in wanted for demand in one.demands], settings, cardinality)
    why = _Reasons(made)
    found = [(query, set(why.not_served(one))) for query, one in wanted if one.eligible]
    served = tuple(query for query, reasons in found if not reasons)
    return Covered(
        made, len(wanted), unparsed, len(found), served, Counter(reason for _, reasons in found for reason in reasons)
    )


def _needs(query: Query, language: Language) -> Needs:
    forms = [(step_ms, _ranged(parse(text), language.range_ms)) for step_ms, text in query.forms]
    return needs(forms, query.asking, language.lookback_ms, language.evaluation_interval_ms)


def _ranged(expr: Expr, range_ms: int) -> Expr:
    """The expression with other ranges of 5m."""
    made = rebuilt(expr, lambda inner: _ranged(inner, range_ms))
    if isinstance(made, (Range, Subquery)) and made.range_ms == COLLECTED_MS:
        return replace(made, range_ms=range_ms)
    return made


class _Reasons:
    """Why queries are not served by a plan."""

    def __init__(self, made: Plan) -> None:
        self._kept = defaultdict[tuple[str, ...], list[Aggregation]](list)
        for aggregation in made.aggregations:
            self._kept[aggregation.metrics].append(aggregation)
        self._refused = {demand.finest: one.why for one in made.refused for demand in one.demands}

    def not_served(self, wanted: Needs) -> Iterator[str]:
        yield from (part.why for part in wanted.uncovered)
        for demand in wanted.demands:
            yield from filter(None, (self._why_not(member.requirement) for member in demand.members))

    def _why_not(self, requirement: Requirement) -> str:
        found = cover(requirement, self._kept[requirement.metrics])
        if isinstance(found, Coverage):
            return ""
        return self._refused.get(requirement) or found[0].rpartition(": ")[2]
