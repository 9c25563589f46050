"""The query engine: parse, plan, and answer each part of each step from the first tier that provably can.

summary    where the panes are there and right
head       where all that was received is still held
upstream   what is left: parts of the query where the upstream means by PromQL what we mean, else the whole of it
           without one: steps are left out with a warning, or a clear error
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import Clock
from precompute.errors import BadExpression, ExecutionError, Unsupported
from precompute.evaluate.context import Evaluation, Features, Source
from precompute.evaluate.evaluator import disabled
from precompute.evaluate.expr import Expr, Range, String, Subquery, duration_text
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.trace import Trace
from precompute.panes import last_end
from query.account import Account
from query.answers import Answer, Forwarded, Told
from query.asking import Asking
from query.assign import SUMMARY
from query.mixed import Mixed, MixedTiers
from query.plan import Plan, plan
from query.promql.parse import parse
from query.tiers.head import HeadTier
from query.tiers.summary import Steps, clock_text

HOLE_WARNING = "some samples are known to be missing; the answer is made from those received"

_REMEMBERED, _REMEMBERED_LENGTH = 1024, 4096
"""How many plans are kept, and the longest text of one."""


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


@dataclass(frozen=True)
class Request:
    """What a caller may say beside the query and its times."""

    timeout_ms: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """The caller's, of which the upstream hears those that say who asks."""
    lookback_ms: int | None = None
    """Another lookback than the configured one."""
    limit: int = 0
    """Of series, for the upstream to know; 0 is none."""
    traced: bool = False
    """Whether to measure each sub-expression."""
    cached: bool = True
    """Whether steps answered before may be taken from the result cache."""


_PLAIN = Request()


@dataclass(frozen=True)
class _Query:
    """One query under way."""

    kind: str
    text: str
    steps: Steps
    infos: tuple[str, ...]
    request: Request
    lookback_ms: int
    budget: Budget
    account: Account
    trace: Trace | None


class _Plans:
    """Plans of queries under one set of aggregations; it goes with that set."""

    def __init__(self, aggregations: tuple[Aggregation, ...], options: EngineOptions) -> None:
        self.aggregations, self._options = aggregations, options
        self._remembered = lru_cache(_REMEMBERED)(self._prepare)

    def of(self, text: str, lookback_ms: int) -> tuple[Plan, str | None]:
        """The plan, and what in it is switched off here. Raises QueryError's kinds."""
        prepare = self._remembered if len(text) <= _REMEMBERED_LENGTH else self._prepare
        return prepare(text, lookback_ms)

    def _prepare(self, text: str, lookback_ms: int) -> tuple[Plan, str | None]:
        options = self._options
        expr = parse(text, options.max_depth)
        planned = plan(expr, self.aggregations, lookback_ms, options.evaluation_interval_ms)
        return planned, disabled(expr, options.features)


