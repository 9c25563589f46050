"""Vectors that functions make: rows of their own, and rows with a label set anew."""

from collections.abc import Mapping, Sequence

import numpy as np

from precompute.evaluate.values import Frame, Vector
from precompute.runs import SymbolTable
from precompute.samples import F64, I32, Bool


def one_row(values: F64, labels: Mapping[str, str] | None = None, present: Bool | None = None) -> Vector:
    """A vector of one element: values float64[s], present bool[s], at every step if None."""
    named = sorted((labels or {}).items())
    symbols = SymbolTable()
    codes = np.array([[symbols.intern(text) for _, text in named]], np.int32).reshape(1, len(named))
    here = np.ones(len(values), np.bool_) if present is None else present
    frame = Frame(tuple(name for name, _ in named), codes, symbols)
    return Vector(frame, values[None, :], here[None, :], np.zeros(1, np.int32)).seen()


def with_label(frame: Frame, name: str, rows: Bool, texts: Sequence[str], place: I32) -> Frame:
    """The frame with label `name` set in some rows: row i to `texts[place[i]]`, an empty text taking it away.

    rows bool[n], place int32[n]. The labels get a symbol table of their own: only ingest adds to the head's.
    """
    names = tuple(sorted({*frame.names, name}))
    symbols = SymbolTable()
    codes = frame.spread(names, symbols)
    made = symbols.intern_texts(texts)
    column = names.index(name)
    codes[rows, column] = made[place[rows]]
    return Frame(names, codes, symbols)
