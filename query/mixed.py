"""Mixed tiers: one query whose parts, and whose steps, are served by different tiers.

Steps that are served alike are evaluated together. What a tier turns out not to have when it is read (a pane replaced
or trimmed meanwhile, samples let go) is taken from its availability, and those steps are assigned again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from precompute.clock import Clock
from precompute.evaluate.evaluator import result
from precompute.evaluate.expr import Expr
from precompute.evaluate.limits import Budget
from precompute.evaluate.tiles import at_some_steps
from precompute.evaluate.values import Scalar, Value, Vector
from precompute.samples import I64, Bool
from query.asking import Asking
from query.assign import HERE, NOBODY, SUMMARY, UPSTREAM, Codes, assign, signatures
from query.errors import NotJoinable
from query.join import join_steps
from query.plan import Node, Plan
from query.recall import Memory, Recall
from query.tiers.head import HeadTier
from query.tiers.summary import Steps, SummaryTier
from query.tiers.upstream_parts import Part


class Parts(Protocol):
    """An upstream that evaluates parts of queries."""

    def takes_parts(self, headers: Mapping[str, str], budget: Budget) -> bool:
        """Whether its semantics are ours."""

    def read(self, expr: Expr, steps: Steps, lookback_ms: int, budget: Budget, headers: Mapping[str, str]) -> Part:
        """The expression's values at these steps. Raises QueryError's kinds."""


@dataclass(frozen=True)
class Mixed:
    """A value at all steps but those that nobody has, bool[s], and why those are not to be had."""

    value: Value | None
    left: Bool
    codes: Codes
    why: str


class MixedTiers:
    """Evaluates plans over summaries, head and upstream."""

    def __init__(
        self, summary: SummaryTier, head: HeadTier, parts: Parts | None, has_upstream: bool, memory: Memory | None,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._summary, self._head, self._parts = summary, head, parts
        self._has_upstream, self._memory, self._clock = has_upstream, memory, clock

    def fitted(self, plan: Plan, steps: Steps) -> Plan:
        """The plan, in which each node is read from the aggregation that has it at most of the steps.

        What was kept for longer, for one, until what is to take its place has all of its panes.
        """
        return plan.read_from(lambda some: max(some, key=lambda one: int(self._summary.servable(one, steps)[0].sum())))

    def evaluate(self, asking: Asking) -> Mixed | str:
        """The value at each step, or why an upstream must answer the whole query. Raises QueryError's kinds."""
        available = Available(self._summary, self._head, asking)
        count = len(asking.steps.times)
        left, final = np.ones(count, np.bool_), np.zeros((len(asking.plan.nodes), count), np.int8)
        values: list[tuple[Bool, Value]] = []
        recall = self._memory.recall(asking) if self._memory is not None and asking.cached else None
        while left.any():
            codes = self._assigned(asking, available, count)
            if (codes[0] == UPSTREAM).all():
                return available.why(asking.plan)
            final[:, left] = codes[:, left]
            if recall is not None:
                self._remember(asking, recall, codes, left, values)
            try:
                if not self._answer(asking, available, codes, left, values, recall):
                    break
            except NotJoinable as reason:
                return str(reason)
        if recall is not None:
            recall.keep()
        value = join_steps(values, count) if values else None
        return Mixed(value, left, final, available.why(asking.plan) if left.any() else "")

    def _assigned(self, asking: Asking, available: "Available", count: int) -> Codes:
        codes = assign(asking.plan, available, count, self._has_upstream, parts=self._parts is not None)
        whole = codes[0] == UPSTREAM
        if (codes == UPSTREAM).any() and not whole.all() and not self._takes_parts(asking):
            codes[0] = UPSTREAM
        return codes

    def _takes_parts(self, asking: Asking) -> bool:
        # a part's names have gone when it comes, and with that feature what stands around it would still see them
        if self._parts is None or asking.at.features.delayed_name_removal:
            return False
        return self._parts.takes_parts(asking.headers, asking.at.budget)

    def _remember(
        self, asking: Asking, recall: Recall, codes: Codes, left: Bool, values: list[tuple[Bool, Value]]
    ) -> None:
        """Answer the steps that the cache has."""
        hit, value = recall.find(codes, left)
        if value is None:
            return
        values.append((hit, value))
        left &= ~hit
        asking.account.cached += int(hit.sum())
        _count(asking, codes, hit)

    def _answer(
        self, asking: Asking, available: "Available", codes: Codes, left: Bool, values: list[tuple[Bool, Value]],
        recall: Recall | None,
    ) -> bool:  # fmt: skip
        """Evaluate the steps that are left; whether any that are still left can be tried again."""
        again = False
        for code, alike in signatures(codes):
            where = left & alike
            if not where.any() or code[0] == NOBODY:
                continue
            value, right = self._evaluated(asking, available, code, where)
            again |= not right.all()
            where[where] = right
            if value is not None:
                values.append((where, value))
                left &= ~where
                _count(asking, codes, where)
                if recall is not None:
                    recall.note(where, value)
        return again

    def _evaluated(self, asking: Asking, available: "Available", code: Codes, where: Bool) -> tuple[Value | None, Bool]:
        """The value at the steps bool[s] that are served as `code` says, and at which of those it is right."""
        plan, steps = asking.plan, asking.steps.at(asking.steps.times[where])
        known, right = self._from_summaries(asking, available, code, where)
        if not right.any():
            return None, right
        if not right.all():
            known, steps = at_some_steps(known, right), steps.at(steps.times[right])
        for node in plan.nodes:
            if code[node.number] == UPSTREAM:
                known[node.expr] = self._from_upstream(asking, node, steps)
        value = result(plan.expr, replace(asking.at, times=steps.times, known=known))
        for leaf in (node for node in plan.nodes if _reads_head(node, code)):
            if not self._head.still_held(leaf.expr, steps, asking.at.lookback_ms, available.cleared):
                available.look_again()
                return None, np.zeros(len(right), np.bool_)
        return value, right

    def _from_summaries(
        self, asking: Asking, available: "Available", code: Codes, where: Bool
    ) -> tuple[dict[Expr, Vector | Scalar], Bool]:
        steps, known = asking.steps.at(asking.steps.times[where]), dict[Expr, Vector | Scalar]()
        right, budget = np.ones(len(steps.times), np.bool_), asking.at.budget
        for node in asking.plan.nodes:
            if code[node.number] != SUMMARY or node.coverage is None:
                continue
            began_s, panes, groups = self._clock.monotonic_s(), budget.panes_read, budget.groups_merged
            known[node.expr], fine = self._summary.read(node.coverage, steps, budget)
            served = asking.account.of(node.number, "summary")
            served.seconds += self._clock.monotonic_s() - began_s
            served.panes += budget.panes_read - panes
            served.groups += budget.groups_merged - groups
            if not fine.all():
                available.lost(node, np.flatnonzero(where)[~fine])
            right &= fine
        return known, right

    def _from_upstream(self, asking: Asking, node: Node, steps: Steps) -> Vector | Scalar:
        assert self._parts is not None, "only what may be asked for parts is assigned any"
        began_s = self._clock.monotonic_s()
        part = self._parts.read(node.expr, steps, asking.at.lookback_ms, asking.at.budget, asking.headers)
        served = asking.account.of(node.number, "upstream")
        served.seconds += self._clock.monotonic_s() - began_s
        asking.at.notes.pass_on(part.warnings, part.infos)
        return part.value


