"""What a range query asks at each of its steps, and whether the answers to it can be kept step by step."""

from dataclasses import dataclass

from precompute.evaluate.choose import CHOOSERS
from precompute.evaluate.expr import (
    COMPARISONS,
    SET_OPERATORS,
    Aggregate,
    Binary,
    Call,
    Expr,
    Range,
    Selector,
    Subquery,
    children,
    selectors,
    walk,
)  # fmt: skip
from precompute.labels import METRIC_NAME
from query.tiers.summary import Steps

_OF_THE_SPAN = frozenset(("start", "end", "range", "step"))
_RELABEL = frozenset(("label_replace", "label_join", "info"))

_UNNAMED = frozenset(("",))
_ANY_NAMES = frozenset(("any", "other"))


@dataclass(frozen=True)
class Question:
    """What two range queries must have in common so that their values at the same step are the same."""

    text: str
    """The expression in normal form."""
    lookback_ms: int
    is_single: bool
    """A range of one step, whose rows `sort` and `topk` order as an instant query's."""
    span: tuple[int, int, int] | None
    """Start, end and step, only where the value depends on them."""


def question(expr: Expr, steps: Steps, lookback_ms: int) -> Question:
    """The question of a range query."""
    span = (steps.start_ms, steps.end_ms, steps.step_ms) if any(map(_of_the_span, walk(expr))) else None
    return Question(str(expr), lookback_ms, steps.start_ms == steps.end_ms, span)


def why_not(expr: Expr, delayed_names: bool, typed: bool) -> str:
    """Why an answer cannot be put together from steps answered apart; empty if it can.

    delayed_names   metric names go at the end of the query
    typed           there are series that say a metric's type or unit, which goes with its name
    """
    if not selectors(expr):
        return "it reads no samples"
    for node in walk(expr):
        if isinstance(node, Aggregate) and node.parameter is not None and _varies(node.parameter):
            return f"{node}: it is warned of a parameter by its extremes over all steps"
        if isinstance(node, (Range, Subquery)) and not delayed_names and (typed or len(_names(node)) > 1):
            return f"{node}: two series that differ in their names alone are an error at whatever steps they are"
    return ""


def _of_the_span(node: Expr) -> bool:
    if isinstance(node, (Selector, Subquery)):
        return isinstance(node.at, str)
    return isinstance(node, Call) and node.function in _OF_THE_SPAN


def _varies(parameter: Expr) -> bool:
    return any(isinstance(node, (Selector, Call)) for node in walk(parameter))


def _names(expr: Expr) -> frozenset[str]:
    """The metric names that rows of an expression may have, or more; "" for none."""
    if isinstance(expr, Selector):
        metric = expr.metric()
        return _ANY_NAMES if metric is None else frozenset((metric,))
    if isinstance(expr, Aggregate) and expr.op not in CHOOSERS:
        return _ANY_NAMES if METRIC_NAME in expr.labels and not expr.without else _UNNAMED
    if isinstance(expr, Call) and expr.function in _RELABEL:
        return _ANY_NAMES
    if isinstance(expr, Binary) and expr.op not in COMPARISONS | SET_OPERATORS:
        return _ANY_NAMES if METRIC_NAME in expr.matching.include else _UNNAMED
    found = frozenset().union(*map(_names, children(expr)))
    return found or _UNNAMED if isinstance(expr, Call) else found
