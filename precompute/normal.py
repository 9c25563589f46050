"""Expressions that can be kept, and their normal form: equal for all that one kept expression answers.

A pane's snapshot is an expression's value at the pane's end. It can be kept if that value is a function of the samples
before that time: whatever the query's own times, and as far back as the expression's reach.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from precompute.evaluate.expr import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Matcher,
    Range,
    Selector,
    String,
    Subquery,
    children,
    rebuilt,
    selectors,
    walk,
)
from precompute.evaluate.functions import FUNCTIONS, OF_ONE_SERIES
from precompute.evaluate.types import type_of
from precompute.labels import METRIC_NAME
from precompute.lifting import liftable, lifted

_ELSEWHERE = {
    "info": "which adds labels by rules of its own",
    **dict.fromkeys(("start", "end", "range", "step"), "which depends on the query's own times"),
    **dict.fromkeys(("sort", "sort_desc", "sort_by_label", "sort_by_label_desc"), "which only orders"),
}
"""Functions that are not kept, and why."""


@dataclass(frozen=True)
class Normal:
    """An expression in parts: at each time t its value is that of `whole` at t - offset_ms, or at `at` - offset_ms."""

    expr: Expr
    """`whole` without `matchers`: what an aggregation keeps."""
    matchers: tuple[Matcher, ...]
    """Sorted: `whole` is the rows of `expr` that fulfil them, wherever `expr` is no error (see lifting.py)."""
    whole: Expr
    offset_ms: int
    at: int | str | None
    text: str
    """`expr` as PromQL: equal where, and only where, the same is kept."""

    def but(self, matchers: tuple[Matcher, ...]) -> Expr:
        """`whole` with only these of `matchers` left in it."""
        return lifted(self.whole, frozenset(self.matchers) - frozenset(matchers))


def normal(expr: Expr) -> Normal:
    """The normal form of an expression of which `why_not_kept` is empty and whose subqueries say their steps."""
    offset_ms, at = _shift(expr)
    whole = _moved(expr, offset_ms)
    matchers = liftable(whole)
    bare = lifted(whole, matchers)
    return Normal(bare, tuple(sorted(matchers)), whole, offset_ms, at, str(bare))


def with_steps(expr: Expr, evaluation_interval_ms: int) -> Expr:
    """The same expression, in which subqueries that leave their step to the evaluation interval say it."""
    made = rebuilt(expr, lambda inner: with_steps(inner, evaluation_interval_ms))
    if isinstance(made, Subquery) and made.step_ms is None:
        return replace(made, step_ms=evaluation_interval_ms)
    return made


def metrics(expr: Expr) -> tuple[str, ...]:
    """The metrics that a kept expression looks at, sorted."""
    return tuple(sorted({selector.metric() or "" for selector in selectors(expr)}))


def reach_ms(expr: Expr, lookback_ms: int) -> int:
    """How far back an expression looks: the largest, over all paths to a selector, of ranges plus offsets plus, for an
    instant selector, the lookback."""
    if isinstance(expr, Range):
        return expr.range_ms + max(0, expr.selector.offset_ms)
    if isinstance(expr, Selector):
        return lookback_ms + max(0, expr.offset_ms)
    inside = max((reach_ms(child, lookback_ms) for child in children(expr)), default=0)
    return inside + expr.range_ms + max(0, expr.offset_ms) if isinstance(expr, Subquery) else inside


def of_one_series(expr: Expr) -> bool:
    """Whether each row is made of one series alone, so that rows come in the order of series, shard by shard."""
    return len(selectors(expr)) == 1 and all(
        node.function in OF_ONE_SERIES and bool(selectors(node)) for node in walk(expr) if isinstance(node, Call)
    )


def why_not_kept(expr: Expr) -> str:
    """Why no snapshot can be kept of an expression; empty if one can."""
    return next(filter(None, map(_why_not, walk(expr))), "") or _why_not_selected(expr) or _why_not_shifted(expr)


def _why_not_selected(expr: Expr) -> str:
    """Why what is selected makes no instant vector of known metrics."""
    found, kind = selectors(expr), type_of(expr)
    if not found:
        return "it selects no series"
    if any(selector.metric() is None for selector in found):
        return "the metric name is not fixed"
    return "" if kind == "vector" else f"a {'range vector; put a function over it' if kind == 'matrix' else kind}"


def _why_not(node: Expr) -> str:
    """Why this node, whatever is inside it, can be no part of what is kept."""
    if isinstance(node, Aggregate):
        return "an aggregation operator inside"
    if isinstance(node, Binary):
        if node.matching.fills:
            return "fill modifiers inside"
        return _why_named((*node.matching.include, *(node.matching.labels if node.matching.on else ())))
    if not isinstance(node, Call):
        return ""
    if node.function in _ELSEWHERE:
        return f"{node.function} inside, {_ELSEWHERE[node.function]}"
    if node.function not in FUNCTIONS:
        return f"{node.function} inside, which is not known here"
    made = node.function in ("label_replace", "label_join")
    return _why_named([arg.value for arg in node.args if isinstance(arg, String)]) if made else ""


def _why_named(labels: tuple[str, ...] | list[str]) -> str:
    # until when a name can be read depends on query_engine.delayed_name_removal, and panes serve both
    return "the metric name is read as a label" if METRIC_NAME in labels else ""


# -- offsets and @


def _why_not_shifted(expr: Expr) -> str:
    """Why the value at a time cannot be read at another one, and so from a pane."""
    outer = list(_outermost(expr))
    deep = (node for one in outer if isinstance(one, Subquery) for node in walk(one.expr))
    inner = [node for node in deep if isinstance(node, (Selector, Subquery))]
    if any(node.at is not None for node in inner):
        return "an @ inside a subquery"
    if any(node.offset_ms < 0 for node in inner):
        return "a look into the future"
    if len({node.at for node in outer}) > 1:
        return "an @ that not all selectors share"
    if _tells_time(expr) and outer[0].at is not None:
        return "an @ beside the evaluation's own time"
    offsets = {node.offset_ms for node in outer}
    return "a look into the future" if min(offsets) < 0 and (len(offsets) > 1 or _tells_time(expr)) else ""


def _outermost(expr: Expr) -> Iterator[Selector | Subquery]:
    """What an offset of the whole expression would move."""
    if isinstance(expr, (Selector, Subquery)):
        yield expr
    else:
        for child in children(expr):
            yield from _outermost(child)


def _shift(expr: Expr) -> tuple[int, int | str | None]:
    """Offset and @ of all that the expression looks at. Where it tells the time, it is read at that time only."""
    if _tells_time(expr):
        return 0, None
    outer = list(_outermost(expr))
    return min(node.offset_ms for node in outer), outer[0].at


def _moved(expr: Expr, offset_ms: int) -> Expr:
    """The expression without an @ and a common offset."""
    if isinstance(expr, (Selector, Subquery)):
        return replace(expr, offset_ms=expr.offset_ms - offset_ms, at=None)
    return rebuilt(expr, lambda inner: _moved(inner, offset_ms))


def _tells_time(expr: Expr) -> bool:
    """Whether something depends on the time of evaluation itself, not only on the samples before it."""
    if isinstance(expr, Subquery):
        return False  # its steps move along with it
    if isinstance(expr, Call):
        if expr.function in ("time", "predict_linear") or (not expr.args and expr.function != "pi"):
            return True
        if expr.function == "timestamp" and not isinstance(expr.args[0], Selector):
            return True
    return any(_tells_time(child) for child in children(expr))
