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
from precompute.sketches.registry import ACCUMULATORS, STATISTICS

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
    columns = Vectors(vector.values, vector.present, group, vector.shard, len(frame))
    present = joins.there(group, vector.present, len(frame))
    values = _values(node.op, columns, parameter)
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


def _values(op: str, columns: Vectors, parameter: F64 | None) -> F64:
    values, present, group, groups = columns.values, columns.present, columns.group, columns.groups
    if op == "quantile":
        assert parameter is not None
        return np.asarray(group_quantiles(values, present, group, groups, parameter))
    statistic = STATISTICS[op]
    states = {name: ACCUMULATORS[name].build(columns) for name in statistic.needs}
    estimates = statistic.estimate(states, 0.0).reshape(columns.panes, groups).T
    covered = statistic.covered(states).reshape(columns.panes, groups).T
    if op == "avg" and not covered.all():
        return np.where(covered, estimates, group_means(values, present, group, groups))
    return np.ascontiguousarray(estimates)
