"""Answers of different tiers at different steps, put together into one."""

from collections.abc import Sequence

import numpy as np

from precompute.evaluate.values import Frame, Scalar, Text, Value, Vector, common_symbols
from precompute.samples import Bool


def join_steps(parts: Sequence[tuple[Bool, Value]], steps: int) -> Value:
    """One value at all steps from values at disjoint sets of them; each bool[steps] tells a part's steps."""
    if len(parts) == 1 and parts[0][0].all():
        return parts[0][1]
    if any(isinstance(value, Text) for _, value in parts):
        return parts[0][1]
    if isinstance(parts[0][1], Scalar):
        joined = np.full(steps, np.nan)
        for at, value in parts:
            assert isinstance(value, Scalar)
            joined[at] = value.values
        return Scalar(joined)
    return _join_vectors([(at, value) for at, value in parts if isinstance(value, Vector)], steps)


def _join_vectors(parts: Sequence[tuple[Bool, Vector]], steps: int) -> Vector:
    names = tuple(sorted({name for _, v in parts for name in v.frame.names}))
    symbols = common_symbols([v.frame for _, v in parts])
    codes = np.concatenate([v.frame.spread(names, symbols) for _, v in parts])
    frame, row = Frame(names, codes, symbols).groups()
    values, present = np.zeros((len(frame), steps)), np.zeros((len(frame), steps), np.bool_)
    first = 0
    for at, vector in parts:
        rows = row[first : first + len(vector)]
        first += len(vector)
        where = np.ix_(rows, np.flatnonzero(at))
        values[where], present[where] = vector.values, vector.present
    return Vector(frame, values, present, np.zeros(len(frame), np.int32))
