"""PromQL, evaluated slowly over lists: what every fast path is compared with.

Written from Prometheus 3's rules (promql/functions.go, promql/engine.go), one sample at a time, without columns
and without compensation: sums are `math.fsum`, variances exact fractions. It shares the parser's tree with the
program and nothing else.

Every value comes with a scale: the magnitude that its rounding error is relative to.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from precompute.evaluate.expr import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Matcher,
    Matching,
    Negate,
    Number,
    Range,
    Selector,
)  # fmt: skip
from tests.reference.ranges import Approximate, counted, lowest, mean, quantile, range_function, total, variance

Labels = tuple[tuple[str, str], ...]
NAME = "__name__"


class Stale:
    """Stands for a staleness marker among values."""


STALE = Stale()


class Fails(Exception):
    """The expression is an error on these data."""


Samples = Sequence[tuple[int, float | Stale]]
"""(ms, value), ascending, no time twice."""
Vector = dict[Labels, Approximate]
Value = Approximate | Vector


@dataclass(frozen=True)
class At:
    """One evaluation: the samples, the time in ms, the lookback delta, and the query's first and last step."""

    series: Mapping[Labels, Samples]
    time_ms: int
    lookback_ms: int
    start_ms: int
    end_ms: int


def evaluate(expr: Expr, at: At) -> Value:
    """The value of `expr`; raises Fails where Prometheus would."""
    match expr:
        case Number():
            return Approximate(expr.value, abs(expr.value))
        case Selector():
            return _instant(expr, at)
        case Call():
            return _call(expr, at)
        case Aggregate():
            return _aggregate(expr, at)
        case Negate():
            return _negate(evaluate(expr.expr, at))
        case Binary():
            return _binary(expr, evaluate(expr.left, at), evaluate(expr.right, at))
    raise NotImplementedError(type(expr).__name__)


# -- selectors


def accepts(matcher: Matcher, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if matcher.op in ("=", "!="):
        return (value == matcher.value) == (matcher.op == "=")
    found = re.fullmatch(matcher.value, value, re.DOTALL) is not None
    return found == (matcher.op == "=~")


def _selected(selector: Selector, at: At) -> dict[Labels, Samples]:
    return {
        labels: samples for labels, samples in at.series.items()
        if all(accepts(m, dict(labels)) for m in selector.matchers)
    }  # fmt: skip


def _reference_time(selector: Selector, at: At) -> int:
    fixed = {None: at.time_ms, "start": at.start_ms, "end": at.end_ms}.get(selector.at, selector.at)
    return int(fixed) - selector.offset_ms


def _instant(selector: Selector, at: At) -> Vector:
    until_ms, out = _reference_time(selector, at), {}
    for labels, samples in _selected(selector, at).items():
        seen = [(t, v) for t, v in samples if until_ms - at.lookback_ms < t <= until_ms]
        if seen and not isinstance(seen[-1][1], Stale):
            out[labels] = Approximate(seen[-1][1], abs(seen[-1][1]))
    return out


def _call(call: Call, at: At) -> Vector:
    ranged = next(arg for arg in call.args if isinstance(arg, Range))
    phi = call.args[0].value if isinstance(call.args[0], Number) else math.nan
    until_ms, out = _reference_time(ranged.selector, at), {}
    for labels, samples in _selected(ranged.selector, at).items():
        window = [
            (t, v) for t, v in samples if until_ms - ranged.range_ms < t <= until_ms and not isinstance(v, Stale)
        ]
        result = range_function(call.function, window, until_ms, ranged.range_ms, phi) if window else None
        if result is not None:
            key = labels if call.function == "last_over_time" else without(labels, (NAME,))
            _add(out, key, result)
    return out


# -- operators


def without(labels: Labels, names: Sequence[str]) -> Labels:
    return tuple((n, v) for n, v in labels if n not in names)


def keeping(labels: Labels, names: Sequence[str]) -> Labels:
    return tuple((n, v) for n, v in labels if n in names)


def _add(out: Vector, labels: Labels, value: Approximate) -> None:
    if labels in out:
        raise Fails("vector cannot contain metrics with the same labelset")
    out[labels] = value


def _aggregate(node: Aggregate, at: At) -> Vector:
    vector = evaluate(node.expr, at)
    assert isinstance(vector, dict)
    groups: dict[Labels, list[Approximate]] = {}
    for labels, value in vector.items():
        key = without(labels, (*node.labels, NAME)) if node.without else keeping(labels, node.labels)
        groups.setdefault(key, []).append(value)
    parameter = evaluate(node.parameter, at) if node.parameter is not None else Approximate(math.nan, 0.0)
    assert isinstance(parameter, Approximate)
    return {key: _statistic(node.op, values, parameter.value) for key, values in groups.items()}


def _statistic(op: str, values: Sequence[Approximate], phi: float) -> Approximate:
    numbers = [v.value for v in values]
    scale = max((v.scale for v in values if math.isfinite(v.scale)), default=0.0)
    match op:
        case "sum":
            return total(values)
        case "avg":
            return mean(values)
        case "count":
            return counted(len(values))
        case "group":
            return counted(1)
        case "min":
            return Approximate(lowest(numbers), scale)
        case "max":
            return Approximate(-lowest([-n for n in numbers]), scale)
        case "stdvar":
            return Approximate(variance(numbers), scale**2)
        case "stddev":
            return Approximate(math.sqrt(variance(numbers)), scale)
        case "quantile":
            return Approximate(quantile(phi, numbers), scale)
    raise NotImplementedError(op)


def _negate(value: Value) -> Value:
    if isinstance(value, Approximate):
        return Approximate(-value.value, value.scale)
    out: Vector = {}
    for labels, v in value.items():
        _add(out, without(labels, (NAME,)), Approximate(-v.value, v.scale))
    return out


COMPARISONS = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, ">": lambda a, b: a > b,
    "<": lambda a, b: a < b, ">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b,
}  # fmt: skip


