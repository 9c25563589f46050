"""The accuracy watch: a share of what summaries answer is evaluated exactly too, in the background, and compared.

Compared is each part that an aggregation answered, at some of its steps, since bounds are those of the parts. While
samples come in, the two are of the same samples only if the pane was clean before and after and is the same one, and if
the head has lost none since, as it does where a record of the log is damaged; other steps are left out. What seems
outside its bound is looked at once more before it counts. Of bounds that hold with some probability, one group of one
pane is judged, and only more outside than chance explains count (margin.py).
"""

import logging
import math
import threading
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from precompute.catalog import Coverage
from precompute.clock import Clock
from precompute.engines.base import Panes
from precompute.errors import QueryError
from precompute.evaluate.context import Evaluation, Features, Source
from precompute.evaluate.evaluator import result
from precompute.evaluate.expr import Expr
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.in_force import PlanInForce
from precompute.samples import I64, Bool
from precompute.stores.base import StoreError
from query.answers import Told
from query.deviation import Compared, Deviation, deviations
from query.margin import Margin
from query.metrics import WatchMetrics
from query.tiers.head import HeadTier
from query.tiers.summary import Steps, SummaryTier, pane_times

logger = logging.getLogger(__name__)

_WAITING = 32
"""So many answers wait at most; others are let go, and counted."""
_STEPS = 4
"""Steps of an answer that are compared."""
_TIMEOUT_MS = 5000
_SHOWN = 500


@dataclass(frozen=True)
class WatchOptions:
    """share: of the queries that summaries answered. features and limits: those of the queries."""

    share: float
    limits: Limits
    features: Features
    evaluation_interval_ms: int
    """The step of subqueries that name none."""


@dataclass(frozen=True)
class _Answered:
    """A part that an aggregation answered, of a query."""

    text: str
    expr: Expr
    coverage: Coverage
    steps: Steps


