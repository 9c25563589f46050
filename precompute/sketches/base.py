"""The accumulator's contract.

An accumulator is mergeable state that answers some statistics. It never stands for one group alone: a
State holds *columns over rows*, one row per (pane, group), and every operation is one pass over them.

    build    values -> rows            take     rows by index           (columns.py: the same for all)
    merge    rows -> fewer rows        concat   rows after rows         (columns.py: the same for all)

What a caller may assume:

- Sums and moments are folded in a fixed order: values of one shard in the order given, shards in order,
  and in `merge` row by row. The same order gives the same bits, and building shard by shard and merging in
  shard order gives the bits of building all at once.
- Everything else (counts, extremes, buckets) is a function of the multiset of values alone.
- States are frozen: no operation changes its arguments, results may share memory with them.
- Nothing blocks or does I/O. A kernel holds no lock and releases the GIL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from precompute.samples import F64, I32, I64, Bool

Array = npt.NDArray[Any]
State = Mapping[str, Array]
"""Named columns over rows. A ragged column comes with its offsets, int64[rows + 1]."""


@dataclass(frozen=True)
class Vectors:
    """Instant vectors of one or more panes: n series by P panes.

    Series stand in the order in which sums are taken: by shard, within a shard by label hash.
    """

    values: F64
    """float64[n, P]; what stands where `present` is false is ignored."""
    present: Bool
    """bool[n, P]"""
    group: I32
    """Group of each series, 0 <= group < groups; int32[n]."""
    shard: I32
    """Shard of each series, non-decreasing; int32[n]."""
    groups: int

    @property
    def panes(self) -> int:
        return int(self.values.shape[1])

    @property
    def rows(self) -> int:
        """Rows of a State built from this: pane-major, row = pane * groups + group."""
        return self.panes * self.groups


def one_pane(values: F64, group: I32, shard: I32, groups: int) -> Vectors:
    """Vectors of a single pane in which every series has a value; values float64[n]."""
    return Vectors(values[:, None], np.ones((len(values), 1), np.bool_), group, shard, groups)


@dataclass(frozen=True)
class Bound:
    """How far an estimate may be from PromQL's value on the same samples.

    exact: equal (sums: within 1e-12 of the sum of magnitudes).
    relative: within `alpha` times the larger magnitude of the two neighbouring order statistics.
    """

    kind: Literal["exact", "relative"]
    alpha: float = 0.0

    def __str__(self) -> str:
        return "exact" if self.kind == "exact" else f"{self.alpha:g} relative"


EXACT = Bound("exact")


@dataclass(frozen=True)
class Column:
    """One column of a State."""

    name: str
    dtype: str
    """numpy's little-endian name, e.g. "<f8"."""
    offsets: str = ""
    """Empty: one item per row. Else the offsets column that cuts this one into runs, one per row."""


class Accumulator(Protocol):
    """See the module's text for what the caller may assume."""

    @property
    def name(self) -> str:
        """As users write it in an aggregation's `accumulators`."""

    @property
    def version(self) -> int:
        """Changes whenever the same columns would mean something else."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and types of the State's columns, all of them."""

    def build(self, vectors: Vectors) -> State:
        """A State of `vectors.rows` rows; groups without a value become empty rows."""

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        """Row i of `state` is merged into row `into[i]` of the result, in order of i.

        Rows of the result that nothing was merged into are empty. Raises OverflowError where a count
        would pass what its column holds.
        """
