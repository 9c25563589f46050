"""What evaluating each sub-expression took, for those who ask why."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from precompute.clock import Clock
from precompute.evaluate.expr import Expr
from precompute.evaluate.limits import Budget

T = TypeVar("T")


@dataclass
class Spent:
    """All evaluations of one expression together, its arguments' included."""

    seconds: float = 0.0
    samples: int = 0


class Trace:
    """Adds up time and samples by expression; equal ones count together."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: dict[Expr, Spent] = {}

    def measured(self, expr: Expr, budget: Budget, work: Callable[[], T]) -> T:
        """What `work` returns; its cost is the expression's."""
        began_s, samples = self._clock.monotonic_s(), budget.samples_read
        try:
            return work()
        finally:
            spent = self._spent.setdefault(expr, Spent())
            spent.seconds += self._clock.monotonic_s() - began_s
            spent.samples += budget.samples_read - samples

    def of(self, expr: Expr) -> Spent | None:
        """What the expression took; None if it was never evaluated."""
        return self._spent.get(expr)