class QueryEngine:
    """Answers instant and range queries."""

    def __init__(
        self, tiers: MixedTiers, head: HeadTier, upstream: Upstream | None, source: Source,
        aggregations: Callable[[], tuple[Aggregation, ...]], sealed_ms: Callable[[], int], options: EngineOptions,
        clock: Clock, heard: Sequence[Callable[[Told], None]] = (),
    ) -> None:  # fmt: skip
        """aggregations: those in force, another tuple after each change. heard: all told of every answer."""
        self._tiers, self._head, self._upstream, self._source = tiers, head, upstream, source
        self._aggregations, self._sealed_ms = aggregations, sealed_ms
        self._options, self._clock, self._heard = options, clock, heard
        self._plans = _Plans((), options)

    def instant(self, text: str, time_ms: int | None, request: Request = _PLAIN) -> Answer | Forwarded:
        """The query at one time, now if None."""
        time_ms = self._clock.now_ms() if time_ms is None else time_ms
        return self._answer("instant", text, Steps(np.array([time_ms], np.int64), time_ms, time_ms), request)

    def range(
        self, text: str, start_ms: int, end_ms: int, step_ms: int, request: Request = _PLAIN
    ) -> Answer | Forwarded:
        """The query at start, start + step, … up to end."""
        times = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
        return self._answer("range", text, Steps(times, start_ms, end_ms, step_ms), request)

    def planned(self, text: str, steps: Steps, lookback_ms: int) -> Plan | str:
        """The plan of a query at these steps, or why it cannot be made here. Raises QueryError's kinds."""
        in_force, plans = self._aggregations(), self._plans
        if plans.aggregations is not in_force:
            plans = self._plans = _Plans(in_force, self._options)
        try:
            planned, off = plans.of(text, lookback_ms)
        except Unsupported as missing:
            return missing.feature
        if off and self._upstream is None:
            raise BadExpression(f"parse error: {off}")
        return off or self._tiers.fitted(planned, steps)

    def _answer(self, kind: str, text: str, steps: Steps, request: Request) -> Answer | Forwarded:
        began_s = self._clock.monotonic_s()
        query = self._query(kind, text, steps, request)
        planned = self.planned(text, query.steps, query.lookback_ms)
        if isinstance(planned, Plan):
            _check_type(planned.expr, kind)
        made = planned if isinstance(planned, str) else self._local(query, planned)
        answer = self._forward(query, made) if isinstance(made, str) else made
        account = query.account
        account.seconds, account.samples = self._clock.monotonic_s() - began_s, query.budget.samples_read
        account.panes, account.groups = query.budget.panes_read, query.budget.groups_merged
        why = made if isinstance(made, str) else ""
        told = Told(text, None if isinstance(planned, str) else planned, query.steps, account, query.trace, why)
        for heard in self._heard:
            heard(told)
        return replace(answer, told=told)

    def _query(self, kind: str, text: str, steps: Steps, request: Request) -> _Query:
        options = self._options
        moved, infos = self._aligned(steps)
        budget = Budget(options.limits, self._clock, min(request.timeout_ms or options.timeout_ms, options.timeout_ms))
        lookback_ms = request.lookback_ms or options.lookback_ms
        trace = Trace(self._clock) if request.traced else None
        return _Query(kind, text, moved, infos, request, lookback_ms, budget, Account(), trace)

    def _forward(self, query: _Query, why: str) -> Forwarded:
        """The upstream's answer to the whole query. Raises Unsupported with the reason where there is none."""
        if self._upstream is None:
            raise Unsupported(why)
        asked = {"query": query.text, **_when(query)}
        if query.lookback_ms != self._options.lookback_ms:
            asked["lookback_delta"] = f"{query.lookback_ms}ms"
        if query.request.limit:
            asked["limit"] = str(query.request.limit)
        path = "query" if query.kind == "instant" else "query_range"
        return self._upstream.query(path, asked, query.request.headers, query.budget.left_ms())

    def _local(self, query: _Query, planned: Plan) -> Answer | str:
        """The answer from all tiers, or why an upstream must give the whole of it."""
        at, account = self._evaluation(query), query.account
        mixed = self._tiers.evaluate(Asking(planned, at, query.request.headers, account, query.request.cached))
        if isinstance(mixed, str):
            return mixed
        if mixed.value is None:
            missing = next((n.missing for n in planned.nodes if n.missing), "")
            if missing:
                raise Unsupported(missing)
            raise ExecutionError(f"{mixed.why}, and there is no upstream (query_engine.prometheus_server)")
        warnings, infos = at.notes.shown()
        tiers = account.tiers() or ("head",)
        return Answer(
            mixed.value, query.steps.times, query.kind, tiers, self._bound(planned, query.steps, mixed, tiers),
            (*warnings, *self._warnings(planned.expr, query, mixed)), infos + query.infos,
        )  # fmt: skip

    def _evaluation(self, query: _Query) -> Evaluation:
        options, steps = self._options, query.steps
        return Evaluation(
            self._source, steps.times, query.lookback_ms, query.budget, steps.start_ms, steps.end_ms,
            features=options.features, step_ms=steps.step_ms, evaluation_interval_ms=options.evaluation_interval_ms,
            trace=query.trace,
        )  # fmt: skip

    def _warnings(self, expr: Expr, query: _Query, mixed: Mixed) -> tuple[str, ...]:
        if self._upstream is not None:  # it has what is missing here
            return ()
        warnings, times = [], query.steps.times
        if self._head.touches_hole(expr, query.steps.at(times[~mixed.left]), query.lookback_ms):
            warnings.append(HOLE_WARNING)
        if mixed.left.any():
            warnings.append(
                f"steps up to {clock_text(int(times[mixed.left].max()))} UTC are left out: their samples are no longer "
                "held, and there is no upstream (query_engine.prometheus_server)"
            )
        return tuple(warnings)

    def _bound(self, planned: Plan, steps: Steps, mixed: Mixed, tiers: Sequence[str]) -> str:
        read = [n.coverage for n in planned.nodes if n.coverage and (mixed.codes[n.number] == SUMMARY).any()]
        bounds = {str(coverage.statistic.bound) for coverage in read}
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


def _check_type(expr: Expr, kind: str) -> None:
    if kind == "range" and isinstance(expr, (String, Range, Subquery)):
        what = "string" if isinstance(expr, String) else "range vector"
        raise BadExpression(f'invalid expression type "{what}" for range query, must be Scalar or instant Vector')


def _when(query: _Query) -> dict[str, str]:
    """The times as an upstream is asked for them."""
    steps = query.steps
    if query.kind == "instant":
        return {"time": _seconds(int(steps.times[0]))}
    return {"start": _seconds(steps.start_ms), "end": _seconds(steps.end_ms), "step": _seconds(steps.step_ms)}


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}".rstrip("0").rstrip(".") if ms % 1000 else str(ms // 1000)
