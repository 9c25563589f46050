"""The result cache as one range query uses it: which of its steps may be kept, and under which stamps."""

import numpy as np

from precompute.engines.base import Panes
from precompute.evaluate.tiles import at_some_steps
from precompute.evaluate.values import Scalar, Value, Vector
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.samples import I64, Bool
from query.asking import Asking
from query.assign import NOBODY, UPSTREAM, Codes
from query.cache import ResultCache
from query.questions import question, why_not
from query.stamps import Stamps
from query.tiers.head import looks

_OF_THE_METRIC = ("__type__", "__unit__")


class Memory:
    """The cache, and what stamps are made of."""

    def __init__(self, cache: ResultCache, panes: Panes, head: Head) -> None:
        self.cache, self.panes, self._head = cache, panes, head
        self.stamps = Stamps(panes.touched, panes.seen, lambda: panes.disowned)

    def recall(self, asking: Asking) -> "Recall | None":
        """For a query whose steps can be answered apart; None for any other."""
        if asking.at.step_ms == 0 or why_not(
            asking.plan.expr, asking.at.features.delayed_name_removal, _is_typed(self._head.table)
        ):
            return None
        return Recall(self, asking)


class Recall:
    """One query's steps, as far as they are in the cache or shall be."""

    def __init__(self, memory: Memory, asking: Asking) -> None:
        self._memory, self._asking = memory, asking
        self._question = question(asking.plan.expr, asking.steps, asking.at.lookback_ms)
        self._settled = _settled(asking, memory.panes.sealed_ms())
        self._made: list[tuple[Bool, I64, Vector | Scalar]] = []
        self._stamp, self._fit = np.zeros((0, 0), np.int64), np.zeros(0, np.bool_)

    def find(self, codes: Codes, left: Bool) -> tuple[Bool, Value | None]:
        """Of the steps that are left, bool[s], which are in the cache as assigned; and the values at those.

        Called before anything is evaluated, since it takes the stamps of what will be.
        """
        asking, elsewhere = self._asking, (codes == UPSTREAM) | (codes == NOBODY)
        self._stamp = self._memory.stamps.of(asking.plan, codes, asking.steps, asking.at.lookback_ms)
        self._fit = self._settled & ~elsewhere.any(axis=0)
        where = left & self._fit
        if not where.any():
            return where, None
        hit, value = self._memory.cache.find(self._question, asking.at.times[where], self._stamp[:, where])
        where[where] = hit
        return where, value

    def note(self, where: Bool, value: Value) -> None:
        """The value at the steps bool[s], evaluated as they were assigned when `find` was last called."""
        picked = where & self._fit
        if isinstance(value, (Vector, Scalar)) and picked.any():
            expr = self._asking.plan.expr
            self._made.append((picked, self._stamp[:, picked], at_some_steps({expr: value}, self._fit[where])[expr]))

    def keep(self) -> None:
        """Put what was noted into the cache, unless something was remarked on: on which steps is not known."""
        if self._asking.at.notes.warnings or self._asking.at.notes.infos:
            return
        for where, stamp, value in self._made:
            self._memory.cache.keep(self._question, self._asking.at.times[where], stamp, value)


def _settled(asking: Asking, sealed_ms: int) -> Bool:
    """Steps that look at nothing younger than what is sealed, bool[s]."""
    settled = np.asarray(asking.at.times <= sealed_ms)
    for look in looks(asking.plan.expr, asking.steps, asking.at.lookback_ms):
        settled &= look.until <= sealed_ms
    return settled


def _is_typed(table: SeriesTable) -> bool:
    """Whether series may say their metric's type or unit."""
    return any(table.value_ids(name) for name in _OF_THE_METRIC)
