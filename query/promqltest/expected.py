"""What an evaluation must come to, and how results are compared with it.

Numbers may differ by 1e-6 of their sum; NaN equals NaN, but a staleness marker only another one.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from precompute.evaluate.values import Matrix, Scalar, Text, Value, Vector
from precompute.labels import Labels
from precompute.samples import STALE_BITS
from query.promqltest.notation import Series

_CLOSE = 1e-6
_SMALLEST_NORMAL = 2.2250738585072014e-308
_POSITION = re.compile(r" \(\d+:\d+\)$")
_ESCAPED_POSITION = re.compile(r" \\\(.*\\\)$")

Points = Mapping[int, float]
"""Values by time in ms."""


@dataclass(frozen=True)
class Grid:
    """The times of an evaluation, ms; step 0 for one time."""

    start_ms: int
    end_ms: int
    step_ms: int


@dataclass(frozen=True)
class Note:
    """A text that a warning, an info or an error must be; without positions, which the parser does not give."""

    kind: str
    """"msg", "regex", or "" for any text."""
    text: str

    def matches(self, actual: str) -> bool:
        if self.kind == "regex":
            return re.search(_ESCAPED_POSITION.sub("", self.text), actual) is not None
        return not self.kind or _POSITION.sub("", self.text) == actual


@dataclass(frozen=True)
class Expectation:
    """The lines below an evaluation."""

    grid: Grid = Grid(0, 0, 0)
    """The times of the values of the expected series."""
    series: tuple[Series, ...] = ()
    number: float | None = None
    string: str | None = None
    samples: bool = False
    """Whether an instant query returns a range vector."""
    notes: Mapping[str, tuple[Note, ...]] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        return "fail" in self.notes

    @property
    def ordered(self) -> bool:
        return "ordered" in self.notes

    @property
    def histograms(self) -> bool:
        return any(one.histograms for one in self.series)

    def with_old_form(self, word: str | None) -> "Expectation":
        """As `eval_fail` and the like say."""
        return self.noting(word, "", "") if word else self

    def noting(self, what: str, kind: str, text: str) -> "Expectation":
        return replace(self, notes={**self.notes, what: (*self.notes.get(what, ()), Note(kind, text))})

    def samples_on(self, grid: Grid) -> "Expectation":
        return replace(self, grid=grid, samples=True)

    def text(self, string: str) -> "Expectation":
        return replace(self, string=string)

    def scalar(self, number: float) -> "Expectation":
        return replace(self, number=number)

    def with_series(self, one: Series) -> "Expectation":
        return replace(self, series=(*self.series, one))

    def points(self) -> dict[Labels, Points]:
        """The expected values of each series."""
        step_ms = self.grid.step_ms
        return {
            one.labels: {self.grid.start_ms + k * step_ms: v for k, v in enumerate(one.values) if v is not None}
            for one in self.series
        }


def difference(expected: Expectation, value: Value, times: Sequence[int]) -> str:
    """Why a value at some times is not the expected one; empty if it is."""
    if isinstance(value, Text):
        return "" if value.value == expected.string else f"{value.value!r} instead of {expected.string!r}"
    if isinstance(value, Scalar) and not expected.grid.step_ms:
        return _scalar_difference(expected, float(value.values[0]))
    if expected.number is not None:
        return "a vector instead of a number"
    actual = points_of(value, times)
    wrong = series_difference(expected.points(), actual)
    if not wrong and expected.ordered and [one.labels for one in expected.series] != list(actual):
        return f"the order is {list(actual)}"
    return wrong


def _scalar_difference(expected: Expectation, value: float) -> str:
    if expected.number is None:
        return f"the number {value} instead of a vector"
    return "" if close(expected.number, value) else f"{value} instead of {expected.number}"


def series_difference(expected: Mapping[Labels, Points], actual: Mapping[Labels, Points]) -> str:
    for labels in actual.keys() | expected.keys():
        if labels not in expected:
            return f"unexpected {dict(labels)} {dict(actual[labels])}"
        if labels not in actual:
            return f"missing {dict(labels)} {dict(expected[labels])}"
        mine, theirs = actual[labels], expected[labels]
        if mine.keys() != theirs.keys() or not all(close(theirs[t], mine[t]) for t in mine):
            return f"{dict(labels)} is {dict(mine)} instead of {dict(theirs)}"
    return ""


def points_of(value: Vector | Matrix | Scalar, times: Sequence[int]) -> dict[Labels, Points]:
    """The values of each series, in order of the rows; those without any are left out. A scalar has no labels."""
    if isinstance(value, Scalar):
        return {(): dict(zip(times, value.values.tolist(), strict=True))}
    out: dict[Labels, Points] = {}
    for row in range(len(value)):
        if isinstance(value, Matrix):
            span = slice(value.starts[row], value.starts[row + 1])
            points = dict(zip(value.t_ms[span].tolist(), value.values[span].tolist(), strict=True))
        else:
            points = {times[k]: float(value.values[row, k]) for k in np.flatnonzero(value.present[row]).tolist()}
        if points:
            out[value.frame.labels(row)] = points
    return out


def notes_difference(expected: Expectation, warnings: Sequence[str], infos: Sequence[str]) -> str:
    """Why the warnings and infos of a query are not the expected ones; empty if they are."""
    for what, texts in (("warn", warnings), ("info", infos)):
        wanted = expected.notes.get(what, ())
        if f"no_{what}" in expected.notes and texts:
            return f"unexpected {what}: {texts}"
        missing = [note.text for note in wanted if not any(map(note.matches, texts))]
        extra = [text for text in texts if wanted and not any(note.matches(text) for note in wanted)]
        if missing or extra:
            return f"{what}: missing {missing}, unexpected {extra}"
    return ""


def close(a: float, b: float) -> bool:
    if _is_stale(a) or _is_stale(b):
        return _is_stale(a) and _is_stale(b)
    if a == b or (math.isnan(a) and math.isnan(b)):
        return True
    total, apart = abs(a) + abs(b), abs(a - b)
    if a == 0 or b == 0 or total < _SMALLEST_NORMAL:
        return apart < _CLOSE * _SMALLEST_NORMAL
    return apart / min(total, 1.7976931348623157e308) < _CLOSE


def _is_stale(value: float) -> bool:
    return int(np.float64(value).view(np.uint64)) == STALE_BITS
