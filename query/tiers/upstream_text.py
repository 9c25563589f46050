"""An expression of ours as the text of a query for an upstream, which evaluates it as we would."""

import re
from dataclasses import dataclass, replace

from precompute.evaluate.expr import EQUAL, MATCHES, Call, Expr, Matcher, Number, Selector, Subquery, rebuilt
from precompute.labels import METRIC_NAME
from query.tiers.summary import Steps

_OF_THE_QUERY = ("start", "end", "range", "step")


@dataclass(frozen=True)
class Whole:
    """What a part takes from the whole query: its steps, and the step of subqueries that name none."""

    steps: Steps
    evaluation_interval_ms: int

    def seconds(self, function: str) -> float:
        """start(), end(), range() or step()."""
        steps = self.steps
        range_ms = steps.end_ms - steps.start_ms
        of = {"start": steps.start_ms, "end": steps.end_ms, "range": range_ms, "step": range_ms and steps.step_ms}
        return of[function] / 1000

    def time_ms(self, at: int | str | None) -> int | None:
        """A modifier's time."""
        return {"start": self.steps.start_ms, "end": self.steps.end_ms}[at] if isinstance(at, str) else at


def part_text(expr: Expr, whole: Whole) -> str:
    """PromQL of a sub-expression whose value at a step does not depend on which steps are asked for with it."""
    return query_text(_alone(expr, whole))


def query_text(expr: Expr) -> str:
    """PromQL that Prometheus reads as the same expression."""
    # inside a string its lexer takes the character for damage; elsewhere none can be
    return str(_readable(expr)).replace("\ufffd", "\\ufffd")


def seconds_text(ms: int) -> str:
    """A time or distance as the API takes it."""
    return f"{ms / 1000:.3f}".rstrip("0").rstrip(".") if ms % 1000 else str(ms // 1000)


def _alone(expr: Expr, whole: Whole) -> Expr:
    """The expression without what depends on the query around it."""
    if isinstance(expr, Call) and expr.function in _OF_THE_QUERY:
        return Number(whole.seconds(expr.function))
    made = rebuilt(expr, lambda inner: _alone(inner, whole))
    if isinstance(made, Subquery) and made.step_ms is None:
        made = replace(made, step_ms=whole.evaluation_interval_ms)
    return replace(made, at=whole.time_ms(made.at)) if isinstance(made, (Selector, Subquery)) else made


def _readable(expr: Expr) -> Expr:
    """The expression with info() as Prometheus reads it: no metric before the braces, no offset behind them."""
    made = rebuilt(expr, _readable)
    if isinstance(made, Call) and made.function == "info" and isinstance(made.args[1], Selector):
        return replace(made, args=(made.args[0], Selector(tuple(map(_in_braces, made.args[1].matchers)))))
    return made


def _in_braces(matcher: Matcher) -> Matcher:
    if matcher.name != METRIC_NAME or matcher.op != EQUAL:
        return matcher
    return Matcher(METRIC_NAME, MATCHES, re.escape(matcher.value))
