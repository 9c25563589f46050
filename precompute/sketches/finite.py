"""What t-digest and `le` buckets have in common: they hold finite values, and count all others.

In order: NaN, -Inf, the finite values, +Inf, as PromQL's quantile sorts them. -0.0 counts as 0.0.
"""

import math

import numpy as np

from precompute.errors import BlobError
from precompute.kernels import bare, kernel
from precompute.samples import F64, I64
from precompute.sketches.base import Column, State

HEAD = (
    Column("n", "<i8"),
    Column("nans", "<i8"),
    Column("minus", "<i8"),
    Column("plus", "<i8"),
    Column("low", "<f8"),
    Column("high", "<f8"),
)
"""n: values, all kinds; nans, minus, plus: those that are NaN, -Inf, +Inf. low, high: finite ends, NaN if none."""

Head = tuple[I64, I64, I64, I64, F64, F64]


@kernel
def empty_head(rows: int) -> Head:
    """The columns of rows without values."""
    return (
        np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.int64),
        np.full(rows, np.nan), np.full(rows, np.nan),
    )  # fmt: skip


@bare
def count_in(head: Head, row: int, value: float) -> bool:
    """Count one value; whether it is finite."""
    n, nans, minus, plus, low, high = head
    n[row] += 1
    if np.isnan(value):
        nans[row] += 1
    elif value == -np.inf:
        minus[row] += 1
    elif value == np.inf:
        plus[row] += 1
    else:
        if not value >= low[row]:
            low[row] = value
        if not value <= high[row]:
            high[row] = value
        return True
    return False


@bare
def add_head(head: Head, row: int, more: Head, i: int) -> None:
    """Count row i of `more` in."""
    n, nans, minus, plus, low, high = head
    n[row] += more[0][i]
    nans[row] += more[1][i]
    minus[row] += more[2][i]
    plus[row] += more[3][i]
    low[row], high[row] = np.fmin(low[row], more[4][i]), np.fmax(high[row], more[5][i])


@bare
def neighbours(head: Head, row: int, phi: float) -> tuple[int, int, float]:
    """The ranks among the finite values that PromQL interpolates between (below 0, or beyond: others), and how far."""
    n, nans, minus, _, _, _ = head
    rank = phi * (n[row] - 1)
    lower = math.floor(rank)
    first = nans[row] + minus[row]
    return lower - first, min(lower + 1, n[row] - 1) - first, rank - lower


@bare
def finite_count(head: Head, row: int) -> int:
    """How many finite values a row has."""
    n, nans, minus, plus, _, _ = head
    count: int = n[row] - nans[row] - minus[row] - plus[row]
    return count


@bare
def outside(head: Head, row: int, rank: int) -> float:
    """The order statistic of a rank at or beyond either end of the finite values."""
    _, _, minus, _, low, high = head
    last = finite_count(head, row) - 1
    if rank < -minus[row]:
        return np.nan
    if rank < 0:
        return -np.inf
    if rank > last:
        return np.inf
    return float(low[row]) if rank == 0 else float(high[row])


def head_of(state: State) -> Head:
    """The common columns, for kernels."""
    n, nans, minus, plus, low, high = (np.ascontiguousarray(state[c.name]) for c in HEAD)
    return n, nans, minus, plus, low, high


def check_head(name: str, state: State) -> I64:
    """How many finite values each row has; int64[rows]. Raises BlobError where counts cannot be."""
    n, nans, minus, plus, low, high = head_of(state)
    finite = n - nans - minus - plus
    ends = np.where(finite > 0, np.isfinite(low) & np.isfinite(high) & (low <= high), np.isnan(low) & np.isnan(high))
    if not (ends & (np.minimum(np.minimum(nans, minus), np.minimum(plus, finite)) >= 0) & (n <= 1 << 53)).all():
        raise BlobError(f"columns of {name} do not fit each other")
    return finite