class Available:
    """At which steps which tier has which node; narrowed where reading showed less."""

    def __init__(self, summary: SummaryTier, head: HeadTier, asking: Asking) -> None:
        self._summary, self._head, self._asking = summary, head, asking
        self._panes: dict[int, Bool] = {}
        self._held: dict[int, Bool] = {}
        self.cleared = head.cleared()
        """As it was before the head was asked what it has."""

    def summary(self, node: Node) -> Bool:
        """Of a covered node, bool[s]."""
        if node.number not in self._panes:
            assert node.coverage is not None
            good, why = self._summary.servable(node.coverage, self._asking.steps)
            if unheld := self._head.unheld(node.expr):
                good, why = np.zeros_like(good), unheld
            self._panes[node.number] = good
            self._note(node, why)
        return self._panes[node.number]

    def head(self, node: Node) -> Bool:
        """Of a leaf, bool[s]."""
        if node.number not in self._held:
            asking = self._asking
            self._held[node.number], why = self._head.covered(node.expr, asking.steps, asking.at.lookback_ms)
            self._note(node, why)
        return self._held[node.number]

    def lost(self, node: Node, steps: I64) -> None:
        """The panes of these steps (int64[k]) were not to be had after all."""
        self._panes[node.number][steps] = False
        self._note(node, "a pane was replaced, let go or failed, or an estimate in it passed its bound")

    def look_again(self) -> None:
        """The head has let go of samples."""
        self.cleared = self._head.cleared()
        self._held.clear()

    def why(self, plan: Plan) -> str:
        """Why not all can be answered here: the first leaf's reason."""
        reasons = [self._asking.account.why.get(n.number, "") or n.missing for n in plan.nodes if not n.children]
        return next(filter(None, reasons), "") or next((n.missing for n in plan.nodes if n.missing), "")

    def _note(self, node: Node, why: str) -> None:
        if why:
            self._asking.account.why.setdefault(node.number, why)


def _reads_head(node: Node, codes: Codes) -> Bool:
    """Where it is a leaf that is evaluated here."""
    return np.asarray((codes[node.number] == HERE) & (bool(node.selectors) and not node.children))


def _count(asking: Asking, codes: Codes, where: Bool) -> None:
    """Account for the steps bool[s], which were served as assigned."""
    for node in asking.plan.nodes:
        mine = codes[node.number]
        tiers = ("summary", mine == SUMMARY), ("head", _reads_head(node, codes)), ("upstream", mine == UPSTREAM)
        for tier, its in tiers:
            if steps := int((where & its).sum()):
                asking.account.of(node.number, tier).steps += steps
