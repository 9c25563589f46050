"""Functions of a range vector."""

from collections.abc import Mapping

from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import Call
from precompute.evaluate.functions.arguments import scalar
from precompute.evaluate.names import drop_names
from precompute.evaluate.ranges import over_range
from precompute.evaluate.values import Value


def _of_range(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    return drop_names(over_range(node.function, node.args[0], at, evaluate), at)


def _last_over_time(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    return over_range(node.function, node.args[0], at, evaluate)


def _quantile_over_time(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    phi = scalar(node.args[0], at, evaluate)
    return drop_names(over_range(node.function, node.args[1], at, evaluate, phi), at)


RULES: Mapping[str, Rule] = {
    "rate": _of_range,
    "increase": _of_range,
    "delta": _of_range,
    "irate": _of_range,
    "idelta": _of_range,
    "changes": _of_range,
    "resets": _of_range,
    "avg_over_time": _of_range,
    "sum_over_time": _of_range,
    "min_over_time": _of_range,
    "max_over_time": _of_range,
    "count_over_time": _of_range,
    "present_over_time": _of_range,
    "stddev_over_time": _of_range,
    "stdvar_over_time": _of_range,
    "last_over_time": _last_over_time,
    "quantile_over_time": _quantile_over_time,
}
