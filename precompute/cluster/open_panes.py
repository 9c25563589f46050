"""Panes that stand in Redis, a partial in each shard, as all copies of shards together show them."""

from collections.abc import Mapping, Sequence

import numpy as np

from precompute.aggregations import Aggregation
from precompute.cluster.shard_copy import ShardCopy
from precompute.pane_book import NONE
from precompute.samples import I64, Bool


class OpenPanes:
    """Any thread may call it. Aggregations whose panes are not known yet have none."""

    def __init__(self, copies: Sequence[ShardCopy], aggregations: Sequence[Aggregation]) -> None:
        self._copies = copies
        self.kept: Mapping[str, Aggregation] = {}
        self.replace(aggregations)

    def replace(self, aggregations: Sequence[Aggregation]) -> None:
        """These are kept from now on."""
        self.kept = {a.id: a for a in aggregations}

    def in_touch(self) -> bool:
        """Whether all shards can be asked, as far as is known."""
        return all(copy.in_touch for copy in self._copies)

    def changed(self, aggregation: Aggregation, ends_ms: I64) -> I64:
        """Per pane end the number of its last change in any shard, int64[p]; NONE unless all shards have it."""
        numbers = [copy.changed(aggregation, ends_ms) for copy in self._copies]
        return np.where(np.min(numbers, axis=0) == NONE, NONE, np.max(numbers, axis=0))

    def seen(self, aggregation: Aggregation, ends_ms: I64) -> list[I64]:
        """By shard and pane end the newest log entry in the partial, int64[p] each; NONE where there is none."""
        return [copy.seen(aggregation, ends_ms) for copy in self._copies]

    def whole(self, aggregation: Aggregation, after_ms: int, until_ms: int) -> tuple[I64, I64]:
        """Ends of the panes that all shards have, ascending, and the numbers of their last changes; int64[p] each."""
        ends = self._copies[0].ends(aggregation, after_ms, until_ms)
        changed = self.changed(aggregation, ends)
        return ends[changed != NONE], changed[changed != NONE]

    def dirty(self, aggregation: Aggregation, ends_ms: I64) -> Bool:
        """Panes that some shard does not have, or whose partial lacks a sample; bool[p]."""
        return np.asarray(np.logical_or.reduce([copy.dirty(aggregation, ends_ms) for copy in self._copies]))

    def dirty_in(self, aggregation: Aggregation, end_ms: int) -> list[ShardCopy]:
        """The shards in which this pane is dirty."""
        end = np.array([end_ms], np.int64)
        return [copy for copy in self._copies if copy.dirty(aggregation, end)[0]]
