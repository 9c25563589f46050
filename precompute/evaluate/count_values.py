"""count_values: how many rows of each group have a value, as one row per group and value."""

from decimal import Decimal

import numpy as np

from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation
from precompute.evaluate.expr import Aggregate, quoted
from precompute.evaluate.grouping import grouping
from precompute.evaluate.values import Frame, Vector, nothing
from precompute.runs import SymbolTable
from precompute.samples import F64, I64


def count_values(node: Aggregate, vector: Vector, label: str, at: Evaluation) -> Vector:
    """The counts float64[rows, s]; a row's `label` is the value as text. Raises ExecutionError for no label name."""
    if not label:
        raise ExecutionError(f"invalid label name {quoted(label)}")
    rows, steps = np.nonzero(vector.present)
    if not len(rows):
        return nothing(len(at.times))
    at.budget.samples(len(rows))
    texts, text = _texts(vector.values[rows, steps])
    if node.without and label in node.labels:
        texts, text = [""], np.zeros_like(text)
    frame, group = grouping(vector.frame.drop((label,)), node.labels, node.without).groups()
    pairs, pair = np.unique(group[rows] * np.int64(len(texts)) + text, return_inverse=True)
    at.budget.cells(len(pairs), len(at.times))
    counts = np.bincount(pair * len(at.times) + steps, minlength=len(pairs) * len(at.times))
    counts = counts.reshape(len(pairs), len(at.times))
    labelled = _labelled(frame.take(pairs // len(texts)), label, texts, pairs % len(texts))
    return Vector(labelled, counts.astype(np.float64), counts > 0, np.zeros(len(pairs), np.int32))


def value_text(value: float) -> str:
    """A value as Go's `'f'` with the fewest digits writes it."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def _texts(values: F64) -> tuple[list[str], I64]:
    """The distinct texts of values, and which of them each has; all NaN are one."""
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    distinct, place = np.unique(bits, return_inverse=True)
    return [value_text(v) for v in distinct.view(np.float64).tolist()], place


def _labelled(frame: Frame, label: str, texts: list[str], place: I64) -> Frame:
    symbols = SymbolTable()
    names = tuple(sorted({*frame.names, label}))
    codes = frame.spread(names, symbols)
    made = symbols.intern_texts(texts)
    codes[:, names.index(label)] = made[place]
    return Frame(names, codes, symbols)
