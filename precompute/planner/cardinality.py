"""How many series an expression reads, and into how many groups its rows fall: measured on a head, or unknown."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from precompute.clock import Clock
from precompute.errors import QueryError, TimedOut
from precompute.evaluate.context import Evaluation, Source
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.expr import Expr, selectors
from precompute.evaluate.grouping import grouping
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Frame, Vector

_TIMEOUT_MS = 10_000


class Shape(Protocol):
    """What one expression was found to be."""

    @property
    def series(self) -> int:
        """Series that its selectors find, all together."""

    def groups(self, labels: tuple[str, ...], without: bool) -> int:
        """Groups that its rows fall into."""


class Cardinality(Protocol):
    """Measures expressions. May take as long as evaluating one does; called from one thread at a time."""

    def series(self, expr: Expr) -> int | None:
        """How many series the expression's selectors find, all together; None: not known."""

    def shape(self, expr: Expr, lookback_ms: int) -> Shape | str | None:
        """What an expression is; a text: why it cannot be evaluated; None: not known."""


class Unknown:
    """Nothing is known of any expression."""

    def series(self, expr: Expr) -> None:
        return None

    def shape(self, expr: Expr, lookback_ms: int) -> None:
        return None


@dataclass(frozen=True)
class HeadShape:
    """Counted on the rows of one evaluation."""

    series: int
    rows: Frame

    def groups(self, labels: tuple[str, ...], without: bool) -> int:
        return len(grouping(self.rows, labels, without).groups()[0])


class OnHead:
    """Counts on what a source holds at one time, by evaluating there."""

    def __init__(self, source: Source, at_ms: int, clock: Clock, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._source, self._at_ms, self._clock, self._timeout_ms = source, at_ms, clock, timeout_ms

    def series(self, expr: Expr) -> int | None:
        try:
            return self._series(expr, self._budget())
        except TimedOut:
            return None

    def shape(self, expr: Expr, lookback_ms: int) -> HeadShape | str:
        budget, times = self._budget(), np.array([self._at_ms], np.int64)
        try:
            series = self._series(expr, budget)
            value = evaluate(expr, Evaluation(self._source, times, lookback_ms, budget, self._at_ms, self._at_ms))
        except QueryError as error:
            return str(error)
        assert isinstance(value, Vector), "requirements are over instant vectors"
        return HeadShape(series, value.frame)

    def _series(self, expr: Expr, budget: Budget) -> int:
        return sum(self._source.series(selector, budget) for selector in selectors(expr))

    def _budget(self) -> Budget:
        return Budget(Limits(), self._clock, self._timeout_ms)
