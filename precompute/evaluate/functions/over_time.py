"""Functions of a range vector: windows over samples, read by the kernels of kernels.selectors."""

from collections.abc import Mapping, Sequence

import numpy as np

from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import Aggregate, Call, Expr, Number, quoted, selectors, walk
from precompute.evaluate.functions.arguments import scalar
from precompute.evaluate.functions.histograms import warn_of_quantiles
from precompute.evaluate.functions.numbers import go_f
from precompute.evaluate.names import drop_names_of_ranges
from precompute.evaluate.ranges import over_range, window_ends
from precompute.evaluate.values import Scalar, Value, Vector
from precompute.kernels.labels import distinct
from precompute.labels import METRIC_NAME
from precompute.samples import F64, Bool

_COUNTER_ENDINGS = ("_total", "_sum", "_count", "_bucket")


def _of_range(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    return drop_names_of_ranges(over_range(node.function, node.args[0], at, evaluate), at)


def _keeping_names(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """first and last act like an offset: their values are still the metric's."""
    return over_range(node.function, node.args[0], at, evaluate)


def _of_counter(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """Informs of metrics that do not look like counters by their names."""
    rates = over_range(node.function, node.args[0], at, evaluate)
    for name in _names(rates):
        _note_counter(name, at)
    return drop_names_of_ranges(rates, at)


def note_known(expr: Expr, value: Vector | Scalar, at: Evaluation) -> None:
    """What evaluating `expr` would have remarked on, where its value was already there: as far as the expression tells,
    not what only the samples do."""
    there = isinstance(value, Vector) and bool(len(value))
    for node in walk(expr):
        if isinstance(node, Call) and there and RULES.get(node.function) is _of_counter:
            for selector in selectors(node):
                _note_counter(selector.metric() or "", at)
        phi = [one.value for one in _quantiles_of(node, there) if isinstance(one, Number)]
        warn_of_quantiles(np.array(phi), at)


def _quantiles_of(node: Expr, there: bool) -> Sequence[Expr | None]:
    """The φ that evaluating a node would warn of; there: whether there is a value."""
    if isinstance(node, Aggregate):
        return [node.parameter] if node.op == "quantile" else []
    if not isinstance(node, Call):
        return []
    if node.function == "quantile_over_time":
        return node.args[:1] if there else []
    return {"histogram_quantile": node.args[:1], "histogram_quantiles": node.args[2:]}.get(node.function, [])


def _note_counter(name: str, at: Evaluation) -> None:
    if name and not name.endswith(_COUNTER_ENDINGS):
        at.notes.inform(
            f"metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {quoted(name)}"
        )


def _names(vector: Vector) -> list[str]:
    """The metric names of the rows, sorted."""
    codes = vector.frame.spread((METRIC_NAME,), vector.frame.symbols)
    return sorted(filter(None, vector.frame.symbols.texts(distinct(codes)[0].tolist())))


def _quantile_over_time(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    phi = scalar(node.args[0], at, evaluate)
    quantiles = over_range(node.function, node.args[1], at, evaluate, phi)
    warn_of_quantiles(phi[quantiles.present.any(axis=0)], at)
    return drop_names_of_ranges(quantiles, at)


def _predict_linear(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """The line through the window's samples, so many seconds after the evaluation's time (not the window's end)."""
    ahead_s = scalar(node.args[1], at, evaluate)
    since_end_ms = (at.times - window_ends(node.args[0], at)).astype(np.float64)
    return drop_names_of_ranges(over_range(node.function, node.args[0], at, evaluate, ahead_s, since_end_ms), at)


def _smoothing(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    smoothing, trend = (scalar(arg, at, evaluate) for arg in node.args[1:])
    _check_factors(smoothing, trend, node.args[0], at, evaluate)
    return drop_names_of_ranges(over_range(node.function, node.args[0], at, evaluate, smoothing, trend), at)


def _check_factors(smoothing: F64, trend: F64, ranged: Expr, at: Evaluation, evaluate: Evaluate) -> None:
    """Raises ExecutionError for a factor outside of (0, 1) at a step where there is a sample to smooth."""
    wrong = ~(_is_share(smoothing) & _is_share(trend))
    if not wrong.any():
        return
    present = over_range("present_over_time", ranged, at, evaluate).present.any(axis=0)
    for step in np.flatnonzero(wrong & present)[:1].tolist():
        name, factor = ("trend", trend) if _is_share(smoothing[step]) else ("smoothing", smoothing)
        raise ExecutionError(f"invalid {name} factor. Expected: 0 < {name[0]}f < 1, got: {go_f(factor[step])}")


def _is_share(factor: F64) -> Bool:
    return ~((factor <= 0) | (factor >= 1))


RULES: Mapping[str, Rule] = {
    "rate": _of_counter,
    "increase": _of_counter,
    "delta": _of_range,
    "irate": _of_range,
    "idelta": _of_range,
    "changes": _of_range,
    "resets": _of_range,
    "deriv": _of_range,
    "predict_linear": _predict_linear,
    "double_exponential_smoothing": _smoothing,
    "avg_over_time": _of_range,
    "sum_over_time": _of_range,
    "min_over_time": _of_range,
    "max_over_time": _of_range,
    "count_over_time": _of_range,
    "present_over_time": _of_range,
    "stddev_over_time": _of_range,
    "stdvar_over_time": _of_range,
    "mad_over_time": _of_range,
    "quantile_over_time": _quantile_over_time,
    "first_over_time": _keeping_names,
    "last_over_time": _keeping_names,
    "ts_of_first_over_time": _of_range,
    "ts_of_last_over_time": _of_range,
    "ts_of_min_over_time": _of_range,
    "ts_of_max_over_time": _of_range,
}
