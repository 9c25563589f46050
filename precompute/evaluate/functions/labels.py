"""label_replace and label_join: a label made anew from others, once for each distinct text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from precompute.errors import BadExpression, ExecutionError
from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import Call
from precompute.evaluate.functions.arguments import text, vector
from precompute.evaluate.functions.expand import Template
from precompute.evaluate.functions.results import with_label
from precompute.evaluate.names import unique
from precompute.evaluate.values import Frame, Value, Vector
from precompute.kernels.labels import group_rows
from precompute.labels import METRIC_NAME
from precompute.matchers import compile_regex
from precompute.samples import I32, Bool


def _label_replace(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """`dst` becomes the replacement, with the expression's groups in it, where all of `src` matches."""
    dst, replacement, src, pattern = (text(arg, at, evaluate) for arg in node.args[1:])
    try:
        regex = compile_regex(pattern)
    except BadExpression:
        raise ExecutionError(f"invalid regular expression in label_replace(): {pattern}") from None
    if not dst:
        raise ExecutionError("invalid destination label name in label_replace(): ")
    template = Template(replacement, regex)
    argument = vector(node.args[0], at, evaluate)
    place, sources = _distinct(argument.frame, (src,))
    matched = np.zeros(len(sources), np.bool_)
    made = []
    for k, (source,) in enumerate(sources):
        match = regex.fullmatch(source)
        matched[k] = match is not None
        made.append(_joined("", [] if match is None else template.pieces(match), at))
    return _relabelled(argument, dst, matched[place], made, place)


def _label_join(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """`dst` becomes the values of the source labels with the separator between them."""
    dst, separator, *sources = (text(arg, at, evaluate) for arg in node.args[1:])
    if "" in sources:
        raise ExecutionError("invalid source label name in label_join(): ")
    if not dst:
        raise ExecutionError("invalid destination label name in label_join(): ")
    argument = vector(node.args[0], at, evaluate)
    place, rows = _distinct(argument.frame, sources)
    made = [_joined(separator, pieces, at) for pieces in rows]
    return _relabelled(argument, dst, np.ones(len(argument), np.bool_), made, place)


def _joined(separator: str, pieces: list[str], at: Evaluation) -> str:
    """One text; what it takes is told to the budget before it is made."""
    at.budget.text(len(separator) * len(pieces) + sum(map(len, pieces)))
    return separator.join(pieces)


def _distinct(frame: Frame, names: Sequence[str]) -> tuple[I32, list[list[str]]]:
    """The distinct combinations of these labels' values, and which of them each row has, int32[n]."""
    codes = frame.spread(names, frame.symbols)
    group, first = group_rows(np.ascontiguousarray(codes))
    return group, [frame.symbols.texts(row) for row in codes[first].tolist()]


def _relabelled(argument: Vector, dst: str, rows: Bool, texts: Sequence[str], place: I32) -> Vector:
    """The rows with `dst` set in some of them. Raises ExecutionError where two become one at a step."""
    relabelled = argument.with_frame(with_label(argument.frame, dst, rows, texts, place))
    if dst == METRIC_NAME and argument.drop_name is not None:
        relabelled = replace(relabelled, drop_name=argument.drop_name & ~rows)
    return unique(relabelled)


RULES: Mapping[str, Rule] = {"label_replace": _label_replace, "label_join": _label_join}
