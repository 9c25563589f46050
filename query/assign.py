"""Which tier serves which node of a plan at which step.

At each step the plan is walked from its root. A node is taken from its aggregation, if the pane is there; else it is
evaluated here, if all that it looks at is here; else it goes upstream, whole if nothing of it is here, in parts if
some is. So each part comes from the best tier that covers it, and the least is asked of the upstream.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from precompute.samples import Bool
from query.plan import Node, Plan

Codes = npt.NDArray[np.int8]
"""int8[nodes, steps] of the five below."""

UNASKED, SUMMARY, HERE, UPSTREAM, NOBODY = 0, 1, 2, 3, 4
"""Not looked at, since a node above it is served; from its aggregation; evaluated here over its children, or, for a
leaf, over the head; from the upstream; not to be had."""


class Available(Protocol):
    """At which steps a tier has a node, bool[s]; as far as can be told before reading."""

    def summary(self, node: Node) -> Bool:
        """Of a covered node: its pane is there and right."""

    def head(self, node: Node) -> Bool:
        """Of a leaf: the head has all that it looks at."""


def assign(plan: Plan, available: Available, steps: int, upstream: bool, parts: bool) -> Codes:
    """The code of every node at every step.

    upstream: there is one. parts: it may be asked for parts of a query.
    """
    return _Assigning(available, steps, upstream, parts).of(plan)


def signatures(codes: Codes) -> Iterator[tuple[Codes, Bool]]:
    """Each distinct column of codes, int8[nodes], and the steps that have it, bool[s]."""
    if (codes == codes[:, :1]).all():
        yield codes[:, 0], np.ones(codes.shape[1], np.bool_)
        return
    columns, which = np.unique(codes, axis=1, return_inverse=True)
    for place in range(columns.shape[1]):
        yield columns[:, place], np.asarray(which.ravel() == place)


class _Assigning:
    def __init__(self, available: Available, steps: int, upstream: bool, parts: bool) -> None:
        self._available, self._upstream, self._parts = available, upstream, parts
        self._all, self._none = np.ones(steps, np.bool_), np.zeros(steps, np.bool_)
        self._known: dict[int, tuple[Bool, Bool]] = {}

    def of(self, plan: Plan) -> Codes:
        codes = np.zeros((len(plan.nodes), len(self._all)), np.int8)
        self._ask(plan.root, self._all, codes)
        return codes

    def _ask(self, node: Node, asked: Bool, codes: Codes) -> None:
        """Decide for a node at the steps `asked`, bool[s]."""
        if not asked.any():
            return
        mine = codes[node.number]
        if node.coverage is not None:
            mine[asked & self._available.summary(node)] = SUMMARY
            asked = asked & (mine != SUMMARY)
        local, some = self._here(node)
        inside = asked & (local | (some & self._parts & bool(node.children) & (not node.missing)))
        mine[inside] = HERE
        mine[asked & ~inside] = UPSTREAM if self._upstream else NOBODY
        for child in node.children:
            self._ask(child, inside, codes)

    def _here(self, node: Node) -> tuple[Bool, Bool]:
        """At which steps all of a node, and at which something of it, can be had without an upstream; bool[s] each."""
        if node.number not in self._known:
            self._known[node.number] = self._look(node)
        return self._known[node.number]

    def _look(self, node: Node) -> tuple[Bool, Bool]:
        kept = self._none if node.coverage is None else self._available.summary(node)
        if kept.all():
            return kept, kept
        if not node.children:
            held = self._none if node.missing else self._available.head(node) if node.selectors else self._all
            return kept | held, kept | (held & bool(node.selectors))
        inside = [self._here(child) for child in node.children]
        local = self._none if node.missing else np.logical_and.reduce([local for local, _ in inside])
        return kept | local, kept | np.logical_or.reduce([some for _, some in inside])
