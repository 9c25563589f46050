"""Aggregation operators over series × steps matrices.

Sums, counts, extremes, means and deviations go through the accumulators that summaries are made of, so that
both agree to the bit; the quantile is exact here. What chooses rows is in choose.py, count_values in its own file.
"""

import numpy as np

from precompute.evaluate.choose import CHOOSERS
from precompute.evaluate.context import Evaluation
from precompute.evaluate.expr import Aggregate
from precompute.evaluate.functions.histograms import warn_of_quantiles
from precompute.evaluate.grouping import grouping
from precompute.evaluate.values import Vector
from precompute.kernels import joins
from precompute.kernels.groups import group_means, group_quantiles
from precompute.samples import F64, I32, Bool
from precompute.sketches.base import Vectors
from precompute.sketches.registry import STATISTICS, accumulator

OPERATORS = frozenset((*STATISTICS, *CHOOSERS, "count_values"))
EXPERIMENTAL = frozenset(("limitk", "limit_ratio"))


def aggregate(node: Aggregate, vector: Vector, parameter: F64 | None, at: Evaluation) -> Vector:
    """One row per group that has a value at some step, in order of the groups' keys; or the rows that are chosen.

    parameter: k, ratio or φ per step, float64[s]. Raises ExecutionError for one that cannot be.
    """
    if node.op in CHOOSERS:
        assert parameter is not None, "the parser asks for it"
        return CHOOSERS[node.op](node, vector, parameter, at)
    if parameter is not None:
        warn_of_quantiles(_extremes(parameter), at)
    frame, group = grouping(vector.frame, node.labels, node.without).groups()
    present = joins.there(group, vector.present, len(frame))
    values = _values(node.op, vector, group, len(frame), parameter, at)
    made = Vector(frame, values, present, np.zeros(len(frame), np.int32))
    return made.with_marks(_marks(vector, group, len(frame))).seen()


def _extremes(parameter: F64) -> F64:
    """What an operator is warned of, unlike a function: NaN, else the largest and the smallest of all steps."""
    return np.array([np.nan] if np.isnan(parameter).any() else [parameter.max(), parameter.min()])


def _marks(vector: Vector, group: I32, groups: int) -> Bool:
    """A group's name goes if that of one of its rows does, bool[groups]."""
    marks = np.zeros(groups, np.bool_)
    marks[group[vector.marks()]] = True
    return marks


def _quantiles(vector: Vector, group: I32, groups: int, phi: F64, at: Evaluation) -> F64:
    out = np.full((groups, len(phi)), np.nan)
    at.source.spread(
        lambda begin, end: group_quantiles(vector.values, vector.present, group, phi, begin, end, out), len(phi)
    )
    return out


def _values(op: str, vector: Vector, group: I32, groups: int, parameter: F64 | None, at: Evaluation) -> F64:
    if op == "quantile":
        assert parameter is not None
        return _quantiles(vector, group, groups, parameter, at)
    statistic = STATISTICS[op]
    columns = Vectors(vector.values, vector.present, group, vector.shard, groups)
    states = {name: accumulator(name).build(columns) for name in statistic.needs}
    steps = vector.values.shape[1]
    values = statistic.estimate(states, 0.0).reshape(steps, groups).T
    covered = statistic.covered(states).reshape(steps, groups).T
    if op == "avg" and not covered.all():
        return np.where(covered, values, group_means(vector.values, vector.present, group, groups))
    return np.ascontiguousarray(values)
