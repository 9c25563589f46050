"""The plan of a query: which parts a summary may answer, and for the rest, why none does."""

from collections.abc import Sequence
from dataclasses import dataclass

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, cover, requirement_of
from precompute.evaluate.expr import Aggregate, Expr, Range, Selector, Subquery, children, selectors, walk


@dataclass(frozen=True)
class Plan:
    """A query and its maximal covered sub-expressions."""

    expr: Expr
    covered: tuple[Coverage, ...]
    reasons: tuple[str, ...]
    """One line for each part that no aggregation covers."""

    @property
    def from_summaries(self) -> bool:
        """Whether every selector is reached only through summaries; a query without selectors is not."""
        return bool(self.covered) and not self.reasons


def plan(expr: Expr, aggregations: Sequence[Aggregation], lookback_ms: int) -> Plan:
    """Cover what can be covered, outermost first."""
    covered: list[Coverage] = []
    reasons: list[str] = []
    _walk(expr, aggregations, lookback_ms, covered, reasons)
    return Plan(expr, tuple(covered), tuple(reasons))


def _walk(
    expr: Expr, aggregations: Sequence[Aggregation], lookback_ms: int, covered: list[Coverage], reasons: list[str]
) -> None:
    if isinstance(expr, Aggregate) and selectors(expr.expr):
        found = _cover(expr, aggregations, lookback_ms)
        if isinstance(found, Coverage):
            covered.append(found)
            return
        # over another aggregation it is made from that one's groups, if they are kept
        if not any(isinstance(node, Aggregate) for node in walk(expr.expr)):
            reasons.extend(f"{expr}: {reason}" for reason in found)
            if len(selectors(expr.expr)) == 1:
                return
    if isinstance(expr, Subquery) and selectors(expr):
        reasons.append(f"{expr}: summaries are not read at the steps of a subquery")
        return
    if isinstance(expr, (Selector, Range)):
        reasons.append(f"{expr}: no aggregation operator around it")
    for child in () if isinstance(expr, Range) else children(expr):
        _walk(child, aggregations, lookback_ms, covered, reasons)


def _cover(node: Aggregate, aggregations: Sequence[Aggregation], lookback_ms: int) -> Coverage | Sequence[str]:
    requirement = requirement_of(node, lookback_ms)
    return (requirement,) if isinstance(requirement, str) else cover(requirement, aggregations)
