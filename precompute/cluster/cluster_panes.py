"""Which panes of a cluster are there and right, for its query engines.

Panes past their retention are not: a pack keeps them for as long as its last one, but the holes that they may touch
are forgotten.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import Clock
from precompute.cluster.merged_store import MergedStore
from precompute.cluster.open_panes import OpenPanes
from precompute.cluster.packs import Packs
from precompute.pane_book import NONE
from precompute.samples import I64, Bool
from precompute.touched import Touched

_STORED = 0
"""The number of a pane that can never change: it is in the database."""


class ClusterPanes:
    """A Panes (engines/base.py).

    Open panes are looked at first and the database second: a pane that is stored meanwhile is in one of them at least.
    """

    def __init__(
        self, panes: OpenPanes, packs: Packs, store: MergedStore, touched: Touched, lateness_ms: int,
        alive_ms: Callable[[], int], heard_ms: Callable[[], int], clock: Clock,
    ) -> None:  # fmt: skip
        """alive_ms: when somebody last listened for samples of every shard, as far as is known. heard_ms: of any
        shard; no worker lets go of anything by a later time."""
        self.store, self.touched, self.disowned = store, touched, 0
        self._panes, self._packs = panes, packs
        self._lateness_ms, self._alive_ms, self._heard_ms, self._clock = lateness_ms, alive_ms, heard_ms, clock

    @property
    def aggregations(self) -> tuple[Aggregation, ...]:
        return tuple(self._panes.kept.values())

    def sealed_ms(self) -> int:
        return min(self._alive_ms(), self._clock.now_ms()) - self._lateness_ms

    def dirty(self, aggregation: Aggregation, ends_ms: I64) -> Bool:
        gone = ends_ms <= self._gone_ms(aggregation)
        if self._packs.has(aggregation.id, ends_ms).all():
            return gone
        dirty = self._panes.dirty(aggregation, ends_ms)
        return gone | dirty & ~self._packs.has(aggregation.id, ends_ms)

    def why_dirty(self, aggregation: Aggregation, end_ms: int) -> str:
        if end_ms <= self._gone_ms(aggregation):
            return "past its retention"
        waiting = self._panes.dirty_in(aggregation, end_ms)
        newest = [(copy.newest_ms(aggregation) or 0, copy.shard.number) for copy in waiting]
        newest_ms, number = min(newest, default=(0, None))
        if number is None:
            return "not summarised yet"
        behind_s = (self.sealed_ms() - newest_ms) / 1000
        how = f"is {behind_s:.0f} s behind" if newest_ms else "has no summary of it"
        return f"not summarised yet: shard {number} {how if newest_ms < end_ms else 'got late samples'}"

    def seen(self, aggregation: Aggregation, ends_ms: I64) -> I64:
        """The number of its last change that was heard of."""
        changed = self._panes.changed(aggregation, ends_ms)
        seen = np.where(self._packs.has(aggregation.id, ends_ms), _STORED, changed)
        return np.where(ends_ms <= self._gone_ms(aggregation), NONE, seen)

    def newest_ms(self, aggregation: Aggregation) -> int | None:
        ends = self.ends(aggregation)
        return int(ends[-1]) if len(ends) else None

    def ends(self, aggregation: Aggregation) -> I64:
        gone_ms, now_ms = self._gone_ms(aggregation), self._clock.now_ms()
        whole, _ = self._panes.whole(aggregation, gone_ms, now_ms)
        return np.unique(np.concatenate([whole, self._packs.ends(aggregation.id, gone_ms, now_ms)]))

    def replace(self, aggregations: Sequence[Aggregation], wrong: Collection[str] = ()) -> None:
        """The panes of new ones are known a moment later."""
        gone = [name for name in wrong if name in self._panes.kept]
        self._panes.replace(aggregations)
        for name in gone:
            self.store.drop(name)
        self.disowned += bool(gone)

    def _gone_ms(self, aggregation: Aggregation) -> int:
        """Panes that end at or before this time are past their retention."""
        return min(self._heard_ms(), self._clock.now_ms()) - aggregation.retention_ms