class AccuracyWatch:
    """`note` is called by any thread and returns at once; `run` is one thread of its own."""

    def __init__(
        self, panes: Panes, source: Source, summary: SummaryTier, head: HeadTier, in_force: PlanInForce,
        options: WatchOptions, metrics: WatchMetrics, clock: Clock, seed: int = 0,
    ) -> None:  # fmt: skip
        self._panes, self._source, self._summary, self._head = panes, source, summary, head
        self._in_force, self._options, self._metrics, self._clock = in_force, options, metrics, clock
        self._chance, self._drawn = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        self._lock, self._some, self._stopped = threading.Lock(), threading.Semaphore(0), threading.Event()
        self._waiting: deque[_Answered] = deque()
        self._margin = Margin()

    def note(self, told: Told) -> None:
        """A query was answered; perhaps it is looked at."""
        if told.plan is None or told.why or "summary" not in told.account.tiers():
            return
        with self._lock:
            if self._drawn.random() >= self._options.share:
                return
            for node in told.plan.nodes:
                served = told.account.served.get((node.number, "summary"))
                if node.coverage is not None and served is not None and served.steps:
                    self._put(_Answered(told.text, node.expr, node.coverage, told.steps))

    def _put(self, answered: _Answered) -> None:
        if len(self._waiting) >= _WAITING:
            self._metrics.lost.inc()
            return
        self._waiting.append(answered)
        self._some.release()

    def run(self) -> None:
        """Look at what was answered, until stopped."""
        while True:
            self._some.acquire()
            if self._stopped.is_set():
                return
            answered = self._waiting.popleft()
            try:
                self.look(answered)
            except Exception:  # whatever it is, other answers are looked at
                logger.exception("the accuracy watch failed at this, and goes on: %s", answered.text[:_SHOWN])

    def look_at_all(self) -> None:
        """Look at all that waits."""
        while self._some.acquire(blocking=False):
            self.look(self._waiting.popleft())

    def stop(self) -> None:
        """Make `run` return after what it looks at."""
        self._stopped.set()
        self._some.release()

    def look(self, answered: _Answered) -> None:
        """Compare; what is outside its bound twice is taken out of service."""
        found = self._compared(answered)
        if found is not None and found.outside:
            found = self._compared(answered)
        if found is None:
            return
        if math.isfinite(found.error):  # the metric's sum would never be finite again
            self._metrics.error.observe(found.error)
        name = answered.coverage.aggregation.id
        if found.outside if found.confidence == 1 else self._margin.too_many(name, found):
            self._metrics.outside.inc()
            self._suspend(answered, found)

    def _compared(self, answered: _Answered) -> Deviation | None:
        """The worst deviation; None where no step can be compared."""
        coverage, lookback_ms = answered.coverage, answered.coverage.requirement.lookback_ms
        times = self._chance.permutation(answered.steps.times)[:_STEPS]
        steps, ends = answered.steps.at(np.sort(times)), pane_times(coverage, answered.steps.at(np.sort(times)))
        budget = Budget(self._options.limits, self._clock, _TIMEOUT_MS)
        try:
            cleared = self._head.cleared()
            seen, good = self._panes.seen(coverage.aggregation, ends), self._servable(coverage, steps)
            held, _ = self._head.covered(answered.expr, steps, lookback_ms)
            got, right = self._summary.read(coverage, steps, budget)
            good &= held & right
            if not good.any():
                return None
            exact, rows = (self._exact(expr, steps, lookback_ms, budget) for expr in _parts(coverage))
        except QueryError as error:
            logger.debug("not compared: %s: %s", answered.text[:_SHOWN], error)
            return None
        if not self._head.still_held(answered.expr, steps, lookback_ms, cleared):
            return None
        good &= ~self._head.in_hole(answered.expr, steps, lookback_ms)
        good &= self._servable(coverage, steps) & (self._panes.seen(coverage.aggregation, ends) == seen)
        return self._chosen(Compared(coverage, got, exact, rows), good, ends)

    def _servable(self, coverage: Coverage, steps: Steps) -> Bool:
        return self._summary.servable(coverage, steps)[0].copy()

    def _exact(self, expr: Expr, steps: Steps, lookback_ms: int, budget: Budget) -> Vector:
        at = Evaluation(
            self._source, steps.times, lookback_ms, budget, steps.start_ms, steps.end_ms,
            features=self._options.features, step_ms=steps.step_ms,
            evaluation_interval_ms=self._options.evaluation_interval_ms,
        )  # fmt: skip
        value = result(expr, at)
        assert isinstance(value, Vector), "operators are over instant vectors"
        return value

    def _chosen(self, compared: Compared, good: Bool, ends: I64) -> Deviation | None:
        """The worst of those that are wrong or right for sure; if there are none, one of the newest pane's."""
        chosen: I64 = np.flatnonzero(good)
        found = [one for step in chosen.tolist() for one in deviations(compared, step, self._chance)]
        sure = [one for one in found if one.confidence == 1]
        if sure or not found:
            return max(sure, key=lambda one: (one.outside, one.error), default=None)
        newest_ms, again = int(ends[chosen[-1]]), np.random.default_rng(int(ends[chosen[-1]]))
        last = list(deviations(compared, int(chosen[-1]), again))
        return replace(last[again.integers(len(last))], end_ms=newest_ms) if last else None

    def _suspend(self, answered: _Answered, found: Deviation) -> None:
        name = answered.coverage.aggregation.id
        logger.error(
            "aggregation %s answered outside its bound and is taken out of service: %s of %s; error %.3g, bound %s",
            name, found.detail, answered.text[:_SHOWN], found.error, answered.coverage.statistic.bound,
        )  # fmt: skip
        try:
            self._in_force.suspend(name)
        except StoreError as error:
            logger.error("this is not written down, and forgotten when ASAP starts again: %s", error)


def _parts(coverage: Coverage) -> tuple[Expr, Expr]:
    """The operator, and what it aggregates."""
    node = coverage.requirement.node
    return node, node.expr
