"""The query engine: parse, plan, and answer each step from the first tier that provably can.

summary    where every selector is reached through summaries whose panes are there and right
head       where all that was received is still held
upstream   the whole query, if a step is left; without one: left out with a warning, or a clear error
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import Clock
from precompute.errors import BadExpression, ExecutionError, Unsupported
from precompute.evaluate.context import Evaluation, Features, Source
from precompute.evaluate.evaluator import disabled, result, unsupported
from precompute.evaluate.expr import Expr, Range, String, Subquery, duration_text
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Value, Vector
from precompute.panes import last_end
from precompute.samples import I64, Bool
from precompute.sketches.registry import STATISTICS
from query.answers import Answer, Forwarded
from query.join import join_steps
from query.plan import Plan, plan
from query.promql.parse import parse
from query.tiers.head import HeadTier
from query.tiers.summary import Steps, SummaryTier, clock_text

HOLE_WARNING = "some samples are known to be missing; the answer is made from those received"


class Upstream(Protocol):
    """The system behind us."""

    def query(self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str], timeout_ms: int) -> Forwarded:
        """Its answer to a whole query. Raises UpstreamDown."""


@dataclass(frozen=True)
class EngineOptions:
    """The options of `query_engine` that answers depend on."""

    lookback_ms: int
    timeout_ms: int
    max_depth: int
    limits: Limits
    window_ms: int
    """The default pane width."""
    nearest: bool
    """`alignment`: whether whole queries are moved down to a multiple of it."""
    evaluation_interval_ms: int = 60_000
    """The step of subqueries that name none."""
    features: Features = field(default_factory=Features)


class QueryEngine:
    """Answers instant and range queries."""

    def __init__(
        self, summary: SummaryTier, head: HeadTier, upstream: Upstream | None, source: Source,
        aggregations: Sequence[Aggregation], sealed_ms: Callable[[], int], options: EngineOptions, clock: Clock,
    ) -> None:  # fmt: skip
        self._summary, self._head, self._upstream, self._source = summary, head, upstream, source
        self._aggregations, self._sealed_ms = tuple(aggregations), sealed_ms
        self._options, self._clock = options, clock

    def instant(
        self, text: str, time_ms: int | None, timeout_ms: int | None, headers: Mapping[str, str]
    ) -> Answer | Forwarded:
        """The query at one time, now if None."""
        time_ms = self._clock.now_ms() if time_ms is None else time_ms
        steps, infos = self._aligned(Steps(np.array([time_ms], np.int64), time_ms, time_ms))
        asked = {"query": text, "time": _seconds(int(steps.times[0]))}
        return self._answer("instant", "query", text, asked, steps, infos, timeout_ms, headers)

    def range(
        self, text: str, start_ms: int, end_ms: int, step_ms: int, timeout_ms: int | None, headers: Mapping[str, str]
    ) -> Answer | Forwarded:
        """The query at start, start + step, … up to end."""
        times = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
        steps, infos = self._aligned(Steps(times, start_ms, end_ms, step_ms))
        asked = {
            "query": text, "start": _seconds(steps.start_ms), "end": _seconds(steps.end_ms), "step": _seconds(step_ms)
        }  # fmt: skip
        return self._answer("range", "query_range", text, asked, steps, infos, timeout_ms, headers)

    def _answer(
        self, kind: str, path: str, text: str, asked: Mapping[str, str], steps: Steps, infos: tuple[str, ...],
        timeout_ms: int | None, headers: Mapping[str, str],
    ) -> Answer | Forwarded:  # fmt: skip
        longest_ms = self._options.timeout_ms
        budget = Budget(self._options.limits, self._clock, min(timeout_ms or longest_ms, longest_ms))

        def forward(why: str) -> Forwarded:
            if self._upstream is None:
                raise Unsupported(why)
            return self._upstream.query(path, asked, headers, budget.left_ms())

        try:
            expr = parse(text, self._options.max_depth)
        except Unsupported as missing:
            return forward(missing.feature)
        if missing_feature := unsupported(expr):
            return forward(missing_feature)
        if off := disabled(expr, self._options.features):
            if self._upstream is None:
                raise BadExpression(f"parse error: {off}")
            return forward(off)
        _check_type(expr, kind)
        local = self._local(expr, kind, self._evaluation(steps, budget))
        return forward(local) if isinstance(local, str) else replace(local, infos=local.infos + infos)

    def _evaluation(self, steps: Steps, budget: Budget) -> Evaluation:
        options = self._options
        return Evaluation(
            self._source, steps.times, options.lookback_ms, budget, steps.start_ms, steps.end_ms,
            features=options.features, step_ms=steps.step_ms, evaluation_interval_ms=options.evaluation_interval_ms,
        )  # fmt: skip

    def _local(self, expr: Expr, kind: str, at: Evaluation) -> Answer | str:
        """The answer from summaries and head, or why an upstream must give it."""
        steps = Steps(at.times, at.start_ms, at.end_ms, at.step_ms)
        planned = plan(expr, self._aggregations, self._options.lookback_ms)
        parts: list[tuple[str, Bool, Value]] = []
        left = np.ones(len(steps.times), np.bool_)
        if planned.from_summaries and not self._head.lacks_series(expr):
            left &= ~self._from_summaries(planned, steps, at, parts)
        if left.any():
            why = self._from_head(expr, steps, left, at, parts)
            if why and self._upstream is not None:
                return why
            if why and not parts:
                raise ExecutionError(f"{why}, and there is no upstream (query_engine.prometheus_server)")
        noted, infos = at.notes.shown()
        warnings = (*noted, *self._warnings(planned, expr, steps, left, parts))
        value = join_steps([(where, part) for _, where, part in parts], len(steps.times))
        tiers = tuple(tier for tier, _, _ in parts)
        return Answer(value, steps.times, kind, tiers, self._bound(planned, steps, tiers), warnings, infos)

    def _from_summaries(
        self, planned: Plan, steps: Steps, at: Evaluation, parts: list[tuple[str, Bool, Value]]
    ) -> Bool:
        """Answer the steps that summaries can; which those are, bool[s]."""
        good = np.ones(len(steps.times), np.bool_)
        for coverage in planned.covered:
            good &= self._summary.servable(coverage, steps)[0]
        if not good.any():
            return good
        asked = steps.at(steps.times[good])
        known: dict[Expr, Vector] = {}
        right = np.ones(int(good.sum()), np.bool_)
        for coverage in planned.covered:
            known[coverage.requirement.node], fine = self._summary.read(coverage, asked, at.budget)
            right &= fine
        good[good] = right
        if right.any():
            parts.append(("summary", good, _over(planned.expr, known, asked.times, right, at)))
        return good

    def _from_head(
        self, expr: Expr, steps: Steps, left: Bool, at: Evaluation, parts: list[tuple[str, Bool, Value]]
    ) -> str:
        """Answer the steps that are left and that the head covers; why it does not cover the first other one."""
        asked = steps.at(steps.times[left])
        good, why = self._head.covered(expr, asked, self._options.lookback_ms)
        if why and self._upstream is not None:
            return why
        if good.any():
            where = left.copy()
            where[left] = good
            covered = steps.at(asked.times[good])
            value = result(expr, replace(at, times=covered.times))
            if not self._head.still_held(expr, covered, self._options.lookback_ms):
                return self._from_head(expr, steps, left, at, parts)
            parts.append(("head", where, value))
        left[left] = ~good
        return why

    def _warnings(
        self, planned: Plan, expr: Expr, steps: Steps, left: Bool, parts: Sequence[tuple[str, Bool, Value]]
    ) -> tuple[str, ...]:
        warnings = []
        answered = steps.at(steps.times[np.logical_or.reduce([at for _, at, _ in parts])])
        if self._head.touches_hole(expr, answered, self._options.lookback_ms):
            warnings.append(HOLE_WARNING)
        if left.any() and len(answered.times) < len(steps.times):
            warnings.append(
                f"steps up to {clock_text(int(steps.times[left].max()))} UTC are left out: their samples are no longer "
                "held, and there is no upstream (query_engine.prometheus_server)"
            )
        return tuple(warnings)

    def _bound(self, planned: Plan, steps: Steps, tiers: Sequence[str]) -> str:
        bounds = (
            {str(STATISTICS[c.requirement.node.op].bound) for c in planned.covered} if "summary" in tiers else set()
        )
        bound = ", ".join(sorted(bounds - {"exact"})) or "exact"
        sealed_ms = last_end(self._sealed_ms(), self._options.window_ms)
        unsealed = "head" in tiers and int(steps.times.max()) > sealed_ms
        return f"{bound}; not sealed after {clock_text(sealed_ms)} UTC" if unsealed else bound

    def _aligned(self, steps: Steps) -> tuple[Steps, tuple[str, ...]]:
        """The steps moved down as a whole, where `alignment: nearest` asks for it, and the word that says so."""
        if not self._options.nearest:
            return steps, ()
        width_ms = self._options.window_ms
        last_ms = min(int(steps.times[0]), self._sealed_ms()) if len(steps.times) == 1 else int(steps.times[0])
        moved_ms = int(steps.times[0]) - last_end(last_ms, width_ms)
        if not moved_ms:
            return steps, ()
        moved = Steps(steps.times - moved_ms, steps.start_ms - moved_ms, steps.end_ms - moved_ms, steps.step_ms)
        return moved, (f"moved back by {duration_text(moved_ms)} to the pane grid (query_engine.alignment: nearest)",)


def _over(expr: Expr, known: Mapping[Expr, Vector], times: I64, right: Bool, at: Evaluation) -> Value:
    """The expression over the values of its covered parts, at the steps where all are right."""
    kept = {
        node: replace(v, values=v.values[:, right], present=v.present[:, right]).seen() for node, v in known.items()
    }
    return result(expr, replace(at, times=times[right], known=kept))


def _check_type(expr: Expr, kind: str) -> None:
    if kind == "range" and isinstance(expr, (String, Range, Subquery)):
        what = "string" if isinstance(expr, String) else "range vector"
        raise BadExpression(f'invalid expression type "{what}" for range query, must be Scalar or instant Vector')


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}".rstrip("0").rstrip(".") if ms % 1000 else str(ms // 1000)
