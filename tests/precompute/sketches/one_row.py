"""Items of one row, for tests of sketches over keys and of one series."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from precompute.samples import F64, I64, U64
from precompute.sketches.base import Accumulator, Items, State
from precompute.sketches.columns import concat_columns


def weighed(key: U64 | Sequence[int], weight: F64 | Sequence[float] | float = 1.0) -> Items:
    """Keys with their weights, or all with one."""
    keys = np.asarray(key, np.uint64)
    m = len(keys)
    weights = np.ascontiguousarray(np.broadcast_to(np.asarray(weight, np.float64), m))
    return Items(np.zeros(m, np.int32), weights, np.zeros(m, np.int64), keys, 1)


def seen(key: U64 | Sequence[int], t_ms: I64 | Sequence[int]) -> Items:
    """Keys and when they were seen."""
    m = len(key)
    return Items(np.zeros(m, np.int32), np.ones(m), np.asarray(t_ms, np.int64), np.asarray(key, np.uint64), 1)


def samples(t_ms: Sequence[int], value: Sequence[float]) -> Items:
    """One series' samples."""
    m = len(t_ms)
    times, values = np.asarray(t_ms, np.int64), np.asarray(value, np.float64)
    return Items(np.zeros(m, np.int32), values, times, np.zeros(m, np.uint64), 1)


def merged(kept: Accumulator[Any], parts: Sequence[State]) -> State:
    """Parts of one row each, merged in order."""
    return kept.merge(concat_columns(kept.columns, parts), np.zeros(len(parts), np.int64), 1)


def in_parts(kept: Accumulator[Any], whole: Items, parts: int) -> State:
    """The items in so many parts of about the same length, built alone and merged."""
    columns = (np.array_split(c, parts) for c in (whole.row, whole.value, whole.t_ms, whole.key))
    return merged(kept, [kept.build(Items(*piece, 1)) for piece in zip(*columns, strict=True)])
