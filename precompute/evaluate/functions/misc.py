"""Between scalars and vectors, times, and what tells that there is nothing."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import EQUAL, Call, Matcher, Range, Selector
from precompute.evaluate.functions.arguments import scalar, vector
from precompute.evaluate.functions.results import one_row
from precompute.evaluate.names import drop_names
from precompute.evaluate.ranges import read_instant
from precompute.evaluate.values import Scalar, Value
from precompute.labels import METRIC_NAME
from precompute.samples import Bool


def _time(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    return Scalar(at.times / 1000)


def _timestamp(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """The sample's own time for a selector; for all else the evaluation's."""
    argument = node.args[0]
    if isinstance(argument, Selector):
        return drop_names(read_instant(argument, at, sample_times=True), at)
    value = vector(argument, at, evaluate)
    return drop_names(value.with_values(np.tile(at.times / 1000, (len(value), 1))), at)


def _pi(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    return Scalar(np.full(len(at.times), np.pi))


def _of_query(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """start, end, range and step of the whole query, in seconds, inside a subquery too; without steps, 0."""
    range_ms = at.end_ms - at.start_ms
    ms = {"start": at.start_ms, "end": at.end_ms, "range": range_ms, "step": at.step_ms if range_ms else 0}
    return Scalar(np.full(len(at.times), ms[node.function] / 1000))


def _vector(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    return one_row(scalar(node.args[0], at, evaluate))


def _scalar(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """The value of the only element at each step; NaN where there is none or are several."""
    argument = vector(node.args[0], at, evaluate)
    only = np.count_nonzero(argument.present, axis=0) == 1
    # -0.0 changes no value, not even a zero's sign
    values = np.where(argument.present & only, argument.values, -0.0).sum(axis=0, initial=-0.0)
    return Scalar(np.where(only, values, np.nan))


def _absent(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    argument = node.args[0]
    present = vector(argument, at, evaluate).present
    matchers = argument.matchers if isinstance(argument, Selector) else ()
    return _where_nothing(present, matchers)


def _absent_over_time(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    argument = node.args[0]
    present = vector(samples_of_absent(node), at, evaluate).present
    matchers = argument.selector.matchers if isinstance(argument, Range) else ()
    return _where_nothing(present, matchers)


def samples_of_absent(node: Call) -> Call:
    """The rows of which `absent_over_time` tells that there are none, as an expression that is no error."""
    return Call("last_over_time", node.args)


def _where_nothing(present: Bool, matchers: tuple[Matcher, ...]) -> Value:
    """1 at steps where no row is present, with the labels that the matchers fix."""
    fixed = {m.name: m.value for m in matchers if m.op == EQUAL and m.name != METRIC_NAME}
    alone = [name for name in fixed if sum(m.name == name for m in matchers) == 1]
    labels = {name: fixed[name] for name in alone if fixed[name]}
    return one_row(np.ones(present.shape[1]), labels, np.asarray(~present.any(axis=0)))


def _of_histograms(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """What looks at native histograms finds none among floats."""
    argument = vector(node.args[-1], at, evaluate)
    return drop_names(replace(argument, present=np.zeros_like(argument.present)).seen(), at)


RULES: Mapping[str, Rule] = {
    "time": _time,
    "timestamp": _timestamp,
    "pi": _pi,
    "start": _of_query,
    "end": _of_query,
    "range": _of_query,
    "step": _of_query,
    "vector": _vector,
    "scalar": _scalar,
    "absent": _absent,
    "absent_over_time": _absent_over_time,
    "histogram_count": _of_histograms,
    "histogram_sum": _of_histograms,
    "histogram_avg": _of_histograms,
    "histogram_stddev": _of_histograms,
    "histogram_stdvar": _of_histograms,
}
