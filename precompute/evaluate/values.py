"""What evaluation works on: label columns and series × steps matrices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from precompute.kernels.labels import distinct, group_rows
from precompute.labels import METRIC_NAME, Labels
from precompute.runs import SymbolTable
from precompute.samples import F64, I32, I64, Bool

OF_THE_METRIC = (METRIC_NAME, "__type__", "__unit__")
"""Labels that go with the metric's name."""


@dataclass(frozen=True)
class Frame:
    """The label sets of n series as columns: codes[i, k] is the symbol of label names[k], 0 where absent."""

    names: tuple[str, ...]
    codes: I32
    symbols: SymbolTable

    def __len__(self) -> int:
        return len(self.codes)

    def labels(self, row: int) -> Labels:
        """Label set of one row, sorted by name."""
        texts = self.symbols.texts(self.codes[row].tolist())
        return tuple((name, text) for name, text in zip(self.names, texts, strict=True) if text)

    def take(self, rows: I64 | Bool) -> "Frame":
        return Frame(self.names, self.codes[rows], self.symbols)

    def keep(self, names: Sequence[str]) -> "Frame":
        """Only these labels; those that no row has are left out."""
        picks = [k for k, name in enumerate(self.names) if name in set(names)]
        return Frame(tuple(self.names[k] for k in picks), np.ascontiguousarray(self.codes[:, picks]), self.symbols)

    def drop(self, names: Sequence[str]) -> "Frame":
        """All labels but these."""
        return self.keep([name for name in self.names if name not in set(names)])

    def blank_names(self, rows: Bool) -> "Frame":
        """Without the metric's name, type and unit in these rows."""
        codes = self.codes.copy()
        for column, name in zip(codes.T, self.names, strict=True):
            if name in OF_THE_METRIC:
                column[rows] = 0
        return Frame(self.names, codes, self.symbols)

    def spread(self, names: Sequence[str], symbols: SymbolTable) -> I32:
        """Codes int32[n, len(names)] of these labels, 0 where the frame has none, in ids of `symbols`."""
        own = dict(zip(self.names, self.codes.T, strict=True))
        codes = np.zeros((len(self), len(names)), np.int32)
        for k, name in enumerate(names):
            if name in own:
                codes[:, k] = own[name]
        if symbols is self.symbols:
            return codes
        used, place = distinct(codes)
        return symbols.intern_texts(self.symbols.texts(used.tolist()))[place].reshape(codes.shape)

    def groups(self) -> tuple["Frame", I32]:
        """The distinct rows, in order of their keys, and the number of each row's group; int32[n]."""
        group, first = group_rows(np.ascontiguousarray(self.codes))
        distinct = self.take(first)
        order = distinct.key_order()
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return distinct.take(order), rank[group]

    def key_order(self) -> I64:
        """Row numbers in order of the texts of their labels, first name first."""
        used, place = distinct(self.codes)
        texts = self.symbols.texts(used.tolist())
        ranks = np.empty(len(used), np.int32)
        ranks[sorted(range(len(used)), key=texts.__getitem__)] = np.arange(len(used), dtype=np.int32)
        ranked = ranks[place]
        if not self.names:
            return np.arange(len(self))
        return np.lexsort(ranked.T[::-1])


def common_symbols(frames: Sequence[Frame]) -> SymbolTable:
    """The table that all frames share, else a new one to translate into: only ingest adds to the head's own."""
    first = frames[0].symbols
    return first if all(frame.symbols is first for frame in frames) else SymbolTable()


@dataclass(frozen=True)
class Vector:
    """An instant vector at each step: values float64[n, s], present bool[n, s] (where false, values mean nothing).

    shard       int32[n] where the rows are series in order of shard and label hash, else all zero
    drop_name   bool[n], with delayed name removal: rows whose metric name goes at the end of the query; None: no row
    """

    frame: Frame
    values: F64
    present: Bool
    shard: I32
    drop_name: Bool | None = None
    ordered: bool = False
    """Whether the order of the rows is one that the query asked for."""

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: I64 | Bool) -> "Vector":
        marks = None if self.drop_name is None else self.drop_name[rows]
        return Vector(
            self.frame.take(rows), self.values[rows], self.present[rows], self.shard[rows], marks, self.ordered
        )

    def without_names(self) -> "Vector":
        """Without what is said of the metric itself: its values are other ones now."""
        return self.with_frame(self.frame.drop(OF_THE_METRIC))

    def with_frame(self, frame: Frame) -> "Vector":
        return replace(self, frame=frame)

    def with_values(self, values: F64) -> "Vector":
        return replace(self, values=values)

    def marks(self) -> Bool:
        """Which rows' names are to go, bool[n]."""
        return np.zeros(len(self), np.bool_) if self.drop_name is None else self.drop_name

    def with_marks(self, drop_name: Bool) -> "Vector":
        """Other rows whose names are to go."""
        return replace(self, drop_name=drop_name if drop_name.any() else None)

    def seen(self) -> "Vector":
        """Only the rows that are present at some step."""
        rows: Bool = np.asarray(self.present.any(axis=1))
        return self if rows.all() else self.take(rows)


def nothing(steps: int) -> Vector:
    """A vector without rows."""
    frame = Frame((), np.zeros((0, 0), np.int32), SymbolTable())
    return Vector(frame, np.zeros((0, steps)), np.zeros((0, steps), np.bool_), np.zeros(0, np.int32))


def joined(parts: Sequence[Vector], steps: int) -> Vector:
    """The rows of several vectors, one after another; rows of equal labels stay apart."""
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else nothing(steps)
    frames = [part.frame for part in parts]
    names = tuple(sorted({name for frame in frames for name in frame.names}))
    symbols = common_symbols(frames)
    codes = np.concatenate([frame.spread(names, symbols) for frame in frames])
    values = np.concatenate([part.values for part in parts])
    present = np.concatenate([part.present for part in parts])
    made = Vector(Frame(names, codes, symbols), values, present, np.zeros(len(codes), np.int32))
    return made.with_marks(np.concatenate([part.marks() for part in parts]))


@dataclass(frozen=True)
class Matrix:
    """A range vector at one time: each series' own samples, one after another.

    starts int64[n + 1]: where each series' samples begin in t_ms int64[m] and values float64[m]; ascending in time.
    """

    frame: Frame
    starts: I64
    t_ms: I64
    values: F64
    drop_name: Bool | None = None
    """As a vector's."""

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, rows: I64) -> "Matrix":
        """Some rows, in the order of `rows` int64[k]."""
        counts = np.diff(self.starts)[rows]
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        at = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], counts)
        marks = None if self.drop_name is None else self.drop_name[rows]
        return Matrix(self.frame.take(rows), starts, self.t_ms[at], self.values[at], marks)


@dataclass(frozen=True)
class Scalar:
    """A number at each step: values float64[s]."""

    values: F64


@dataclass(frozen=True)
class Text:
    value: str


Value = Vector | Matrix | Scalar | Text
