"""Sub-expressions that an upstream evaluates, whose values join an evaluation here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import orjson

from precompute.clock import Clock
from precompute.errors import BadExpression, ExecutionError, QueryError, TimedOut
from precompute.evaluate.expr import Aggregate, Call, Expr, walk
from precompute.evaluate.limits import Budget
from precompute.evaluate.types import type_of
from precompute.evaluate.values import Scalar, Vector, nothing
from precompute.samples import I64
from query.answers import Forwarded
from query.errors import NotJoinable, UpstreamDown
from query.join import join_steps
from query.tiers.points import NoFloats, OddAnswer, Read, Wanted, read_answer
from query.tiers.recognition import LabelLookup, Parts, Recognition
from query.tiers.summary import Steps
from query.tiers.upstream import Upstream
from query.tiers.upstream_text import Whole, part_text, seconds_text

_MOST_STEPS = 11_000
"""What Prometheus gives of one series at a time (web/api/v1, queryRange)."""

_THEIR_ERRORS: dict[str, type[QueryError]] = {
    "bad_data": BadExpression, "execution": ExecutionError, "timeout": TimedOut,
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """An upstream's values of one sub-expression at the asked steps, and what it noted."""

    value: Vector | Scalar
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()


class UpstreamParts:
    """Reads values of sub-expressions; any thread may call it."""

    def __init__(
        self, upstream: Upstream, parts: Parts, lookup: LabelLookup, evaluation_interval_ms: int, clock: Clock
    ) -> None:
        self._upstream, self._lookup, self._evaluation_interval_ms = upstream, lookup, evaluation_interval_ms
        self._recognition = Recognition(upstream, parts, clock)

    def takes_parts(self, headers: Mapping[str, str], budget: Budget) -> bool:
        """Whether its semantics are ours; false also while it cannot be asked."""
        return self._recognition.same_semantics(headers, budget.left_ms())

    def read(self, expr: Expr, steps: Steps, lookback_ms: int, budget: Budget, headers: Mapping[str, str]) -> Part:
        """The expression at these steps; the caller's slot is lent while we wait.

        steps: ascending times, some of a grid of step_ms, or one time. Raises UpstreamDown, TimedOut, the error
        that the upstream itself has with the expression, LimitExceeded, NotJoinable for what is no float, and
        Unsupported for what cannot be asked of one with external labels.
        """
        kind = type_of(expr)
        if kind not in ("vector", "scalar"):
            raise NotJoinable(f"a {kind} of the upstream {self._upstream.name} cannot be a part of an answer")
        if not len(steps.times):
            return Part(Scalar(np.zeros(0)) if kind == "scalar" else nothing(0))
        external = self._lookup.labels(headers, budget.left_ms())
        text = part_text(external.expr(expr), Whole(steps, self._evaluation_interval_ms))
        stretches = _stretches(steps)
        try:
            read = [
                self._stretch(text, kind == "scalar", times, steps, lookback_ms, budget, headers) for times in stretches
            ]
        except UpstreamDown:
            self._recognition.doubt()
            raise
        part = _joined(read, stretches, steps)
        # of one time, the rows come in the order that the expression asks for
        if isinstance(part.value, Vector) and len(steps.times) == 1 and _asks_for_order(expr):
            return replace(part, value=replace(part.value, ordered=True))
        return part

    def _stretch(
        self, text: str, scalar: bool, times: I64, steps: Steps, lookback_ms: int, budget: Budget,
        headers: Mapping[str, str],
    ) -> Read:  # fmt: skip
        ranged = len(times) > 1
        asked = {"query": text, "lookback_delta": f"{lookback_ms}ms"} | _when(times, steps.step_ms)
        path = "query_range" if ranged else "query"
        try:
            answer = self._upstream.part(path, asked, headers, budget)
            _check(answer)
            return read_answer(answer.body, Wanted(times, steps.step_ms if ranged else 1, scalar, ranged), budget)
        except _Refused as refused:
            raise self._theirs(refused) from None
        except OddAnswer as odd:
            raise UpstreamDown(f"the upstream {self._upstream.name} answered with {odd}") from None
        except NoFloats as found:
            raise NotJoinable(
                f"the upstream {self._upstream.name} has {found}, which cannot be a part of an answer"
            ) from None

    def _theirs(self, refused: "_Refused") -> QueryError:
        """Its own error as one of ours."""
        made = _THEIR_ERRORS.get(refused.kind, UpstreamDown)
        return made(f"the upstream {self._upstream.name} answered: {refused}")


class _Refused(Exception):
    """An error of the upstream's own: its text, and in `kind` its type."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def _check(answer: Forwarded) -> None:
    """Raises _Refused for an answer that is an error."""
    if answer.status == 200:
        return
    try:
        body = orjson.loads(answer.body)
        refused = _Refused(str(body["errorType"]), str(body["error"]))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        refused = _Refused("", f"status {answer.status}")
    raise refused


def _stretches(steps: Steps) -> list[I64]:
    """The times in pieces that the upstream evaluates at once."""
    found, times = [], steps.times
    while len(times):
        last_ms = int(times[0]) + (_MOST_STEPS - 1) * steps.step_ms
        count = int((times <= last_ms).sum())
        found.append(times[:count])
        times = times[count:]
    return found


def _when(times: I64, step_ms: int) -> dict[str, str]:
    first, last = seconds_text(int(times[0])), seconds_text(int(times[-1]))
    return {"time": first} if len(times) == 1 else {"start": first, "end": last, "step": seconds_text(step_ms)}


def _joined(read: list[Read], stretches: list[I64], steps: Steps) -> Part:
    """One part of consecutive stretches."""
    value = join_steps([(np.isin(steps.times, at), one.value) for one, at in zip(read, stretches, strict=True)],
                       len(steps.times))  # fmt: skip
    assert isinstance(value, (Vector, Scalar))
    warnings = dict.fromkeys(text for one in read for text in one.warnings)
    infos = dict.fromkeys(text for one in read for text in one.infos)
    return Part(value, tuple(warnings), tuple(infos))


def _asks_for_order(expr: Expr) -> bool:
    return any(
        (isinstance(node, Call) and node.function.startswith("sort"))
        or (isinstance(node, Aggregate) and node.op in ("topk", "bottomk"))
        for node in walk(expr)
    )
