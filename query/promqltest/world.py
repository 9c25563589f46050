"""What a script has loaded, in a real head, and queries of it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from precompute.clock import SystemClock
from precompute.errors import Unsupported
from precompute.evaluate.context import Evaluation, Features, Notes
from precompute.evaluate.evaluator import result, unsupported
from precompute.evaluate.expr import Expr, selectors
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.order import label_order
from precompute.evaluate.values import Value, Vector
from precompute.head import Head
from precompute.labels import METRIC_NAME, Labels, SeriesTable
from precompute.matchers import Condition
from precompute.samples import Block
from precompute.selection import Index
from query.promqltest.expected import Grid
from query.promqltest.features import NATIVE_HISTOGRAMS, START_TIMESTAMPS
from query.promqltest.script import Load

_HEAD_BYTES = 1 << 26
_TIMEOUT_MS = 100_000
LOOKBACK_MS = 300_000
FEATURES = Features(delayed_name_removal=True, experimental_functions=True)


@dataclass(frozen=True)
class Answered:
    """A query's value, the times of its steps, and its notes."""

    value: Value
    times: list[int]
    notes: Notes


class World:
    """Loads add up until the world is thrown away."""

    def __init__(self) -> None:
        self._head = Head(SeriesTable(), _HEAD_BYTES)
        self._source = HeadSource(self._head, Index())
        self._missing: dict[Labels, str] = {}
        """Series that are not held as they should be, and the feature that is missing."""

    def load(self, load: Load) -> None:
        """Add the samples of a load; those of native histograms are only noted."""
        for one in load.series:
            self._append(one.labels, one.values, load.step_ms)
        self._missing |= {one.labels: START_TIMESTAMPS for one in load.started}
        self._missing |= {one.labels: NATIVE_HISTOGRAMS for one in load.series if one.histograms}
        if load.with_histograms:
            self._missing |= {native: NATIVE_HISTOGRAMS for one in load.series if (native := _native(one.labels))}

    def ask(self, expr: Expr, grid: Grid) -> Answered:
        """The query at the times of `grid`. Raises QueryError's kinds, Unsupported where features are missing."""
        if why := unsupported(expr) or self._touches(expr):
            raise Unsupported(why)
        times = np.arange(grid.start_ms, grid.end_ms + 1, grid.step_ms or 1, dtype=np.int64)
        budget = Budget(Limits(), SystemClock(), _TIMEOUT_MS)
        at = Evaluation(
            self._source, times, LOOKBACK_MS, budget, grid.start_ms, grid.end_ms, features=FEATURES,
            step_ms=grid.step_ms,
        )  # fmt: skip
        value = result(expr, at)
        if grid.step_ms and isinstance(value, Vector):
            value = value.take(label_order(value.frame))
        return Answered(value, times.tolist(), at.notes)

    def _append(self, labels: Labels, values: Iterable[float | None], step_ms: int) -> None:
        held = [(k * step_ms, value) for k, value in enumerate(values) if value is not None]
        sid = np.full(len(held), self._head.table.intern(labels), np.int32)
        t_ms = np.array([t for t, _ in held], np.int64)
        self._head.append(Block(sid, t_ms, np.array([v for _, v in held], np.float64)))

    def _touches(self, expr: Expr) -> str:
        """The missing feature of a series that the expression selects; empty if there is none."""
        for selector in selectors(expr):
            conditions = [Condition(m) for m in selector.matchers]
            for labels, feature in self._missing.items():
                named = dict(labels)
                if all(c.accepts(named.get(c.matcher.name, "")) for c in conditions):
                    return feature
        return ""


def _native(labels: Labels) -> Labels:
    """The native histogram that a series of a classic one belongs to; empty if it is none's."""
    named = dict(labels)
    metric = named.get(METRIC_NAME, "")
    base = metric.removesuffix("_bucket") if metric.endswith("_bucket") and "le" in named else ""
    named.pop("le", None)
    return tuple(sorted({**named, METRIC_NAME: base}.items())) if base else ()
