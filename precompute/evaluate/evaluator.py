"""The evaluator: an expression over columns, for queries and panes alike.

An instant query is a range query of one step, and a pane is a step. Each node is evaluated once, for all steps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from precompute.errors import ExecutionError, Unsupported
from precompute.evaluate.aggregate import EXPERIMENTAL as EXPERIMENTAL_OPERATORS
from precompute.evaluate.aggregate import OPERATORS, aggregate
from precompute.evaluate.binary import binary
from precompute.evaluate.context import Evaluation, Features
from precompute.evaluate.count_values import count_values
from precompute.evaluate.expr import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Negate,
    Number,
    Range,
    Selector,
    String,
    Subquery,
    walk,
)  # fmt: skip
from precompute.evaluate.functions import EXPERIMENTAL, FUNCTIONS
from precompute.evaluate.functions.arguments import scalar, text, vector
from precompute.evaluate.functions.over_time import note_known
from precompute.evaluate.names import drop_names, removed
from precompute.evaluate.ranges import read_instant, window_ends
from precompute.evaluate.subquery import subquery_samples
from precompute.evaluate.tiles import at_all_steps, tiles
from precompute.evaluate.values import Matrix, Scalar, Text, Value, Vector

_FLAG = "--enable-feature=promql-experimental-functions"


def unsupported(expr: Expr) -> str | None:
    """The first feature in `expr` that `evaluate` does not know; None if it knows all."""
    for node in walk(expr):
        if isinstance(node, Call) and node.function not in FUNCTIONS:
            return f"the function {node.function}"
        if isinstance(node, Aggregate) and node.op not in OPERATORS:
            return f"the aggregation operator {node.op}"
    return None


def disabled(expr: Expr, features: Features) -> str | None:
    """Prometheus' message about the first experimental part of `expr`, where those are off; None if there is none."""
    if features.experimental_functions:
        return None
    for node in walk(expr):
        if isinstance(node, Call) and node.function in EXPERIMENTAL:
            return f'function "{node.function}" is not enabled'
        if isinstance(node, Aggregate) and node.op in EXPERIMENTAL_OPERATORS:
            return f"{node.op}() is experimental and must be enabled with {_FLAG}"
        if isinstance(node, Binary) and node.matching.fills:
            return "binop fill modifiers are experimental and not enabled"
    return None


def result(expr: Expr, at: Evaluation) -> Value:
    """The value of a whole query: `evaluate`, and then the names that were marked to go."""
    value = evaluate(expr, at)
    return removed(value) if isinstance(value, (Vector, Matrix)) else value


def evaluate(expr: Expr, at: Evaluation) -> Value:
    """The value of an expression at every step. Raises QueryError's kinds."""
    if at.known is not None and expr in at.known:
        note_known(expr, at.known[expr], at)
        return at.known[expr]
    at.budget.check_time()
    if at.trace is not None:
        return at.trace.measured(expr, at.budget, lambda: _RULES[type(expr)](expr, at))
    return _RULES[type(expr)](expr, at)


def _number(node: Number, at: Evaluation) -> Value:
    return Scalar(np.full(len(at.times), node.value))


def _string(node: String, at: Evaluation) -> Value:
    return Text(node.value)


def _range(node: Range, at: Evaluation) -> Value:
    end_ms = int(window_ends(node, at)[0])
    return at.source.samples(node.selector, node.range_ms, end_ms, at.budget)


def _subquery(node: Subquery, at: Evaluation) -> Value:
    return subquery_samples(node, at, evaluate, window_ends(node, at)[:1])


def _call(node: Call, at: Evaluation) -> Value:
    if node.function not in FUNCTIONS:
        raise Unsupported(f"the function {node.function}")
    return FUNCTIONS[node.function](node, at, evaluate)


def _aggregate(node: Aggregate, at: Evaluation) -> Value:
    parts = [(steps, _aggregated(node, here)) for steps, here in tiles(node, at)]
    return parts[0][1] if len(parts) == 1 else at_all_steps(parts, len(at.times))


def _aggregated(node: Aggregate, at: Evaluation) -> Vector:
    operand = vector(node.expr, at, evaluate)
    if node.op == "count_values":
        assert node.parameter is not None, "the parser asks for it"
        return count_values(node, operand, text(node.parameter, at, evaluate), at)
    return aggregate(node, operand, None if node.parameter is None else scalar(node.parameter, at, evaluate), at)


def _binary(node: Binary, at: Evaluation) -> Value:
    return binary(node, evaluate(node.left, at), evaluate(node.right, at), at)


def _negate(node: Negate, at: Evaluation) -> Value:
    value = evaluate(node.expr, at)
    if isinstance(value, Scalar):
        return Scalar(-value.values)
    if isinstance(value, Vector):
        return drop_names(value.with_values(-value.values), at)
    raise ExecutionError("unary minus does not take strings")


_RULES: dict[type, Callable[[Any, Evaluation], Value]] = {
    Number: _number, String: _string, Selector: read_instant, Range: _range, Subquery: _subquery, Call: _call,
    Aggregate: _aggregate, Binary: _binary, Negate: _negate,
}  # fmt: skip
