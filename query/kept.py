"""The values of one question at the steps it was asked at: a matrix that grows along time.

Each step has a column of its own. A step that is kept again gets a new one, and nothing points to the old one any
more. What lookups may have in hand is never written to: rows and columns are added beside it, and when there is no
room left, all that is still asked for moves into new arrays. So one thread at a time keeps, and others look up beside
it.
"""

from dataclasses import dataclass, replace

import numpy as np

from precompute.evaluate.values import Frame, Scalar, Vector
from precompute.kernels import joins
from precompute.kernels.labels import group_rows
from precompute.runs import SymbolTable
from precompute.samples import F64, I32, I64, Bool

_LOOKUPS = 64
"""A step that none of so many lookups asked for does not move along."""

_CELL_BYTES, _STEP_BYTES = 9, 8
_FIXED_BYTES = 8192
"""What few values take too: arrays' headers, a symbol table, a place among the questions."""


@dataclass(frozen=True)
class _Columns:
    """Values float64[rows or more, columns] and present bool of the same shape; rows beyond the frame's are absent."""

    frame: Frame
    values: F64
    present: Bool
    stamps: I64
    """int64[k, columns]"""
    asked: I64
    """Number of the lookup that last asked for it, int64[columns]."""
    used: int
    """Columns that have been written."""
    times: I64
    """The steps, int64[m], ascending."""
    column: I64
    """The column of each step, int64[m]."""

    def find(self, times: I64, stamp: I64) -> tuple[Bool, I64]:
        """Which of these steps are there with this stamp, bool[s], and the columns of those."""
        if not len(self.times) or len(stamp) != len(self.stamps):
            return np.zeros(len(times), np.bool_), np.zeros(0, np.int64)
        place = np.minimum(np.searchsorted(self.times, times), len(self.times) - 1)
        column = self.column[place]
        hit = (self.times[place] == times) & (self.stamps[:, column] == stamp).all(axis=0)
        return hit, column[hit]

    def at(self, column: I64) -> tuple[F64, Bool]:
        """The values of these columns, and where they are present; [rows, s] each."""
        rows = slice(len(self.frame))
        return self.values[rows].take(column, axis=1), self.present[rows].take(column, axis=1)

    def has_room(self, rows: int, steps: int) -> bool:
        """Whether it can hold so many rows, and so many columns more."""
        return rows <= len(self.values) and self.used + steps <= self.values.shape[1]

    def written(self, frame: Frame, row: I32, times: I64, stamp: I64, values: F64, present: Bool) -> "_Columns":
        """With these steps, in rows `row` int32[n] of `frame`, which begins with the rows there are."""
        new = np.arange(self.used, self.used + len(times))
        joins.place(row, new, np.ascontiguousarray(values), np.ascontiguousarray(present), self.values, self.present)
        self.stamps[:, new] = stamp
        stay = ~np.isin(self.times, times)
        steps, column = np.concatenate((self.times[stay], times)), np.concatenate((self.column[stay], new))
        order = np.argsort(steps)
        return replace(self, frame=frame, used=self.used + len(new), times=steps[order], column=column[order])

    def moved(self, asked_since: int, rows: int, steps: int, most_bytes: int) -> "_Columns | None":
        """What was asked for since that lookup, with room as in `has_room`; None where that takes too many bytes."""
        live = self.asked[self.column] >= asked_since
        column = self.column[live]
        shape = rows + rows // 4, (len(column) + steps) * 3 // 2
        if shape[1] * (shape[0] * _CELL_BYTES + (len(self.stamps) + 3) * _STEP_BYTES) > most_bytes:
            return None
        bare = _columns(self.frame.names, len(self.stamps), shape)
        values, present = self.at(column)
        held: Bool = np.asarray(present.any(axis=1))
        codes = self.frame.take(held).spread(self.frame.names, bare.frame.symbols)
        row, frame = np.arange(len(codes), dtype=np.int32), replace(bare.frame, codes=codes)
        moved = bare.written(frame, row, self.times[live], self.stamps[:, column], values[held], present[held])
        moved.asked[: len(column)] = self.asked[column]
        return moved

    def size_bytes(self) -> int:
        """Memory held."""
        arrays = self.frame.codes, self.values, self.present, self.stamps, self.asked, self.times, self.column
        return _FIXED_BYTES + self.frame.symbols.size_bytes() + sum(array.nbytes for array in arrays)


