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
from dataclasses import dataclass, field, replace
from functools import partial

from precompute.aggregations import Aggregation
from precompute.catalog import (
    Coverage,
    Requirement,
    coverages,
    parts,
    requirement_of,
    requirements,
    why_bare,
    why_uncovered,
)
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
    coverages: tuple[Coverage, ...]
    """By all aggregations that answer it; it is read from the first."""
    missing: str
    """A feature that is not evaluated here; "" without one."""
    why: Callable[[], Sequence[str]] = field(compare=False, repr=False)
    """Why no aggregation covers it, one reason for each that was considered; made for those who ask."""

    @property
    def coverage(self) -> Coverage | None:
        return self.coverages[0] if self.coverages else None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why no aggregation covers it."""
        return () if self.coverages else tuple(self.why())

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

    def read_from(self, best: Callable[[Sequence[Coverage]], Coverage]) -> "Plan":
        """The same plan, in which of several aggregations that answer a node the best is read."""
        if all(len(node.coverages) < 2 for node in self.nodes):
            return self
        root = _read_from(self.root, best)
        return replace(self, root=root, nodes=tuple(root.walk()))


Tried = tuple[tuple[Coverage, ...], Callable[[], Sequence[str]]]
"""A node's coverages, and what says why there are none."""


def plan(expr: Expr, aggregations: Sequence[Aggregation], lookback_ms: int, evaluation_interval_ms: int) -> Plan:
    """Cover what can be covered."""

    def tried(node: Aggregate) -> Tried:
        requirement = requirement_of(node, lookback_ms, evaluation_interval_ms)
        if isinstance(requirement, str):
            return (), lambda: (requirement,)
        return coverages(requirement, aggregations), partial(why_uncovered, requirement, aggregations)

    root = _node(expr, 0, tried)
    needs = requirements(expr, lookback_ms, evaluation_interval_ms)
    return Plan(root, tuple(root.walk()), tuple(need for need in needs if isinstance(need, Requirement)))


def _node(expr: Expr, number: int, tried: Callable[[Aggregate], Tried]) -> Node:
    found, inside = tuple(selectors(expr)), parts(expr)
    here = [child for child in children(expr) if child not in inside] if inside else [expr]
    missing = next(filter(None, map(unsupported, here)), None) or ""
    covered, why = tried(expr) if found and isinstance(expr, Aggregate) else _bare(expr, bool(found and not inside))
    below, at = list[Node](), number + 1
    for child in inside:
        below.append(_node(child, at, tried))
        at += sum(1 for _ in below[-1].walk())
    return Node(number, expr, found, tuple(below), covered, missing, why)


def _bare(expr: Expr, is_leaf: bool) -> Tried:
    return (), lambda: (why_bare(expr),) if is_leaf else ()


def _read_from(node: Node, best: Callable[[Sequence[Coverage]], Coverage]) -> Node:
    covered = node.coverages
    if len(covered) > 1:
        first = best(covered)
        covered = (first, *(other for other in covered if other is not first))
    return replace(node, coverages=covered, children=tuple(_read_from(child, best) for child in node.children))


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
    inner = any(isinstance(below.expr, Aggregate) for child in node.children for below in child.walk())
    if not inner and (reasons := node.reasons):
        yield from (f"{node.expr}: {reason}" for reason in reasons)
        return
    for child in node.children:
        yield from _reasons(child)
