"""Binary operators: between scalars, a scalar and a vector, and vectors (one-to-one, many-to-one, filled)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation
from precompute.evaluate.expr import COMPARISONS, SET_OPERATORS, Binary
from precompute.evaluate.matching import Sides, included, signatures
from precompute.evaluate.names import drop_names, unique
from precompute.evaluate.sets import combine
from precompute.evaluate.values import OF_THE_METRIC, Frame, Scalar, Value, Vector, joined
from precompute.kernels import joins as kernel
from precompute.kernels.labels import group_rows
from precompute.labels import METRIC_NAME
from precompute.samples import F64, I32, Bool

BINARY_OPERATORS: dict[str, Callable[[F64, F64], F64]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod, "^": np.power,
    "atan2": np.arctan2, "==": np.equal, "!=": np.not_equal,
    ">": np.greater, "<": np.less, ">=": np.greater_equal, "<=": np.less_equal,
}  # fmt: skip


def binary(node: Binary, left: Value, right: Value, at: Evaluation) -> Value:
    """The value of a binary operator over the values of its sides. Raises ExecutionError where they do not match."""
    with np.errstate(all="ignore"):
        if isinstance(left, Scalar) and isinstance(right, Scalar):
            return Scalar(BINARY_OPERATORS[node.op](left.values, right.values).astype(np.float64))
        if isinstance(left, Vector) and isinstance(right, Scalar):
            return _with_scalar(node, left, left.values, right.values[None, :], at)
        if isinstance(left, Scalar) and isinstance(right, Vector):
            return _with_scalar(node, right, left.values[None, :], right.values, at)
        if isinstance(left, Vector) and isinstance(right, Vector):
            return combine(node, left, right) if node.op in SET_OPERATORS else _between(node, left, right, at)
    raise ExecutionError(f"operator {node.op} takes scalars and instant vectors")


def _filters(node: Binary) -> bool:
    """Whether the operator keeps values instead of making new ones."""
    return node.op in COMPARISONS and not node.bool_


def _with_scalar(node: Binary, vector: Vector, left: F64, right: F64, at: Evaluation) -> Vector:
    """A filtering comparison keeps the vector's value, whichever side it stands on, and its name."""
    result = BINARY_OPERATORS[node.op](left, right)
    if _filters(node):
        return replace(vector, present=vector.present & result.astype(np.bool_)).seen()
    return drop_names(vector.with_values(result.astype(np.float64)), at)


def _between(node: Binary, left: Vector, right: Vector, at: Evaluation) -> Vector:
    matching = node.matching
    left_signature, right_signature, count = signatures(matching, left, right)
    if matching.group == "right":
        sides = Sides(right, left, right_signature, left_signature, count)
    else:
        sides = Sides(left, right, left_signature, right_signature, count)
    sides.check(matching)
    join = _Join(node, sides, at)
    parts = [join.pairs()]
    if matching.fill_right is not None:
        parts.append(join.without_one(matching.fill_right.value, ~sides.many_met()))
    if matching.fill_left is not None:
        parts.append(join.without_many(matching.fill_left.value, ~sides.one_met()))
    return unique(joined(parts, len(at.times)))


class _Join:
    """The parts of a match between two vectors."""

    def __init__(self, node: Binary, sides: Sides, at: Evaluation) -> None:
        self._node, self._matching, self._sides, self._at = node, node.matching, sides, at

    def pairs(self) -> Vector:
        """Where both sides have a row."""
        many, (rows, one, partners) = self._sides.many, self._sides.pairs(self._matching.include, self._at.budget)
        frame = included(self._result(many.frame).take(rows), self._matching.include, one.frame, partners)
        present = many.present[rows] & one.present[partners]
        self._check_groups(frame, self._sides.many_signature[rows], present)
        return self._made(frame, many.values[rows], one.values[partners], present)

    def without_one(self, fill: float, missing: Bool) -> Vector:
        """Where a row of the many side has no partner; labels to include are none of its own then."""
        many = self._sides.many
        lost = [n for n in self._matching.include if self._matching.on or n in (METRIC_NAME, *self._matching.labels)]
        frame, present = self._result(many.frame).drop(lost), many.present & missing
        self._check_groups(frame, self._sides.many_signature, present)
        return self._made(frame, many.values, np.full_like(many.values, fill), present)

    def without_many(self, fill: float, missing: Bool) -> Vector:
        """Where a row of the one side has no partner: the labels that match, and those to include."""
        one, matching = self._sides.one, self._matching
        kept = one.frame.keep(matching.labels) if matching.on else one.frame.drop((METRIC_NAME, *matching.labels))
        frame = included(self._result(kept), matching.include, one.frame, np.arange(len(one)))
        return self._made(frame, np.full_like(one.values, fill), one.values, one.present & missing)

    def _check_groups(self, frame: Frame, signature: I32, present: Bool) -> None:
        """Raises ExecutionError where rows of one signature come to the same labels at a step, kept or not."""
        if not self._matching.group:
            return
        keys = np.concatenate((signature[:, None], frame.codes), axis=1)
        key, first = group_rows(np.ascontiguousarray(keys))
        if len(first) < len(frame) and kernel.clash(key, present, len(first)):
            raise ExecutionError("multiple matches for labels: grouping labels must ensure unique matches")

    def _result(self, frame: Frame) -> Frame:
        """The labels that a row of the many side leaves in the result."""
        matching, delayed = self._matching, self._at.features.delayed_name_removal
        if self._node.op not in COMPARISONS or (self._node.bool_ and not delayed):
            frame = frame.drop(OF_THE_METRIC)
        if matching.group:
            return frame
        return frame.keep(matching.labels) if matching.on else frame.drop(matching.labels)

    def _made(self, frame: Frame, many: F64, one: F64, present: Bool) -> Vector:
        """The operator's values where both are present; `many` and `one` are turned to left and right again."""
        left, right = (one, many) if self._matching.group == "right" else (many, one)
        result = BINARY_OPERATORS[self._node.op](left, right)
        if _filters(self._node):
            values, present = left, present & result.astype(np.bool_)
        else:
            values = result.astype(np.float64)
        made = Vector(frame, values, present, np.zeros(len(values), np.int32))
        marked = self._node.bool_ and self._at.features.delayed_name_removal
        return made.with_marks(np.full(len(made), marked)).seen()
