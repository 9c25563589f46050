"""Orders that a query asks for: by value, or by labels in natural order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import Call
from precompute.evaluate.functions.arguments import text, vector
from precompute.evaluate.order import label_order, natural_ranks
from precompute.evaluate.values import Frame, Value, Vector
from precompute.samples import I64

INEFFECTIVE = "sort is ineffective for range queries since results are always ordered by labels"


def _sort(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """By value, NaN last in both directions."""
    argument = vector(node.args[0], at, evaluate)
    if _many_steps(at):
        return argument
    argument = argument.seen()
    values = argument.values[:, 0] if len(at.times) else np.zeros(len(argument))
    key = -values if node.function == "sort_desc" else values
    return _in_order(argument, np.lexsort((key, np.isnan(values))))


def _sort_by_label(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """By the values of the named labels, then by the whole label sets."""
    argument = vector(node.args[0], at, evaluate)
    names = [text(arg, at, evaluate) for arg in node.args[1:]]
    if _many_steps(at):
        return argument
    order = _by_labels(argument.frame, names)
    return _in_order(argument, order[::-1] if node.function == "sort_by_label_desc" else order)


def _many_steps(at: Evaluation) -> bool:
    if at.of_many_steps:
        at.notes.warn(INEFFECTIVE)
    return at.of_many_steps


def _in_order(argument: Vector, rows: I64) -> Vector:
    return replace(argument.take(rows), shard=np.zeros(len(rows), np.int32), ordered=True)


def _by_labels(frame: Frame, names: Sequence[str]) -> I64:
    whole = np.empty(len(frame), np.int64)
    whole[label_order(frame)] = np.arange(len(frame))
    codes = frame.spread(names, frame.symbols)
    keys = [whole]
    for column in codes.T[::-1]:
        distinct, place = np.unique(column, return_inverse=True)
        keys.append(natural_ranks(frame.symbols.texts(distinct.tolist()))[place])
    return np.lexsort(keys)


RULES: Mapping[str, Rule] = {
    "sort": _sort,
    "sort_desc": _sort,
    "sort_by_label": _sort_by_label,
    "sort_by_label_desc": _sort_by_label,
}
