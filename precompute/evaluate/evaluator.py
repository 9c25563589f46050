"""The evaluator: an expression over columns, for queries and panes alike.

An instant query is a range query of one step, and a pane is a step. Each node is evaluated once, for all steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from precompute.errors import ExecutionError, Unsupported
from precompute.evaluate.aggregate import OPERATORS, aggregate
from precompute.evaluate.binary import BINARY_OPERATORS, binary
from precompute.evaluate.expr import (
    SET_OPERATORS,
    Aggregate,
    Binary,
    Call,
    Expr,
    Negate,
    Number,
    Range,
    Selector,
    String,
    walk,
)  # fmt: skip
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Scalar, Text, Value, Vector
from precompute.kernels.labels import group_rows
from precompute.kernels.selectors import RANGE_FUNCTIONS
from precompute.samples import F64, I64


class Source(Protocol):
    """Where selectors are read from. Rows come in order of shard and label hash, none without a value."""

    def instant(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        """The selector at the given times (int64[s], ascending, ms); its offset and @ are already in them."""

    def range(
        self, function: str, selector: Selector, range_ms: int, times: I64, parameter: F64, budget: Budget
    ) -> Vector:
        """A range function of the selector over `(time - range, time]`; metric names are kept."""


@dataclass(frozen=True)
class Evaluation:
    """What an expression is evaluated against."""

    source: Source
    times: I64
    """Steps, int64[s], ascending, ms."""
    lookback_ms: int
    budget: Budget
    start_ms: int
    end_ms: int
    """What `@ start()` and `@ end()` mean."""
    known: Mapping[Expr, Vector] | None = None
    """Sub-expressions whose values are already there, at the same steps."""


def unsupported(expr: Expr) -> str | None:
    """The first feature in `expr` that `evaluate` does not know; None if it knows all."""
    for node in walk(expr):
        if isinstance(node, Call) and node.function not in RANGE_FUNCTIONS:
            return f"the function {node.function}"
        if isinstance(node, Aggregate) and node.op not in OPERATORS:
            return f"the aggregation operator {node.op}"
        if isinstance(node, Binary) and node.op not in BINARY_OPERATORS:
            return f"the operator {node.op}"
        if isinstance(node, Binary) and node.matching.group:
            return f"group_{node.matching.group}"
    return None


def evaluate(expr: Expr, at: Evaluation) -> Value:
    """The value of an expression at every step. Raises QueryError's kinds."""
    if at.known is not None and expr in at.known:
        return at.known[expr]
    at.budget.check_time()
    return _RULES[type(expr)](expr, at)


def _number(node: Number, at: Evaluation) -> Value:
    return Scalar(np.full(len(at.times), node.value))


def _string(node: String, at: Evaluation) -> Value:
    return Text(node.value)


def _selector(node: Selector, at: Evaluation) -> Value:
    return _shifted(node, at, lambda times: at.source.instant(node, times, at.lookback_ms, at.budget))


def _call(node: Call, at: Evaluation) -> Value:
    if node.function not in RANGE_FUNCTIONS:
        raise Unsupported(f"the function {node.function}")
    ranged = next(arg for arg in node.args if isinstance(arg, Range))
    parameter = _parameter(node.args[0] if node.args[0] is not ranged else None, at)

    def read(times: I64) -> Vector:
        per_time = parameter[:1] if len(times) < len(at.times) else parameter
        return at.source.range(node.function, ranged.selector, ranged.range_ms, times, per_time, at.budget)

    vector = _shifted(ranged.selector, at, read)
    return vector if node.function == "last_over_time" else unique(vector.without_name())


def _aggregate(node: Aggregate, at: Evaluation) -> Value:
    vector = evaluate(node.expr, at)
    if not isinstance(vector, Vector):
        raise ExecutionError(f"{node.op} takes an instant vector")
    return aggregate(node, vector, None if node.parameter is None else _parameter(node.parameter, at))


def _binary(node: Binary, at: Evaluation) -> Value:
    if node.op in SET_OPERATORS:
        raise Unsupported(f"the operator {node.op}")
    value = binary(node, evaluate(node.left, at), evaluate(node.right, at))
    return unique(value) if isinstance(value, Vector) else value


def _negate(node: Negate, at: Evaluation) -> Value:
    value = evaluate(node.expr, at)
    if isinstance(value, Scalar):
        return Scalar(-value.values)
    if isinstance(value, Vector):
        named = value.without_name()
        return unique(Vector(named.frame, -named.values, named.present, named.shard))
    raise ExecutionError("unary minus does not take strings")


_RULES: dict[type, Callable[[Any, Evaluation], Value]] = {
    Number: _number, String: _string, Selector: _selector, Call: _call,
    Aggregate: _aggregate, Binary: _binary, Negate: _negate,
}  # fmt: skip


def _parameter(expr: Expr | None, at: Evaluation) -> F64:
    """A scalar argument at each step, float64[s]; zeros where there is none."""
    if expr is None:
        return np.zeros(len(at.times))
    value = evaluate(expr, at)
    if not isinstance(value, Scalar):
        raise ExecutionError("a parameter must be a scalar")
    return value.values


def _shifted(selector: Selector, at: Evaluation, read: Callable[[I64], Vector]) -> Vector:
    """Read at the times that offset and @ name; a fixed time is read once and stands at every step."""
    if selector.at is None:
        return read(at.times - selector.offset_ms)
    fixed = {"start": at.start_ms, "end": at.end_ms}.get(selector.at) if isinstance(selector.at, str) else selector.at
    assert fixed is not None
    once = read(np.array([fixed - selector.offset_ms], np.int64))
    shape = (len(once), len(at.times))
    at.budget.cells(*shape)
    values, present = np.broadcast_to(once.values, shape), np.broadcast_to(once.present, shape)
    return Vector(once.frame, np.ascontiguousarray(values), np.ascontiguousarray(present), once.shard)


def unique(vector: Vector) -> Vector:
    """Rows of equal labels made one. Raises ExecutionError where two of them are present at one step."""
    group, first = group_rows(np.ascontiguousarray(vector.frame.codes))
    if len(first) == len(vector):
        return vector
    steps = vector.values.shape[1]
    counts = np.zeros((len(first), steps), np.int32)
    np.add.at(counts, group, vector.present)
    if (counts > 1).any():
        raise ExecutionError("vector cannot contain metrics with the same labelset")
    values = np.zeros((len(first), steps))
    np.add.at(values, group, np.where(vector.present, vector.values, 0.0))
    return Vector(vector.frame.take(first), values, counts > 0, vector.shard[first])
