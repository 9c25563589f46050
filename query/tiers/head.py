"""The head tier: exact answers from recent raw samples, at the steps that the head covers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from precompute.clock import Clock
from precompute.evaluate.expr import Call, Expr, Range, Selector, Subquery, children, selectors
from precompute.evaluate.functions.info import info_selector
from precompute.head import Head
from precompute.labels import METRIC_NAME
from precompute.matchers import Condition
from precompute.progress import Progress
from precompute.samples import I64, Bool
from query.tiers.summary import Steps, clock_text

_EVER_MS = -(1 << 62)
"""Before all samples: an install without an upstream begins with the whole truth."""


@dataclass(frozen=True)
class Look:
    """One selector's view: per step the interval `(after, until]` it reads; int64[s] each."""

    selector: Selector
    after: I64
    until: I64


class HeadTier:
    """Tells which expressions the head answers, and at which steps."""

    def __init__(
        self, head: Head, progress: Callable[[], Progress], clock: Clock, retention_ms: int, has_upstream: bool
    ) -> None:
        self._head, self._progress, self._clock = head, progress, clock
        self._retention_ms, self._has_upstream = retention_ms, has_upstream

    def covered(self, expr: Expr, steps: Steps, lookback_ms: int) -> tuple[Bool, str]:
        """At which steps the head has all that was received, bool[s]; and why not at the first where it has not."""
        good, seen = np.ones(len(steps.times), np.bool_), tuple(looks(expr, steps, lookback_ms))
        if seen and self._retention_ms == 0:
            return ~good, "the head tier is off (head.retention is 0)"
        why = ""
        for look in seen:
            fine, reason = self._look(look)
            why = why or reason
            good &= fine
        return good, why

    def cleared(self) -> int:
        """For `still_held`; to be asked before `covered` is."""
        return self._head.cleared

    def still_held(self, expr: Expr, steps: Steps, lookback_ms: int, cleared: int) -> bool:
        """Whether nothing that the expression looks at was let go since it was found to be covered."""
        base_ms, seen = self._base_ms(), looks(expr, steps, lookback_ms)
        return self._head.cleared == cleared and all((look.after >= base_ms).all() for look in seen)

    def unheld(self, expr: Expr) -> str:
        """Why a metric of the expression is not held whole by anybody here; "" if all are."""
        return next(filter(None, map(self._unheld, selectors(expr))), "")

    def touches_hole(self, expr: Expr, steps: Steps, lookback_ms: int) -> bool:
        """Whether samples that the expression looks at are known to be missing."""
        return bool(self.in_hole(expr, steps, lookback_ms).any())

    def in_hole(self, expr: Expr, steps: Steps, lookback_ms: int) -> Bool:
        """At which steps samples that the expression looks at are known to be missing, bool[s]."""
        touched = [self._in_hole(look) for look in looks(expr, steps, lookback_ms)]
        return np.asarray(np.logical_or.reduce([np.zeros(len(steps.times), np.bool_), *touched]))

    def _look(self, look: Look) -> tuple[Bool, str]:
        metric = look.selector.metric()
        nowhere = np.zeros(len(look.after), np.bool_)
        if unheld := self._unheld(look.selector):
            return nowhere, unheld
        oldest_ms = self._oldest_ms()
        if self._has_upstream:
            since_ms = self._progress().received_since.get(metric or "")
            if metric is None or since_ms is None or not len(self._head.table.posting(METRIC_NAME, metric)):
                return nowhere, f"whether {look.selector} is received here is not known"
            oldest_ms = max(oldest_ms, since_ms - 1)
        good = look.after >= oldest_ms
        why = "" if good.all() else f"samples at or before {clock_text(oldest_ms)} are not held"
        if self._has_upstream:
            whole = ~self._in_hole(look)
            why = why or ("" if whole.all() else "samples are known to be missing")
            good &= whole
        return good, why

    def _unheld(self, selector: Selector) -> str:
        """Why a metric that the selector may select is not held whole; empty if all are."""
        conditions = [Condition(m) for m in selector.matchers if m.name == METRIC_NAME]
        progress = self._progress()
        for metrics, why in (
            (progress.histogram_metrics, "has native histogram samples, which are not held"),
            (progress.partial_metrics if self._has_upstream else frozenset(), "has series that were refused"),
        ):
            for metric in sorted(metrics):
                if all(c.accepts(metric) for c in conditions):
                    return f"{metric} {why}"
        return ""

    def _oldest_ms(self) -> int:
        """Whatever was received after this time is held, and within the head tier's retention."""
        base_ms = self._base_ms()
        return base_ms if base_ms == _EVER_MS else max(base_ms, self._clock.now_ms() - self._retention_ms)

    def _base_ms(self) -> int:
        """The log has whatever was received after this time; nothing was ever let go of where it has all."""
        base_ms = self._progress().base_ms
        return base_ms if base_ms or self._has_upstream else _EVER_MS

    def _in_hole(self, look: Look) -> Bool:
        touched = np.zeros(len(look.after), np.bool_)
        metric = look.selector.metric() or ""
        for hole in self._progress().holes:
            if not metric or hole.metric in ("", metric):
                touched |= (look.until > hole.after_ms) & (look.after < hole.until_ms)
        return touched


def looks(expr: Expr, steps: Steps, lookback_ms: int) -> Iterator[Look]:
    """What each selector of an expression reads, that of info metrics included."""
    yield from _looks(expr, steps, steps.times, steps.times, lookback_ms)


def _looks(expr: Expr, steps: Steps, first: I64, last: I64, lookback_ms: int) -> Iterator[Look]:
    """The same where, for each step, the expression is evaluated at times in `[first, last]`; int64[s] each."""
    if isinstance(expr, Range):
        yield Look(expr.selector, *_window(expr.selector, steps, first, last, expr.range_ms))
    elif isinstance(expr, Selector):
        yield Look(expr, *_window(expr, steps, first, last, lookback_ms))
    elif isinstance(expr, Subquery):
        yield from _looks(expr.expr, steps, *_window(expr, steps, first, last, expr.range_ms), lookback_ms)
    else:
        if isinstance(expr, Call) and expr.function == "info":
            selector = info_selector(expr)
            yield Look(selector, *_window(selector, steps, first, last, lookback_ms))
        for child in children(expr):
            yield from _looks(child, steps, first, last, lookback_ms)


def _window(node: Selector | Subquery, steps: Steps, first: I64, last: I64, back_ms: int) -> tuple[I64, I64]:
    """`(after, until]` of a selector or subquery that looks back by `back_ms`."""
    if node.at is not None:
        at_ms = {"start": steps.start_ms, "end": steps.end_ms}[node.at] if isinstance(node.at, str) else node.at
        first = last = np.full(len(first), at_ms, np.int64)
    return first - node.offset_ms - back_ms, last - node.offset_ms
