"""The accumulator's contract.

An accumulator is mergeable state that answers some statistics. It never stands for one group alone: a
State holds *columns over rows*, one row per (pane, group), and every operation is one pass over them.

    build    values -> rows            take     rows by index           (columns.py: the same for all)
    merge    rows -> fewer rows        concat   rows after rows         (columns.py: the same for all)
    estimate rows -> numbers           bytes    and back, checked       (bytes.py: the same for all)

What it is built from, it declares: `Vectors` (series by panes: what stands at each pane's end) or `Items` (single
samples, weights or keys). Rows are updated by merging what new values were built to.

What a caller may assume:

- Sums, moments and sketches that drop values are folded in a fixed order: values of one shard in the order given,
  shards in order, and in `merge` row by row. The same order gives the same bits, and building shard by shard and
  merging in shard order gives the bits of building all at once. Nothing is drawn at random.
- Everything else (counts, extremes, keys, buckets) is a function of the multiset of values alone.
- Weights of keys are too, while they are whole and below 2^53; others are within 1e-12 of it. Which keys a sketch of
  the heaviest keeps depends on how parts were cut, within its bound.
- One with `seams` knows one series, in order of time. What was merged otherwise answers NaN.
- States are frozen: no operation changes its arguments, results may share memory with them.
- Nothing blocks or does I/O. A kernel holds no lock and releases the GIL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from precompute.samples import F64, I32, I64, U64, Bool

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
class Items:
    """Single items, each of one row: samples (value, t_ms), or keys with a weight (key, value).

    Samples of one row stand in order of time; of accumulators of one series (`seams`) each row is one series and pane.
    """

    row: I32
    """0 <= row < rows; int32[m]."""
    value: F64
    """The sample's value, or the key's weight; float64[m]."""
    t_ms: I64
    """int64[m]"""
    key: U64
    """Hash of what is counted, a label set mostly; uint64[m]."""
    rows: int


def vectors_of(items: Items) -> Vectors:
    """The items' values as one pane in which each row is a group, for accumulators that are built from Vectors."""
    return one_pane(items.value, items.row, np.zeros(len(items.row), np.int32), items.rows)


BoundKind = Literal["exact", "relative", "rank", "upper rank", "bucket", "additive"]


@dataclass(frozen=True)
class Bound:
    """How far an estimate may be from PromQL's value on the same samples.

    exact: equal (sums: within 1e-12 of the sum of magnitudes).
    relative: within `size` times the right value; of quantiles, times the larger magnitude of the two neighbouring
        order statistics.
    rank: a φ-quantile is one for some φ' with |φ' - φ| <= `size`.
    upper rank: the same with `size` times (1 - φ).
    bucket: within the bucket that the right value lies in.
    additive: within `size` times the row's total weight.

    Held always where `confidence` is 1, else by each estimate with that probability.
    """

    kind: BoundKind
    size: float = 0.0
    confidence: float = 1.0

    def __str__(self) -> str:
        text = self.kind if self.kind in ("exact", "bucket") else f"{self.size:.4g} {self.kind}"
        return text if self.confidence == 1 else f"{text} at {self.confidence:.3g} confidence"


EXACT = Bound("exact")


@dataclass(frozen=True)
class Column:
    """One column of a State."""

    name: str
    dtype: str
    """numpy's little-endian name, e.g. "<f8"."""
    offsets: str = ""
    """Empty: one item per row. Else the offsets column that cuts this one into runs, one per row."""


Fed = TypeVar("Fed", Vectors, Items, contravariant=True)


class Accumulator(Protocol[Fed]):
    """See the module's text for what the caller may assume."""

    @property
    def name(self) -> str:
        """As users write it in an aggregation's `accumulators`: the family, and parameters other than the defaults."""

    @property
    def version(self) -> int:
        """Changes whenever the same columns would mean something else."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and types of the State's columns, all of them."""

    @property
    def feeds(self) -> type[Vectors] | type[Items]:
        """What it is built from."""

    @property
    def seams(self) -> bool:
        """Whether rows must be merged in order of time."""

    @property
    def answers(self) -> Mapping[str, Bound]:
        """The statistics that this accumulator answers alone, and how well."""

    def build(self, fed: Fed) -> State:
        """A State of `fed.rows` rows; groups without a value become empty rows."""

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        """Row i of `state` is merged into row `into[i]` of the result, in order of i.

        Rows of the result that nothing was merged into are empty. Raises OverflowError where a count
        would pass what its column holds.
        """

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        """One of `answers` for all rows; float64[rows], NaN for an empty row unless the statistic says otherwise.

        parameter: one, or one per row: φ of a quantile, the key whose weight is asked, the rank of topk from 1 on; of
        rate, increase and delta the window (until_ms, range_ms), float64[2] or float64[rows, 2].
        """

    def check(self, state: State) -> None:
        """Raise BlobError unless the columns fit each other, as kernels rely on; their lengths are checked before."""


def build_of(accumulator: Accumulator[Any], items: Items) -> State:
    """A State of the items, whatever it is that the accumulator is built from."""
    return accumulator.build(vectors_of(items) if accumulator.feeds is Vectors else items)
