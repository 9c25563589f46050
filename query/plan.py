"""The plan of a query: a tree whose nodes may each be served by another tier at each step.

    sum(rate(a[5m])) / on () count(up)          node 0: a binary operator, evaluated here over 1 and 3
      1  sum(rate(a[5m]))                       covered by an aggregation; where its panes are there, 2 is not asked
           2  rate(a[5m])                       a leaf: read as one, from the head or not at all
      3  count(up)                              not covered, for reasons that are kept
           4  up                                a leaf

A node's children are evaluated at the query's own steps. What looks at other steps (a subquery), or at a selector
itself rather than its value (`timestamp`), is a leaf.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, cover, requirement_of
from precompute.evaluate.evaluator import unsupported
from precompute.evaluate.expr import Aggregate, Call, Expr, Range, Selector, Subquery, children, selectors, walk
from precompute.evaluate.functions import FUNCTIONS

_READ_AS_ONE = frozenset(("timestamp", "info"))
"""Functions that look at their argument's selector themselves."""


@dataclass(frozen=True)
class Node:
    """One node; `number` is its place in the plan, outermost first."""

    number: int
    expr: Expr
    selectors: tuple[Selector, ...]
    children: tuple["Node", ...]
    """Those with selectors in them."""
    coverage: Coverage | None
    reasons: tuple[str, ...]
    """Why no aggregation covers it, one for each that was considered."""
    missing: str
    """A feature that is not evaluated here; "" without one."""

    def walk(self) -> Iterator["Node"]:
        """This node and all below it, in order of their numbers."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Plan:
    """A query as a tree of nodes, and all of them in order of their numbers."""

    root: Node
    nodes: tuple[Node, ...]

    @property
    def expr(self) -> Expr:
        return self.root.expr

    @property
    def covered(self) -> tuple[Coverage, ...]:
        """Of the outermost covered nodes."""
        return tuple(_outermost(self.root))

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each part that reaches the answer through no aggregation."""
        return tuple(_reasons(self.root))

    @property
    def from_summaries(self) -> bool:
        """Whether every selector is reached only through summaries; a query without selectors is not."""
        return bool(self.covered) and not self.reasons


def plan(expr: Expr, aggregations: Sequence[Aggregation], lookback_ms: int) -> Plan:
    """Cover what can be covered."""
    root = _node(expr, 0, aggregations, lookback_ms)
    return Plan(root, tuple(root.walk()))


def _node(expr: Expr, number: int, aggregations: Sequence[Aggregation], lookback_ms: int) -> Node:
    found, inside = tuple(selectors(expr)), _inside(expr)
    here = [child for child in children(expr) if child not in inside] if inside else [expr]
    missing = next(filter(None, map(unsupported, here)), None) or ""
    coverage, reasons = _cover(expr, aggregations, lookback_ms) if found else (None, ())
    if found and not inside and coverage is None:
        reasons = reasons or (_why_bare(expr),)
    parts, at = list[Node](), number + 1
    for child in inside:
        parts.append(_node(child, at, aggregations, lookback_ms))
        at += sum(1 for _ in parts[-1].walk())
    return Node(number, expr, found, tuple(parts), coverage, reasons, missing)


def _inside(expr: Expr) -> list[Expr]:
    """What may come from another tier than the node itself; nothing for what is read as one."""
    inside = list(children(expr))
    if any(isinstance(child, (Range, Subquery)) for child in inside) or isinstance(expr, (Range, Subquery)):
        return []
    if isinstance(expr, Call) and (expr.function in _READ_AS_ONE or expr.function not in FUNCTIONS):
        return []
    return [child for child in inside if selectors(child)]


def _cover(
    expr: Expr, aggregations: Sequence[Aggregation], lookback_ms: int
) -> tuple[Coverage | None, tuple[str, ...]]:
    if not isinstance(expr, Aggregate):
        return None, ()
    requirement = requirement_of(expr, lookback_ms)
    found = [requirement] if isinstance(requirement, str) else cover(requirement, aggregations)
    return (found, ()) if isinstance(found, Coverage) else (None, tuple(found))


def _why_bare(expr: Expr) -> str:
    """Why what is read as one is not from summaries."""
    if any(isinstance(node, Subquery) for node in walk(expr)):
        return "summaries are not read at the steps of a subquery"
    if isinstance(expr, Call) and expr.function in _READ_AS_ONE:
        return f"{expr.function} looks at the series themselves"
    return "no aggregation operator around it"


def _outermost(node: Node) -> Iterator[Coverage]:
    if node.coverage is not None:
        yield node.coverage
    else:
        for child in node.children:
            yield from _outermost(child)


def _reasons(node: Node) -> Iterator[str]:
    if node.coverage is not None:
        return
    # over another aggregation operator it is made from that one's groups, if they are kept
    if node.reasons and not any(isinstance(below.expr, Aggregate) for child in node.children for below in child.walk()):
        yield from (f"{node.expr}: {reason}" for reason in node.reasons)
        return
    for child in node.children:
        yield from _reasons(child)
