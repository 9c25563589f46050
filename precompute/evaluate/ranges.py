"""Functions of a range vector: windows over a selector's samples or over a subquery's steps."""

import numpy as np

from precompute.evaluate.context import Evaluate, Evaluation
from precompute.evaluate.expr import Expr, Range, Selector, Subquery
from precompute.evaluate.subquery import over_subquery
from precompute.evaluate.values import Vector
from precompute.samples import F64, I64


def over_range(
    function: str, ranged: Expr, at: Evaluation, evaluate: Evaluate, first: F64 | None = None, second: F64 | None = None
) -> Vector:
    """A range function, by its name in kernels.selectors, of a range vector; metric names are kept.

    first, second   the function's parameters at each step, float64[s]
    """
    zeros = np.zeros(len(at.times))
    parameters = np.stack((zeros if first is None else first, zeros if second is None else second))
    ends = window_ends(ranged, at)
    if _same_at_all_steps(ends, parameters):
        once = _read(function, ranged, at, evaluate, ends[:1], np.ascontiguousarray(parameters[:, :1]))
        return at_every_step(once, at)
    return _read(function, ranged, at, evaluate, ends, parameters)


def window_ends(ranged: Expr, at: Evaluation) -> I64:
    """The end of the window at each step, int64[s]: the step, moved by `offset` and `@`."""
    node = ranged.selector if isinstance(ranged, Range) else ranged
    assert isinstance(node, (Selector, Subquery)), f"{ranged} is no range vector"
    return shifted(node.offset_ms, node.at, at)


def shifted(offset_ms: int, fixed: int | str | None, at: Evaluation) -> I64:
    """The steps moved by `offset` and `@`, int64[s]."""
    if fixed is None:
        return at.times - offset_ms
    time_ms = {"start": at.start_ms, "end": at.end_ms}[fixed] if isinstance(fixed, str) else fixed
    return np.full(len(at.times), time_ms - offset_ms, np.int64)


def read_instant(selector: Selector, at: Evaluation, sample_times: bool = False) -> Vector:
    """A selector at every step: its values, or the times of its samples in seconds."""
    read = at.source.sample_times if sample_times else at.source.instant
    times = shifted(selector.offset_ms, selector.at, at)
    if selector.at is None:
        return read(selector, times, at.lookback_ms, at.budget)
    return at_every_step(read(selector, times[:1], at.lookback_ms, at.budget), at)


def at_every_step(once: Vector, at: Evaluation) -> Vector:
    """What was read at one time, at every step."""
    shape = (len(once), len(at.times))
    if shape == once.values.shape:
        return once
    at.budget.cells(*shape)
    values, present = np.broadcast_to(once.values, shape), np.broadcast_to(once.present, shape)
    return Vector(once.frame, np.ascontiguousarray(values), np.ascontiguousarray(present), once.shard, once.drop_name)


def _same_at_all_steps(ends: I64, parameters: F64) -> bool:
    if len(ends) < 2 or ends[0] != ends[-1]:
        return False
    return bool((parameters.view(np.int64) == parameters[:, :1].view(np.int64)).all())


def _read(function: str, ranged: Expr, at: Evaluation, evaluate: Evaluate, ends: I64, parameters: F64) -> Vector:
    if isinstance(ranged, Range):
        return at.source.range(function, ranged.selector, ranged.range_ms, ends, parameters, at.budget)
    assert isinstance(ranged, Subquery)
    return over_subquery(function, ranged, at, evaluate, ends, parameters)
