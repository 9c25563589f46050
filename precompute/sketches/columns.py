"""Operations on a State that its columns alone define, whatever they mean.

A ragged column `x` lies flat; row r owns `x[off[r]:off[r + 1]]` of it, with `off` the int64[rows + 1]
column that its Column names.
"""

from collections.abc import Sequence

import numpy as np

from precompute.errors import BlobError
from precompute.kernels import kernel
from precompute.samples import I64
from precompute.sketches.base import Array, Column, State


def take_columns(columns: Sequence[Column], state: State, picks: I64) -> State:
    """Rows by index, in the order of `picks`; a row may be picked more than once."""
    offsets = {c.offsets: _picked_offsets(state[c.offsets], picks) for c in columns if c.offsets}
    taken: dict[str, Array] = dict(offsets)
    for c in columns:
        if c.offsets:
            taken[c.name] = _take_runs(state[c.offsets], state[c.name], picks, offsets[c.offsets])
        elif c.name not in offsets:
            taken[c.name] = state[c.name][picks]
    return taken


def concat_columns(columns: Sequence[Column], states: Sequence[State]) -> State:
    """Rows of all states, one after another; no state at all gives no rows."""
    if not states:
        return empty_columns(columns)
    names = {c.offsets for c in columns}
    return {
        c.name: (_joined_offsets if c.name in names else np.concatenate)([s[c.name] for s in states]) for c in columns
    }


def empty_columns(columns: Sequence[Column]) -> State:
    """A State of no rows."""
    names = {c.offsets for c in columns}
    return {c.name: np.zeros(1 if c.name in names else 0, c.dtype) for c in columns}


def row_count(columns: Sequence[Column], state: State) -> int:
    """Rows of a State, by its first column."""
    first = columns[0]
    names = {c.offsets for c in columns}
    offsets = first.name if first.name in names else first.offsets
    return len(state[offsets]) - 1 if offsets else len(state[first.name])


def size_bytes(state: State) -> int:
    """Bytes of all columns in memory."""
    return sum(column.nbytes for column in state.values())


def check_columns(columns: Sequence[Column], state: State, rows: int) -> None:
    """Raise BlobError unless `state` has these columns and they fit `rows` rows."""
    if state.keys() != {c.name for c in columns}:
        raise BlobError(f"columns {sorted(state)} are not those of this accumulator")
    names = {c.offsets for c in columns}
    for c in sorted(columns, key=lambda c: c.name not in names):
        length = rows + 1 if c.name in names else int(state[c.offsets][-1]) if c.offsets else rows
        if state[c.name].dtype != np.dtype(c.dtype) or state[c.name].shape != (length,):
            raise BlobError(f"column {c.name} has another type or length than its rows need")
        if c.name in names:
            check_offsets(state[c.name])


def check_offsets(offsets: I64) -> None:
    """Raise BlobError unless `offsets` begin at 0 and never fall."""
    if not len(offsets) or offsets[0] != 0 or bool((np.diff(offsets) < 0).any()):
        raise BlobError("offsets do not begin at 0 or fall")


def run_sums(flat: Array, offsets: I64) -> I64:
    """Sum of each run of whole numbers; int64[rows]."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(flat, dtype=np.int64)])
    return np.asarray(ends[offsets[1:]] - ends[offsets[:-1]])


def runs_rise(flat: Array, offsets: I64) -> bool:
    """Whether each run's items are strictly ascending; no NaN is."""
    rises = np.concatenate([np.ones(1, np.bool_), flat[1:] > flat[:-1]])[: len(flat)]
    starts = offsets[:-1]
    rises[starts[starts < len(flat)]] = True
    return bool(rises.all())


def _picked_offsets(offsets: I64, picks: I64) -> I64:
    picked = np.zeros(len(picks) + 1, np.int64)
    np.cumsum(offsets[picks + 1] - offsets[picks], out=picked[1:])
    return picked


def _joined_offsets(parts: Sequence[I64]) -> I64:
    steps = [np.diff(part) for part in parts]
    joined = np.zeros(sum(map(len, steps)) + 1, np.int64)
    np.cumsum(np.concatenate(steps), out=joined[1:])
    return joined


@kernel
def grown(a: Array, needed: int) -> Array:
    """The array, or a longer copy with at least `needed` places."""
    if needed <= len(a):
        return a
    b = np.empty(max(needed, 2 * len(a)), a.dtype)
    b[: len(a)] = a
    return b


@kernel
def _take_runs(offsets: I64, flat: Array, picks: I64, picked: I64) -> Array:
    """Runs `picks` of `flat`; offsets int64[rows + 1], picked int64[len(picks) + 1]."""
    out = np.empty(picked[-1], flat.dtype)
    for i in range(len(picks)):
        start = offsets[picks[i]]
        for k in range(picked[i + 1] - picked[i]):
            out[picked[i] + k] = flat[start + k]
    return out
