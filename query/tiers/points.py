"""Prometheus' JSON of a vector, matrix or scalar, read into columns.

Points are read by kernels; what is left of the text, a few labels for each series, by the ordinary parser.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Frame, Scalar, Vector, nothing
from precompute.kernels.labels import group_rows
from precompute.runs import SymbolTable
from precompute.samples import F64, I64, U8, Bool
from query.kernels import points as kernel

_STRING_BYTES, _CONTAINER_BYTES, _ITEM_BYTES = 75, 72, 32
"""What the ordinary parser takes in memory: for each quote, bracket and comma."""
_PLACE = re.compile(r" \([0-9]+:[0-9]+\)$")
_PLACEHOLDER_BYTES = 21


class OddAnswer(Exception):
    """A body that is no answer of the Prometheus API, or not to what was asked; the text completes "answered with"."""


class NoFloats(Exception):
    """An answer with values that are no floats; the text says which."""


@dataclass(frozen=True)
class Wanted:
    """What was asked for: a value at these times, int64[s], which are some of `times[0] + k × step_ms`."""

    times: I64
    step_ms: int
    scalar: bool
    ranged: bool
    """Whether it was asked for as a range query, whose answer is a matrix in any case."""

    def columns(self) -> I64:
        """Per step of the grid its place among the times, or -1; int64[g]."""
        behind = (self.times - self.times[0]) // self.step_ms
        columns = np.full(int(behind[-1]) + 1, -1, np.int64)
        columns[behind] = np.arange(len(behind))
        return columns

    @property
    def kind(self) -> str:
        return "matrix" if self.ranged else "scalar" if self.scalar else "vector"


@dataclass(frozen=True)
class Read:
    """An answer's value, and the notes beside it."""

    value: Vector | Scalar
    warnings: tuple[str, ...]
    infos: tuple[str, ...]


def read_answer(body: bytes, wanted: Wanted, budget: Budget) -> Read:
    """Raises OddAnswer, NoFloats, and LimitExceeded before what is read takes more memory than a query may."""
    text, lists = cut(body)
    answer = _parsed(text, budget)
    data = answer.get("data")
    if answer.get("status") != "success" or not isinstance(data, dict) or data.get("resultType") != wanted.kind:
        raise OddAnswer(f"no {wanted.kind}")
    series = data.get("result")
    if wanted.kind == "scalar":
        return Read(_scalar(series, wanted), *_notes(answer))
    if not isinstance(series, list) or not _all_in_order(series, "values" if wanted.ranged else "value", len(lists)):
        raise OddAnswer("series that are none")
    vector = _vector(body, lists, [one["metric"] for one in series], wanted, budget)
    return Read(_only_row(vector) if wanted.scalar else vector, *_notes(answer))


def cut(body: bytes) -> tuple[bytes, I64]:
    """The text with a number in place of each list of points, and where those lay, int64[n, 2]."""
    most = body.count(b'"value"') + body.count(b'"values"')
    starts, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    out = np.empty(len(body) + _PLACEHOLDER_BYTES * most, np.uint8)
    found, written = kernel.cut_points(np.frombuffer(body, np.uint8), out, starts, ends)
    return out[:written].tobytes(), np.stack((starts[:found], ends[:found]), axis=1)


def _parsed(text: bytes, budget: Budget) -> Mapping[str, Any]:
    budget.text(
        _STRING_BYTES * text.count(b'"') + _ITEM_BYTES * text.count(b",")
        + _CONTAINER_BYTES * (text.count(b"{") + text.count(b"["))
    )  # fmt: skip
    try:
        answer = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise OddAnswer("no JSON") from None
    if not isinstance(answer, dict):
        raise OddAnswer("no object")
    return answer


def _all_in_order(series: Sequence[Any], key: str, lists: int) -> bool:
    """Whether these are series, each with the list of points that was cut out of it. Raises NoFloats."""
    for number, one in enumerate(series):
        if not isinstance(one, dict) or not _is_labels(one.get("metric")):
            return False
        if "histogram" in one or "histograms" in one:
            raise NoFloats("native histograms")
        # a number that stood in the text itself is a bool's or float's neighbour, or out of order
        if one.get(key) != number or type(one[key]) is not int:
            return False
    return len(series) == lists


def _is_labels(labels: Any) -> bool:
    return isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())


def _vector(
    body: bytes, lists: I64, metrics: Sequence[Mapping[str, str]], wanted: Wanted, budget: Budget
) -> Vector:  # fmt: skip
    if not metrics:
        return nothing(len(wanted.times))
    frame = _frame(metrics, budget)
    if len(group_rows(frame.codes)[1]) < len(frame):
        raise OddAnswer("a series twice")
    budget.cells(len(frame), len(wanted.times))
    values, present = _points(np.frombuffer(body, np.uint8), lists, wanted)
    return Vector(frame, values, present, np.zeros(len(frame), np.int32)).seen()


def _frame(metrics: Sequence[Mapping[str, str]], budget: Budget) -> Frame:
    names = tuple(sorted({name for labels in metrics for name in labels}))
    budget.cells(len(metrics), len(names))
    symbols = SymbolTable()
    codes = np.empty((len(metrics), len(names)), np.int32)
    for k, name in enumerate(names):
        codes[:, k] = symbols.intern_texts(labels.get(name, "") for labels in metrics)
    return Frame(names, codes, symbols)


def _points(text: U8, lists: I64, wanted: Wanted) -> tuple[F64, Bool]:
    """values float64[n, s], present bool[n, s]."""
    shape, room, left = (len(lists), len(wanted.times)), 64, 0
    while True:
        values, present = np.zeros(shape), np.zeros(shape, np.bool_)
        undecided = np.empty((room, 4), np.int64)
        came_to, left = kernel.read_points(
            text, lists[:, 0].copy(), lists[:, 1].copy(), wanted.ranged, int(wanted.times[0]), wanted.step_ms,
            wanted.columns(), values, present, undecided,
        )  # fmt: skip
        if came_to != kernel.READ:
            raise OddAnswer(_WRONG[came_to])
        if left <= room:
            break
        room = left
    for row, column, first, last in undecided[:left].tolist():
        values[row, column] = _slowly(text[first:last].tobytes())
    return values, present


_WRONG = {kernel.ODD: "points that are none", kernel.OFF_GRID: "a time that was not asked for",
          kernel.TWICE: "two values at one time"}  # fmt: skip


def _slowly(text: bytes) -> float:
    """A number that the kernel could not round."""
    value = float(text)
    if np.isinf(value):
        raise OddAnswer("a value beyond all floats")
    return value


def _scalar(point: Any, wanted: Wanted) -> Scalar:
    """The one point of a scalar, read with the vectors' rules."""
    text = orjson.dumps(point)
    values, _ = _points(np.frombuffer(text, np.uint8), np.array([[0, len(text)]], np.int64), wanted)
    return Scalar(values[0])


def _only_row(vector: Vector) -> Scalar:
    if len(vector) != 1 or not vector.present.all():
        raise OddAnswer("a scalar that is not there at every step")
    return Scalar(vector.values[0])


def _notes(answer: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Warnings and infos, without their place in the text: that is the part's, not the query's."""
    both = []
    for name in ("warnings", "infos"):
        texts = answer.get(name) or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise OddAnswer(f"{name} that are none")
        both.append(tuple(_PLACE.sub("", text) for text in texts))
    return both[0], both[1]