class Kept:
    """See the module's text."""

    def __init__(self, is_scalar: bool) -> None:
        self.is_scalar = is_scalar
        self._columns = _columns((), 0, (0, 0))
        self._lookups = 0

    def find(self, times: I64, stamp: I64) -> tuple[Bool, Vector | Scalar]:
        """Which of the steps, int64[s], are kept with this stamp, int64[k, s]; and the values at those."""
        columns = self._columns
        hit, column = columns.find(times, stamp)
        self._lookups += 1
        columns.asked[column] = self._lookups
        values, present = columns.at(column)
        if self.is_scalar:
            return hit, Scalar(values.ravel())
        return hit, Vector(columns.frame, values, present, np.zeros(len(values), np.int32)).seen()

    def keep(self, times: I64, stamp: I64, value: Vector | Scalar, most_bytes: int) -> bool:
        """Keep the values at these steps, in the place of those that are there.

        False where they take too much room; then nothing of it is of use any more.
        """
        vector = _as_vector(value)
        old = self._columns if len(self._columns.stamps) == len(stamp) else _columns((), len(stamp), (0, 0))
        columns = self._with_room(old, vector.frame, len(times), most_bytes)
        if columns is None:
            return False
        frame, row = _with_rows(columns.frame, vector.frame)
        if len(np.unique(row)) < len(row) and joins.clash(row, vector.present, len(frame)):
            return False
        columns.asked[columns.used : columns.used + len(times)] = self._lookups
        self._columns = columns.written(frame, row, times, stamp, vector.values, vector.present)
        return True

    def _with_room(self, columns: _Columns, frame: Frame, steps: int, most_bytes: int) -> _Columns | None:
        """Columns that can take these rows and steps; if need be without the steps that there were."""
        rows = len(_with_rows(columns.frame, frame)[0])
        if columns.has_room(rows, steps):
            return columns
        moved = columns.moved(self._lookups - _LOOKUPS, rows, steps, most_bytes)
        return moved or _columns((), len(columns.stamps), (0, 0)).moved(0, len(frame), steps, most_bytes)

    def size_bytes(self) -> int:
        """Memory held."""
        return self._columns.size_bytes()


def _columns(names: tuple[str, ...], stamps: int, shape: tuple[int, int]) -> _Columns:
    """Nothing yet, with room for rows × columns."""
    frame = Frame(names, np.zeros((0, len(names)), np.int32), SymbolTable())
    none = np.zeros(0, np.int64)
    return _Columns(
        frame, np.zeros(shape), np.zeros(shape, np.bool_), np.zeros((stamps, shape[1]), np.int64),
        np.zeros(shape[1], np.int64), 0, none, none,
    )  # fmt: skip


def _with_rows(own: Frame, other: Frame) -> tuple[Frame, I32]:
    """`own` and after it the label sets of `other` that it lacks, in its own symbols; and the row of each of those."""
    names = tuple(sorted({*own.names, *other.names}))
    codes = np.concatenate((own.spread(names, own.symbols), other.spread(names, own.symbols)))
    row, first = group_rows(codes)
    return Frame(names, codes[first], own.symbols), row[len(own) :]


def _as_vector(value: Vector | Scalar) -> Vector:
    """A scalar as the row without labels that is present everywhere."""
    if isinstance(value, Vector):
        return value
    shape = (1, len(value.values))
    frame = Frame((), np.zeros((1, 0), np.int32), SymbolTable())
    return Vector(frame, value.values.reshape(shape), np.ones(shape, np.bool_), np.zeros(1, np.int32))
