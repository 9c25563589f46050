"""Vectors out of lists, and back, for tests of operators."""

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from precompute.clock import ManualClock
from precompute.evaluate.context import Evaluation, Features
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Frame, Vector
from precompute.head import Head
from precompute.labels import Labels, SeriesTable
from precompute.runs import SymbolTable
from precompute.selection import Index

Row = tuple[Mapping[str, str], Sequence[float | None]]
"""Labels, and the value at each step, None where there is none."""


def vector(rows: Sequence[Row], steps: int) -> Vector:
    names, symbols = tuple(sorted({name for labels, _ in rows for name in labels})), SymbolTable()
    codes = [[symbols.intern(labels.get(name, "")) for name in names] for labels, _ in rows]
    values = np.array([[0.0 if v is None else v for v in row] for _, row in rows]).reshape(len(rows), steps)
    present = np.array([[v is not None for v in row] for _, row in rows], np.bool_).reshape(len(rows), steps)
    frame = Frame(names, np.array(codes, np.int32).reshape(len(rows), len(names)), symbols)
    return Vector(frame, values, present, np.zeros(len(rows), np.int32))


def at_step(made: Vector, step: int) -> dict[Labels, float]:
    """The elements at one step; two of the same labels are an error."""
    held = [row for row in range(len(made)) if made.present[row, step]]
    out = {made.frame.labels(row): float(made.values[row, step]) for row in held}
    assert len(out) == len(held), "a label set stands twice"
    return out


def nowhere(steps: int, features: Features | None = None) -> Evaluation:
    """What operators over given vectors are evaluated against: an empty head."""
    source = HeadSource(Head(SeriesTable(), 1 << 20), Index())
    times = np.arange(steps, dtype=np.int64) * 1000
    budget = Budget(Limits(), ManualClock(), 60_000)
    return Evaluation(source, times, 300_000, budget, 0, int(times[-1]), features=features or Features())


def drawn(random: Random, metric: str, names: Sequence[str], rows: int, steps: int) -> Vector:
    """Rows of different labels, each present at some steps, values small whole numbers or special ones."""
    found: dict[Labels, Row] = {}
    for _ in range(rows):
        labels = {"__name__": metric} | {name: random.choice(("x", "y", "z", "")) for name in names}
        labels = {name: value for name, value in labels.items() if value}
        special = random.choice((0.0, 0.2))
        values = [
            None if random.random() < 0.3
            else random.choice((float("nan"), float("inf"), -0.0)) if random.random() < special
            else float(random.randint(-3, 3))
            for _ in range(steps)
        ]  # fmt: skip
        found[tuple(sorted(labels.items()))] = (labels, values)
    return vector(list(found.values()), steps)
