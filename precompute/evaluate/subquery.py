"""Subqueries: an expression evaluated once at all the steps that some window needs, then read in windows.

Steps lie on multiples of the subquery's step since the epoch, whatever the query's own steps are.
"""

from dataclasses import replace

import numpy as np

from precompute.evaluate.context import Evaluate, Evaluation
from precompute.evaluate.expr import Subquery
from precompute.evaluate.values import Matrix, Vector, nothing
from precompute.kernels import selectors as kernel
from precompute.samples import F64, I64


def over_subquery(
    function: str, node: Subquery, at: Evaluation, evaluate: Evaluate, ends: I64, parameters: F64
) -> Vector:
    """A range function over the windows `(end - range, end]` of a subquery; see `ranges.over_range`."""
    steps, inner = _evaluated(node, at, evaluate, ends)
    at.budget.cells(len(inner), len(ends))
    out = np.zeros((len(inner), len(ends)))
    present = np.zeros(out.shape, np.bool_)
    code = kernel.RANGE_FUNCTIONS.index(function)
    columns, held = np.ascontiguousarray(inner.values), np.ascontiguousarray(inner.present)
    kernel.column_values(steps, columns, held, ends, node.range_ms, code, parameters, out, present)
    return replace(inner, values=out, present=present, ordered=False).seen()


def subquery_samples(node: Subquery, at: Evaluation, evaluate: Evaluate, ends: I64) -> Matrix:
    """The steps of the one window that ends at `ends[0]` as each row's samples."""
    steps, inner = _evaluated(node, at, evaluate, ends)
    counts = np.count_nonzero(inner.present, axis=1)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    t_ms = np.broadcast_to(steps, inner.present.shape)[inner.present]
    return Matrix(inner.frame, starts, t_ms, inner.values[inner.present], inner.drop_name)


def inner_steps(ends: I64, range_ms: int, step_ms: int) -> tuple[I64, I64]:
    """Numbers of the first and the last multiple of the step in each window `(end - range, end]`; int64[s] each."""
    return (ends - range_ms) // step_ms + 1, ends // step_ms


def _evaluated(node: Subquery, at: Evaluation, evaluate: Evaluate, ends: I64) -> tuple[I64, Vector]:
    steps = _steps(node, at, ends)
    if not len(steps):
        return steps, nothing(0)
    inner = evaluate(node.expr, replace(at, times=steps, known=None))
    assert isinstance(inner, Vector), "the parser lets only instant vectors stand in a subquery"
    return steps, inner


def _steps(node: Subquery, at: Evaluation, ends: I64) -> I64:
    """Every multiple of the step that lies in a window, int64[u], ascending; ms."""
    step_ms = node.step_ms or at.evaluation_interval_ms
    first, last = inner_steps(ends, node.range_ms, step_ms)
    between, inside = int(last[-1] - first[0] + 1), int((last - first + 1).sum())
    at.budget.cells(1, min(between, inside))
    if between <= inside:
        return np.arange(first[0], last[-1] + 1, dtype=np.int64) * step_ms
    counts = last - first + 1
    nth = np.arange(inside) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.unique(np.repeat(first, counts) + nth) * step_ms
