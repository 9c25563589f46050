"""Aggregation operators that choose rows of each group: topk, bottomk, limitk, limit_ratio.

Chosen rows keep their labels. Which rows limit_ratio chooses depends on their labels alone: on the hash that
Prometheus takes of them, so both choose the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation
from precompute.evaluate.expr import Aggregate
from precompute.evaluate.functions.numbers import go_g
from precompute.evaluate.grouping import grouping
from precompute.evaluate.label_hash import label_hashes
from precompute.evaluate.values import Vector, nothing
from precompute.kernels import choosing as kernel
from precompute.samples import F64, I64, Bool

_LARGEST = float(2**63)

Chooser = Callable[[Aggregate, Vector, F64, Evaluation], Vector]


def _best(node: Aggregate, vector: Vector, parameter: F64, at: Evaluation) -> Vector:
    """topk and bottomk; an instant query returns them group by group, the best first."""
    k = _counts(parameter)
    if k is None:
        return nothing(len(at.times))
    frame, group = grouping(vector.frame, node.labels, node.without).groups()
    chosen, largest = np.zeros_like(vector.present), node.op == "topk"
    kernel.choose_best(vector.values, vector.present, group, len(frame), k, largest, chosen)
    best = replace(vector, present=chosen)
    if at.of_many_steps:
        return best.seen()
    values = -vector.values[:, 0] if largest else vector.values[:, 0]
    order = np.lexsort((values, group))
    return replace(best.take(order).seen(), ordered=True)


def _first(node: Aggregate, vector: Vector, parameter: F64, at: Evaluation) -> Vector:
    """limitk: of each group the first k rows, in order of shard and label hash."""
    k = _counts(parameter)
    if k is None:
        return nothing(len(at.times))
    frame, group = grouping(vector.frame, node.labels, node.without).groups()
    chosen = np.zeros_like(vector.present)
    kernel.choose_first(vector.present, group, len(frame), k, chosen)
    return replace(vector, present=chosen).seen()


def _ratio(node: Aggregate, vector: Vector, parameter: F64, at: Evaluation) -> Vector:
    """limit_ratio: a share of all rows; a negative ratio chooses those that its complement leaves."""
    if not parameter.any():
        return nothing(len(at.times))
    if np.isnan(parameter).any():
        raise ExecutionError("Ratio value is NaN")
    for wrong, limit in ((parameter.max(), 1), (parameter.min(), -1)):
        if abs(wrong) > 1 and wrong * limit > 0:
            at.notes.warn(f"ratio value should be between -1 and 1, got {go_g(float(wrong))}, capping to {limit}")
    place = (label_hashes(vector.frame) / float(2**64 - 1))[:, None]
    chosen: Bool = np.where(parameter >= 0, place < parameter, place >= 1 + np.maximum(parameter, -1))
    return replace(vector, present=vector.present & chosen).seen()


def _counts(parameter: F64) -> I64 | None:
    """k at each step, int64[s]; None where it is less than 1 everywhere. Raises ExecutionError for no int64."""
    if np.isnan(parameter).any():
        raise ExecutionError("Parameter value is NaN")
    least, most = float(parameter.min()), float(parameter.max())
    if most < 1:
        return None
    if least <= -_LARGEST:
        raise ExecutionError(f"Scalar value {_plain(least)} underflows int64")
    if most >= _LARGEST:
        raise ExecutionError(f"Scalar value {_plain(most)} overflows int64")
    return parameter.astype(np.int64)


def _plain(value: float) -> str:
    """A large number as Go's `%v` writes it: with an exponent from 1e+21 on."""
    if np.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.0f}" if abs(value) < 1e21 else go_g(float(value))


CHOOSERS: Mapping[str, Chooser] = {"topk": _best, "bottomk": _best, "limitk": _first, "limit_ratio": _ratio}
