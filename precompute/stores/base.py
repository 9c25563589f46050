"""The summary store's contract.

A store keeps, per aggregation, at most one summary of each pane. Panes come in by `commit`, which *replaces*; a
summary is never merged into another. What is committed is there for every reader from the return of `commit`
on, all of it or, after a crash or an error, none of it.

A pane in the store is coverage even if it has no rows; a pane that is not there is a gap. Bytes that turn out
to be damaged are set aside, logged, and from then on a gap; they are never misread and never fail a query twice.

One thread at a time calls `commit`, `seal`, `drop`, `rewind` and `discard` (the store makes sure of it by a lock); any
number of threads may read beside it. A reader sees each pane before or after a commit, never half of it. What was
read is frozen. Reads and writes may wait for the database, so none of them is called under a lock that writers of
samples need.
"""

from collections.abc import Sequence
from typing import Protocol

from precompute.errors import PrecomputeError
from precompute.samples import I64
from precompute.summaries import Summary

PACK_PANES = 240
"""Panes in a full pack: an hour of 15 s."""


class StoreError(PrecomputeError):
    """The store cannot be read or written now; nothing was changed. The same call may succeed later."""


class SummaryReader(Protocol):
    """What queries read. All intervals are `(after_ms, until_ms]` over ends of panes.

    Every method may raise StoreError.
    """

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        """The panes that are there, ascending; a Summary of no panes, and of no accumulators, if none is."""

    def size_bytes(self, aggregation_id: str) -> int:
        """Bytes that the aggregation's panes take where they are kept."""


class SummaryStore(SummaryReader, Protocol):
    """See the module's text."""

    def commit(self, summaries: Sequence[tuple[str, Summary]]) -> None:
        """Keep these panes under their aggregation ids, in place of what was there, in one transaction."""

    def ends(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        """Ends of the panes that are there, ascending. Reads no summary."""

    def seen(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]:
        """(ends, seen, plan) of the panes that are there, ascending. Reads no summary."""

    def failed(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        """Ends of the panes that are marked FAILED, ascending. Reads no summary."""

    def seal(self, aggregation_id: str, until_ms: int) -> None:
        """Pack the panes with end <= until_ms, which are final, into runs of PACK_PANES; what is left of them
        stays single. Changes no answer, and nothing at all the second time."""

    def drop(self, aggregation_id: str, before_ms: int) -> None:
        """Forget the panes with end <= before_ms; those packed with later ones may stay until they go together."""

    def rewind(self, aggregation_id: str, after_ms: int) -> None:
        """Forget the panes with end > after_ms, at once and exactly those."""

    def discard(self, aggregation_id: str, ends_ms: I64) -> None:
        """Forget exactly the panes with these ends (int64[p], p > 0, ascending), as far as they are there."""

    def aggregations(self) -> tuple[str, ...]:
        """Ids that have panes, sorted."""
