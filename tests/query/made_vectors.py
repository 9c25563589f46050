"""Vectors made from rows written out, and read back bit by bit."""

from collections.abc import Mapping, Sequence

import numpy as np

from precompute.evaluate.values import Frame, Scalar, Vector
from precompute.labels import Labels, SymbolTable

Bits = int
"""A float's bits: they tell -0 from 0, and one NaN from another."""


def vector(steps: Sequence[Mapping[Labels, float]]) -> Vector:
    """What each step holds: a value for each label set that is present there. Rows in order of first sight."""
    rows = {labels: row for row, labels in enumerate(dict.fromkeys(labels for step in steps for labels in step))}
    names = tuple(sorted({name for labels in rows for name, _ in labels}))
    symbols = SymbolTable()
    codes = [[symbols.intern(dict(labels).get(name, "")) for name in names] for labels in rows]
    values, present = np.full((len(rows), len(steps)), 7.0), np.zeros((len(rows), len(steps)), np.bool_)
    for k, step in enumerate(steps):
        for labels, value in step.items():
            values[rows[labels], k], present[rows[labels], k] = value, True
    frame = Frame(names, np.array(codes, np.int32).reshape(len(rows), len(names)), symbols)
    return Vector(frame, values, present, np.zeros(len(rows), np.int32))


def bits_by_step(value: Vector | Scalar | None) -> list[dict[Labels, Bits]]:
    """The same, as bits; a label set that stands twice at a step is an error. A scalar has the empty label set."""
    if value is None:
        return []
    if isinstance(value, Scalar):
        return [{(): bits} for bits in value.values.view(np.int64).tolist()]
    out: list[dict[Labels, Bits]] = [{} for _ in range(value.values.shape[1])]
    labels = [value.frame.labels(row) for row in range(len(value))]
    for row, step in np.argwhere(value.present).tolist():
        assert labels[row] not in out[step], "a label set stands twice"
        out[step][labels[row]] = int(value.values[row, step : step + 1].view(np.int64)[0])
    return out