def _calculated(op: str, a: Approximate, b: Approximate) -> Approximate:
    if op in COMPARISONS:
        return counted(COMPARISONS[op](a.value, b.value))
    value = _arithmetic(op, a.value, b.value)
    if op in ("+", "-"):
        return Approximate(value, a.scale + b.scale)
    if op == "*":
        return Approximate(value, a.scale * b.scale)
    if op == "/" and b.value:
        return Approximate(value, (a.scale + abs(value) * b.scale) / abs(b.value))
    return Approximate(value, abs(value))


def _arithmetic(op: str, a: float, b: float) -> float:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            if b:
                return a / b
            return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
        case "%":
            return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)
    raise NotImplementedError(op)


def _binary(node: Binary, left: Value, right: Value) -> Value:
    if isinstance(left, Approximate) and isinstance(right, Approximate):
        return _calculated(node.op, left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return _between_vectors(node, left, right)
    return _with_scalar(node, left, right)


def _with_scalar(node: Binary, left: Value, right: Value) -> Vector:
    vector, out = left if isinstance(left, dict) else right, {}
    assert isinstance(vector, dict)
    for labels, own in vector.items():
        a, b = (own, right) if isinstance(left, dict) else (left, own)
        assert isinstance(a, Approximate) and isinstance(b, Approximate)
        result = _calculated(node.op, a, b)
        if node.op in COMPARISONS and not node.bool_:
            if result.value:
                out[labels] = own
        else:
            _add(out, without(labels, (NAME,)), result)
    return out


def _between_vectors(node: Binary, left: Vector, right: Vector) -> Vector:
    if not left or not right:
        return {}
    ones: dict[Labels, Approximate] = {}
    for labels, value in right.items():
        signature = _signature(node.matching, labels)
        if signature in ones:
            raise Fails("found duplicate series for the match group on the right hand-side of the operation")
        ones[signature] = value
    met, out = set(), {}
    filters = node.op in COMPARISONS and not node.bool_
    for labels, value in left.items():
        signature = _signature(node.matching, labels)
        if signature not in ones:
            continue
        if signature in met:
            raise Fails("multiple matches for labels: many-to-one matching must be explicit")
        met.add(signature)
        result = _calculated(node.op, value, ones[signature])
        if filters and not result.value:
            continue
        named = labels if filters else without(labels, (NAME,))
        matched = node.matching.labels
        left_over = keeping(named, matched) if node.matching.on else without(named, matched)
        _add(out, left_over, value if filters else result)
    return out


def _signature(matching: Matching, labels: Labels) -> Labels:
    return keeping(labels, matching.labels) if matching.on else without(labels, (*matching.labels, NAME))
