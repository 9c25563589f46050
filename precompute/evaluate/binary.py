"""Binary operators: scalars with scalars and vectors, and one-to-one between vectors."""

from collections.abc import Callable

import numpy as np

from precompute.errors import ExecutionError, Unsupported
from precompute.evaluate.expr import COMPARISONS, Binary, Matching
from precompute.evaluate.values import Frame, Scalar, Value, Vector, common_symbols
from precompute.kernels.labels import group_rows
from precompute.labels import METRIC_NAME
from precompute.samples import F64, I32, I64, Bool

BINARY_OPERATORS: dict[str, Callable[[F64, F64], F64]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod, "^": np.power,
    "atan2": np.arctan2, "==": np.equal, "!=": np.not_equal,
    ">": np.greater, "<": np.less, ">=": np.greater_equal, "<=": np.less_equal,
}  # fmt: skip


def binary(node: Binary, left: Value, right: Value) -> Value:
    """The value of a binary operator over the values of its sides."""
    if node.op not in BINARY_OPERATORS:
        raise Unsupported(f"the operator {node.op} between vectors")
    with np.errstate(all="ignore"):
        if isinstance(left, Scalar) and isinstance(right, Scalar):
            return Scalar(BINARY_OPERATORS[node.op](left.values, right.values).astype(np.float64))
        if isinstance(left, Vector) and isinstance(right, Scalar):
            return _with_scalar(node, left, left.values, right.values[None, :])
        if isinstance(left, Scalar) and isinstance(right, Vector):
            return _with_scalar(node, right, left.values[None, :], right.values)
        if isinstance(left, Vector) and isinstance(right, Vector):
            return _one_to_one(node, left, right)
    raise ExecutionError(f"operator {node.op} does not take strings")


def _with_scalar(node: Binary, vector: Vector, left: F64, right: F64) -> Vector:
    """A filtering comparison keeps the vector's value, whichever side it stands on, and its name."""
    result = BINARY_OPERATORS[node.op](left, right)
    if node.op in COMPARISONS and not node.bool_:
        return Vector(vector.frame, vector.values, vector.present & result.astype(np.bool_), vector.shard).seen()
    frame = vector.frame.drop((METRIC_NAME,))
    return Vector(frame, result.astype(np.float64), vector.present, vector.shard)


def _one_to_one(node: Binary, left: Vector, right: Vector) -> Vector:
    if node.matching.group:
        raise Unsupported(f"group_{node.matching.group}")
    left_rows, right_rows = _pairs(node.matching, left, right)
    present = left.present[left_rows] & right.present[right_rows]
    a, b = left.values[left_rows], right.values[right_rows]
    result = BINARY_OPERATORS[node.op](a, b)
    frame = left.frame.take(left_rows)
    if node.op in COMPARISONS and not node.bool_:
        values, present = a, present & result.astype(np.bool_)
        frame = _result_labels(node.matching, frame)
    else:
        values, frame = result.astype(np.float64), _result_labels(node.matching, frame).drop((METRIC_NAME,))
    return Vector(frame, values, present, np.zeros(len(values), np.int32)).seen()


def _pairs(matching: Matching, left: Vector, right: Vector) -> tuple[I64, I64]:
    """Rows of both sides with equal signatures. Raises ExecutionError where a signature is not unique at a step."""
    names = tuple(sorted(set(left.frame.names) | set(right.frame.names)))
    wanted = [n for n in names if (n in matching.labels) == matching.on and (matching.on or n != METRIC_NAME)]
    symbols = common_symbols((left.frame, right.frame))
    codes = np.concatenate((left.frame.spread(wanted, symbols), right.frame.spread(wanted, symbols)))
    signature, _ = group_rows(np.ascontiguousarray(codes))
    mine, theirs = signature[: len(left)], signature[len(left) :]
    met = right.present & left.present.any(axis=0)
    if _meet_twice(theirs, met):
        raise ExecutionError(
            "found duplicate series for the match group on the right hand-side of the operation"
            ";many-to-many matching not allowed: matching labels must be unique on one side"
        )
    order = np.argsort(theirs, kind="stable")
    first, last = np.searchsorted(theirs[order], mine, "left"), np.searchsorted(theirs[order], mine, "right")
    counts = last - first
    left_rows = np.repeat(np.arange(len(mine)), counts)
    nth = np.arange(len(left_rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    right_rows = order[np.repeat(first, counts) + nth]
    if _meet_twice(mine[left_rows], left.present[left_rows] & right.present[right_rows]):
        raise ExecutionError(
            "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
        )
    return left_rows, right_rows


def _meet_twice(signature: I32, present: Bool) -> bool:
    """Whether two rows of one signature are present at the same step."""
    if len(np.unique(signature)) == len(signature):
        return False
    counts = np.zeros((int(signature.max()) + 1, present.shape[1]), np.int32)
    np.add.at(counts, signature, present)
    return bool((counts > 1).any())


def _result_labels(matching: Matching, frame: Frame) -> Frame:
    return frame.keep(matching.labels) if matching.on else frame.drop(matching.labels)
