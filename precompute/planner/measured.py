"""Cardinalities that are measured once and remembered as numbers, until they are to be measured again."""

from collections.abc import Callable
from dataclasses import dataclass, field

from precompute.evaluate.expr import Expr
from precompute.planner.cardinality import Cardinality, Shape

Grouping = tuple[tuple[str, ...], bool]


@dataclass
class _Remembered:
    """What was asked of one expression: a Shape that holds no rows."""

    series: int
    again: Callable[[], Shape | None]
    """The shape with its rows; None where it can be had no longer."""
    known: dict[Grouping, int] = field(default_factory=dict)

    def groups(self, labels: tuple[str, ...], without: bool) -> int:
        if (labels, without) not in self.known:
            shape = self.again()
            self.known[labels, without] = self.series if shape is None else shape.groups(labels, without)
        return self.known[labels, without]


class Stopped(Exception):
    """Nothing is measured any more; what was being planned is not to be put in force."""


class Measured:
    """Asks another cardinality, of which it holds the rows of one expression at a time. Raises Stopped after `stop`."""

    def __init__(self, anew: Callable[[], Cardinality]) -> None:
        """anew: something to measure with, as of now."""
        self._anew, self._stopped = anew, False
        self._known: dict[tuple[Expr, int], _Remembered | str | None] = {}
        self._series: dict[Expr, int | None] = {}
        self._last: tuple[tuple[Expr, int], Shape | str | None] | None = None

    def stop(self) -> None:
        """Measure nothing more; any thread may call it."""
        self._stopped = True

    def forget(self) -> None:
        """Measure again what is asked from now on."""
        self._known.clear()
        self._series.clear()
        self._last = None

    def only(self, wanted: int) -> None:
        """Forget all where more than so many are remembered."""
        if max(len(self._known), len(self._series)) > wanted:
            self.forget()

    def series(self, expr: Expr) -> int | None:
        if expr not in self._series:
            self._series[expr] = self._source().series(expr)
        return self._series[expr]

    def shape(self, expr: Expr, lookback_ms: int) -> Shape | str | None:
        key = (expr, lookback_ms)
        if key not in self._known:
            shape = self._measured(key)
            usable = shape is not None and not isinstance(shape, str)
            self._known[key] = _Remembered(shape.series, lambda: self._again(key)) if usable else shape  # type: ignore[union-attr, assignment]
        return self._known[key]

    def _again(self, key: tuple[Expr, int]) -> Shape | None:
        shape = self._measured(key)
        return None if isinstance(shape, str) else shape

    def _measured(self, key: tuple[Expr, int]) -> Shape | str | None:
        if self._last is None or self._last[0] != key:
            self._last = key, self._source().shape(*key)
        return self._last[1]

    def _source(self) -> Cardinality:
        if self._stopped:
            raise Stopped
        return self._anew()
