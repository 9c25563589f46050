"""The plan of a query: a tree whose nodes may each be served by another tier at each step.

    sum(rate(a[5m])) / on () count(up)          node 0: a binary operator, evaluated here over 1 and 3
      1  sum(rate(a[5m]))                       covered by an aggregation; where its panes are there, 2 is not asked
           2  rate(a[5m])                       a leaf: read as one, from the head or not at all
      3  count(up)                              not covered, for reasons that are kept
           4  up                                a leaf

A node's children are evaluated at the query's own steps. What looks at other steps (a subquery), or at a selector
itself rather than its value (`timestamp`), is a leaf.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, Requirement, cover, parts, requirement_of, requirements, why_bare
from precompute.evaluate.evaluator import unsupported
from precompute.evaluate.expr import Aggregate, Expr, Selector, children, selectors


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
    needs: tuple[Requirement, ...]
    """Of the largest parts that aggregations could answer, whether they do or not."""

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


def plan(expr: Expr, aggregations: Sequence[Aggregation], lookback_ms: int, evaluation_interval_ms: int) -> Plan:
    """Cover what can be covered."""

    def covered(node: Aggregate) -> Coverage | list[str]:
        requirement = requirement_of(node, lookback_ms, evaluation_interval_ms)
        return [requirement] if isinstance(requirement, str) else cover(requirement, aggregations)

    root = _node(expr, 0, covered)
    needs = requirements(expr, lookback_ms, evaluation_interval_ms)
    return Plan(root, tuple(root.walk()), tuple(need for need in needs if isinstance(need, Requirement)))


def _node(expr: Expr, number: int, covered: Callable[[Aggregate], Coverage | list[str]]) -> Node:
    found, inside = tuple(selectors(expr)), parts(expr)
    here = [child for child in children(expr) if child not in inside] if inside else [expr]
    missing = next(filter(None, map(unsupported, here)), None) or ""
    tried = covered(expr) if found and isinstance(expr, Aggregate) else []
    coverage, reasons = (tried, ()) if isinstance(tried, Coverage) else (None, tuple(tried))
    if found and not inside and coverage is None:
        reasons = reasons or (why_bare(expr),)
    below, at = list[Node](), number + 1
    for child in inside:
        below.append(_node(child, at, covered))
        at += sum(1 for _ in below[-1].walk())
    return Node(number, expr, found, tuple(below), coverage, reasons, missing)


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
