"""Where metric names go: at once, or, as a feature, at the end of the query."""

from dataclasses import replace

import numpy as np

from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation
from precompute.evaluate.values import Matrix, Vector
from precompute.kernels import joins
from precompute.kernels.labels import group_rows

SAME_LABELS = "vector cannot contain metrics with the same labelset"


def drop_names(vector: Vector, at: Evaluation) -> Vector:
    """What every function does whose values are no longer the metric's.

    Raises ExecutionError where two rows become one at a step; with delayed removal that is judged at the end.
    """
    if at.features.delayed_name_removal:
        return replace(vector, drop_name=np.ones(len(vector), np.bool_))
    return unique(vector.without_names())


def drop_names_of_ranges(vector: Vector, at: Evaluation) -> Vector:
    """The same for functions of a range vector, which never make one row of two.

    Raises ExecutionError where two rows have equal labels, at whatever steps, as Prometheus does (engine.go, eval of
    a Call with a matrix argument).
    """
    if at.features.delayed_name_removal:
        return drop_names(vector, at)
    bare = vector.without_names()
    if len(group_rows(np.ascontiguousarray(bare.frame.codes))[1]) < len(bare):
        raise ExecutionError(SAME_LABELS)
    return bare


def removed(value: Vector | Matrix) -> Vector | Matrix:
    """The rows without the names that were marked to go. Raises ExecutionError as `drop_names`."""
    if value.drop_name is None or not value.drop_name.any():
        return value
    bare = replace(value, frame=value.frame.blank_names(value.drop_name), drop_name=None)
    if isinstance(bare, Vector):
        return unique(bare)
    if len(group_rows(np.ascontiguousarray(bare.frame.codes))[1]) < len(bare):
        raise ExecutionError(SAME_LABELS)
    return bare


def unique(vector: Vector) -> Vector:
    """Rows of equal labels made one. Raises ExecutionError where two of them are present at one step."""
    group, first = group_rows(np.ascontiguousarray(vector.frame.codes))
    if len(first) == len(vector):
        return vector
    if joins.clash(group, vector.present, len(first)):
        raise ExecutionError(SAME_LABELS)
    values, present = joins.merged(group, vector.values, vector.present, len(first))
    return replace(vector.take(first), values=values, present=present)
