"""Aggregation operators over series × steps matrices.

Sums, counts, extremes, means and deviations go through the accumulators that summaries are made of, so that
both agree to the bit; the quantile is exact here.
"""

import numpy as np

from precompute.errors import Unsupported
from precompute.evaluate.expr import Aggregate
from precompute.evaluate.values import Frame, Vector
from precompute.kernels.groups import group_means, group_quantiles
from precompute.labels import METRIC_NAME
from precompute.samples import F64
from precompute.sketches.base import Vectors
from precompute.sketches.exact import COUNT
from precompute.sketches.registry import ACCUMULATORS, STATISTICS

OPERATORS = frozenset(("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "quantile"))


def aggregate(node: Aggregate, vector: Vector, parameter: F64 | None) -> Vector:
    """One row per group that has a value at some step, in order of the groups' keys.

    parameter: φ per step, float64[s], for `quantile`.
    """
    if node.op not in OPERATORS:
        raise Unsupported(f"the aggregation operator {node.op}")
    frame, group = grouping(vector.frame, node.labels, node.without).groups()
    columns = Vectors(vector.values, vector.present, group, vector.shard, len(frame))
    present = COUNT.build(columns)["n"].reshape(columns.panes, len(frame)).T > 0
    values = _values(node.op, columns, parameter)
    return Vector(frame, values, present, np.zeros(len(frame), np.int32)).seen()


def grouping(frame: Frame, labels: tuple[str, ...], without: bool) -> Frame:
    """The labels that make a group's key; `without` drops the metric name too."""
    return frame.drop((*labels, METRIC_NAME)) if without else frame.keep(labels)


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
