"""Aggregations over many series and steps, some steps at a time, so that memory stays bounded.

A step's value depends on no other step, so the values are the same to the bit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from precompute.evaluate.context import Evaluation
from precompute.evaluate.expr import Aggregate, Expr, selectors
from precompute.evaluate.values import Frame, Scalar, Vector, common_symbols
from precompute.kernels import joins
from precompute.samples import Bool
from precompute.sketches.registry import STATISTICS

TILE_CELLS = 1 << 23
"""Series × steps of the largest selector below an aggregation that are evaluated at once: 75 MB."""

_FEWEST_STEPS = 8
_FOLDED = frozenset((*STATISTICS, "count_values"))
"""Operators whose result is small: a row for each group, or for each group and value."""


def tiles(node: Aggregate, at: Evaluation) -> Iterator[tuple[Bool, Evaluation]]:
    """The steps in stretches, each as bool[s] and as an evaluation of its own; one that is whole where that fits."""
    steps = len(at.times)
    count = -(-steps // _steps_at_once(node, at)) if steps else 1
    if count == 1:
        yield np.ones(steps, np.bool_), at
        return
    # alike in length: none is an instant query, in which sort would order the rows
    for places in np.array_split(np.arange(steps), count):
        which = np.zeros(steps, np.bool_)
        which[places] = True
        yield which, replace(at, times=at.times[which], known=at_some_steps(at.known or {}, which))


def _steps_at_once(node: Aggregate, at: Evaluation) -> int:
    if node.op not in _FOLDED or len(at.times) <= _FEWEST_STEPS:
        return len(at.times)
    rows = max((at.source.series(selector, at.budget) for selector in selectors(node.expr)), default=0)
    return max(_FEWEST_STEPS, TILE_CELLS // max(rows, 1))


def at_some_steps(known: Mapping[Expr, Vector | Scalar], which: Bool) -> dict[Expr, Vector | Scalar]:
    """Known values at the steps that bool[s] tells."""
    return {
        node: Scalar(value.values[which]) if isinstance(value, Scalar)
        else replace(value, values=value.values[:, which], present=value.present[:, which]).seen()
        for node, value in known.items()
    }  # fmt: skip


def at_all_steps(parts: Sequence[tuple[Bool, Vector]], steps: int) -> Vector:
    """One vector from vectors at disjoint steps, each bool[steps]; rows in order of their labels' texts."""
    names = tuple(sorted({name for _, v in parts for name in v.frame.names}))
    symbols = common_symbols([v.frame for _, v in parts])
    codes = np.concatenate([v.frame.spread(names, symbols) for _, v in parts])
    frame, row = Frame(names, codes, symbols).groups()
    values, present = np.zeros((len(frame), steps)), np.zeros((len(frame), steps), np.bool_)
    marks, first = np.zeros(len(frame), np.bool_), 0
    for at, vector in parts:
        rows = row[first : first + len(vector)]
        first += len(vector)
        whole = np.ascontiguousarray(vector.values), np.ascontiguousarray(vector.present)
        joins.place(rows, np.flatnonzero(at), *whole, values, present)
        marks[rows] |= vector.marks()
    return Vector(frame, values, present, np.zeros(len(frame), np.int32)).with_marks(marks)
