"""The head tier: exact answers from recent raw samples, at the steps that the head covers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from precompute.clock import Clock
from precompute.evaluate.context import Evaluation, Source
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.expr import Expr, Range, Selector, selectors, walk
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Value
from precompute.head import Head
from precompute.labels import METRIC_NAME
from precompute.progress import Progress
from precompute.samples import I64, Bool
from query.tiers.summary import Steps, clock_text


@dataclass(frozen=True)
class Look:
    """One selector's view: per step the interval `(after, until]` it reads; int64[s] each."""

    selector: Selector
    after: I64
    until: I64


class HeadTier:
    """Evaluates whole expressions over the head."""

    def __init__(
        self, source: Source, head: Head, progress: Callable[[], Progress], clock: Clock, retention_ms: int,
        has_upstream: bool,
    ) -> None:  # fmt: skip
        self._source, self._head, self._progress, self._clock = source, head, progress, clock
        self._retention_ms, self._has_upstream = retention_ms, has_upstream

    def covered(self, expr: Expr, steps: Steps, lookback_ms: int) -> tuple[Bool, str]:
        """At which steps the head has all that was received, bool[s]; and why not at the first where it has not."""
        good = np.ones(len(steps.times), np.bool_)
        if self._retention_ms == 0:
            return ~good, "the head tier is off (head.retention is 0)"
        why = ""
        for look in looks(expr, steps, lookback_ms):
            fine, reason = self._look(look)
            why = why or reason
            good &= fine
        return good, why

    def evaluate(self, expr: Expr, steps: Steps, lookback_ms: int, budget: Budget) -> Value:
        """The exact value over the samples held."""
        at = Evaluation(self._source, steps.times, lookback_ms, budget, steps.start_ms, steps.end_ms)
        return evaluate(expr, at)

    def still_held(self, expr: Expr, steps: Steps, lookback_ms: int) -> bool:
        """Whether nothing that the expression looks at was let go since it was found to be covered."""
        base_ms = self._progress().base_ms
        return all((look.after >= base_ms).all() for look in looks(expr, steps, lookback_ms))

    def holds_histograms(self, expr: Expr) -> bool:
        """Whether a metric of the expression also has native histogram samples, which nobody here holds."""
        return any(s.metric() in self._progress().histogram_metrics for s in selectors(expr))

    def touches_hole(self, expr: Expr, steps: Steps, lookback_ms: int) -> bool:
        """Whether samples that the expression looks at are known to be missing."""
        return any(self._in_hole(look).any() for look in looks(expr, steps, lookback_ms))

    def _look(self, look: Look) -> tuple[Bool, str]:
        metric = look.selector.metric()
        nowhere = np.zeros(len(look.after), np.bool_)
        if metric in self._progress().histogram_metrics:
            return nowhere, f"{metric} has native histogram samples, which are not held"
        if self._has_upstream and (metric is None or not len(self._head.table.posting(METRIC_NAME, metric))):
            return nowhere, f"whether {look.selector} is received here is not known"
        good = look.after >= self._oldest_ms()
        why = "" if good.all() else f"samples at or before {clock_text(self._oldest_ms())} are not held"
        if self._has_upstream:
            whole = ~self._in_hole(look)
            why = why or ("" if whole.all() else "samples are known to be missing")
            good &= whole
        return good, why

    def _oldest_ms(self) -> int:
        """Whatever was received after this time is held, and within the head tier's retention."""
        base_ms = self._progress().base_ms
        return max(base_ms, self._clock.now_ms() - self._retention_ms) if base_ms or self._has_upstream else base_ms

    def _in_hole(self, look: Look) -> Bool:
        touched = np.zeros(len(look.after), np.bool_)
        metric = look.selector.metric() or ""
        for hole in self._progress().holes:
            if not metric or hole.metric in ("", metric):
                touched |= (look.until > hole.after_ms) & (look.after < hole.until_ms)
        return touched


def looks(expr: Expr, steps: Steps, lookback_ms: int) -> Iterator[Look]:
    """What each selector of an expression reads."""
    ranged = {id(node.selector): node.range_ms for node in walk(expr) if isinstance(node, Range)}
    for node in walk(expr):
        if isinstance(node, Selector):
            at = {"start": steps.start_ms, "end": steps.end_ms}.get(node.at) if isinstance(node.at, str) else node.at
            times = steps.times if at is None else np.full(len(steps.times), at, np.int64)
            until = times - node.offset_ms
            yield Look(node, until - ranged.get(id(node), lookback_ms), until)
