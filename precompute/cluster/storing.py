"""Final panes leave Redis for the long-term store: merged over all shards, in packs that never change.

A pack holds the panes of one stretch of the grid, `(k * PANES * width, (k + 1) * PANES * width]`. It is stored once no
pane of it can come any more that is not there: every end has been final in all shards for a minute, which no server
that loses its last seconds takes back, and either all shards have it, or some shard can never make it. Whoever stores
it makes the same pack, so it does not matter how many do.
"""

import logging
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import Clock
from precompute.cluster.replies import ShardState
from precompute.cluster.shard import Shard
from precompute.cluster.shards import Shards
from precompute.errors import BlobError, LogDamaged
from precompute.evaluate.limits import Budget, Limits
from precompute.partials import merged
from precompute.samples import I64, Bool
from precompute.stores.base import StoreError
from precompute.stores.blob import from_bytes
from precompute.stores.pieces import joined
from precompute.summaries import Summary

logger = logging.getLogger(__name__)

PANES = 60
"""Of a pack: 15 minutes of 15 s."""

_PATIENCE_MS = 60_000
_LARGEST_MATRIX = 1 << 31
_EVER_MS = 1 << 62
_REMAINS_MS = 3_600_000
"""How long the packs of an aggregation that is no longer kept stay, in case it comes back."""


class LongTerm(Protocol):
    """Where packs are kept. Every method may raise StoreError."""

    def insert(self, aggregation_id: str, summary: Summary) -> None:
        """Keep a pack, unless it is there."""

    def ends(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        """Ends of the panes that it has."""

    def drop(self, aggregation_id: str, before_ms: int) -> None:
        """Forget packs whose panes all end at or before this time."""

    def aggregations(self) -> tuple[str, ...]: ...

    def together(self) -> AbstractContextManager[None]:
        """What one thread asks within may share a connection."""


@dataclass
class Stored:
    """What was done since the start."""

    packs: int = 0
    panes: int = 0
    dropped: int = 0
    """Panes that left Redis for want of room before they were stored."""
    failed: int = 0


class Storing:
    """See the module's text. One thread at a time."""

    def __init__(
        self, shards: Shards, long_term: LongTerm, max_summary_bytes: int, most_ms: int, clock: Clock
    ) -> None:  # fmt: skip
        """max_summary_bytes: of partials in Redis; above it the oldest final panes are dropped. most_ms: no pack is
        begun later in a run than this."""
        self._shards, self._long_term, self._clock = shards, long_term, clock
        self._most_bytes, self._most_s = max_summary_bytes // len(shards), most_ms / 1000
        self._next = ""
        self._gone: dict[str, int] = {}
        self.counts = Stored()

    def run(self, aggregations: Sequence[Aggregation], wrong: Collection[str] = ()) -> None:
        """Store what can be stored in time, let go of what is past its retention, and of all packs of the ids `wrong`.
        Raises ServerDown; the same later goes on."""
        states, in_time = self._states(), True
        try:
            with self._long_term.together():
                in_time = self._store_all(aggregations, states)
                self._retire(aggregations, wrong, self._time_ms(states))
        except StoreError as error:
            self.counts.failed += 1
            logger.warning("final panes wait in Redis: %s", error)
        self._make_room(states, self._states(), in_time)

    def _time_ms(self, states: Sequence[ShardState]) -> int:
        """Now; never later than samples were listened for: a clock that runs ahead drops nothing too early."""
        return min([self._clock.now_ms(), *(state.alive_ms for state in states)])

    def _states(self) -> list[ShardState]:
        states = self._shards.states()
        missing = [number for number, state in enumerate(states) if state is None]
        if missing:
            raise LogDamaged(f"shard {missing[0]} has no metadata")
        return [state for state in states if state is not None]

    def _store_all(self, aggregations: Sequence[Aggregation], states: Sequence[ShardState]) -> bool:
        """Whether there was time for all; if not, the next run begins behind the aggregation that took it."""
        until_s, names = self._clock.monotonic_s() + self._most_s, [a.id for a in aggregations]
        first = names.index(self._next) if self._next in names else 0
        for place in range(first, first + len(names)):
            if not self._store(aggregations[place % len(names)], states, until_s):
                self._next = names[(place + 1) % len(names)]
                return False
        return True

    def _store(self, aggregation: Aggregation, states: Sequence[ShardState], until_s: float) -> bool:
        """Whether there was time for all its packs."""
        width_ms = aggregation.width_ms
        lasting_ms, span_ms = min(state.lasting_ms for state in states), PANES * width_ms
        indexes = self._shards.ask_all([(s, s.ask_ends(aggregation.id)) for s in self._shards.all])
        ends = [np.sort(np.array(reply, np.int64)) for reply in indexes]
        some = np.unique(np.concatenate(ends))
        for first_ms in np.unique((some - 1) // span_ms) * span_ms:
            if first_ms + span_ms <= lasting_ms:
                grid = np.arange(first_ms + width_ms, first_ms + span_ms + 1, width_ms, dtype=np.int64)
                self._store_pack(aggregation, grid, ends, states)
                if self._clock.monotonic_s() >= until_s:
                    return False
        return True

    def _store_pack(
        self, aggregation: Aggregation, grid: I64, ends: Sequence[I64], states: Sequence[ShardState]
    ) -> None:
        there = np.array([np.isin(grid, mine) for mine in ends])
        stored = np.isin(grid, self._long_term.ends(aggregation.id, int(grid[0]) - 1, int(grid[-1])))
        whole, never = there.all(axis=0), self._never(aggregation, grid, there, states)
        if not (whole | never | stored).all():
            return
        if whole.any() and not stored.any():
            summary = self._merged(aggregation, grid[whole])
            if summary is None:
                return
            self._long_term.insert(aggregation.id, summary)
            self.counts.packs += 1
            self.counts.panes += summary.panes
        for shard, mine in zip(self._shards.all, there, strict=True):
            if mine.any():
                shard.forget(aggregation.id, "stored", grid[mine])

    def _never(self, aggregation: Aggregation, grid: I64, there: Bool, states: Sequence[ShardState]) -> Bool:
        """Which panes some shard does not have and can never make."""
        never = np.zeros(len(grid), np.bool_)
        for mine, state in zip(there, states, strict=True):
            first_ms = max(state.base_ms + aggregation.reach_ms - 1, self._time_ms(states) - aggregation.retention_ms)
            never |= ~mine & (grid <= max(first_ms, state.born_ms))
        return never

    def _merged(self, aggregation: Aggregation, ends: I64) -> Summary | None:
        """The panes of all shards' partials; None where one is gone or damaged meanwhile."""
        replies = self._shards.ask_all([(s, s.ask_blobs(aggregation.id, ends)) for s in self._shards.all])
        parts = [self._part(aggregation.id, s, ends, blobs) for s, blobs in zip(self._shards.all, replies, strict=True)]
        if any(part.panes != len(ends) for part in parts):
            return None
        limits = Limits(max_samples=1 << 62, max_matrix_bytes=_LARGEST_MATRIX)
        return merged(aggregation, parts, Budget(limits, self._clock, _PATIENCE_MS, of_work=True))

    def _part(self, aggregation_id: str, shard: Shard, ends: I64, blobs: Sequence[bytes | None]) -> Summary:
        """One shard's panes, as far as they are there and whole."""
        pieces = []
        for end_ms, blob in zip(ends.tolist(), blobs, strict=True):
            try:
                pieces += [from_bytes(blob)] if blob is not None else []
            except BlobError as error:
                logger.error("shard %d: pane %d of %s is a gap: %s", shard.number, end_ms, aggregation_id, error)
                shard.forget(aggregation_id, "dropped", np.array([end_ms], np.int64))
        return joined(pieces, int(ends[0]) - 1, int(ends[-1]))

    def _retire(self, aggregations: Sequence[Aggregation], wrong: Collection[str], now_ms: int) -> None:
        kept = {a.id for a in aggregations}
        for aggregation in aggregations:
            self._long_term.drop(aggregation.id, now_ms - aggregation.retention_ms)
        gone = [name for name in self._long_term.aggregations() if name not in kept]
        self._gone = {name: self._gone.get(name, now_ms) for name in gone}
        for name in [name for name, since in self._gone.items() if name in wrong or now_ms - since >= _REMAINS_MS]:
            self._long_term.drop(name, _EVER_MS)

    def _make_room(self, before: Sequence[ShardState], now: Sequence[ShardState], in_time: bool) -> None:
        """Drop the oldest final panes of shards whose partials take too much, unless more time for storing will do."""
        for shard, was, state in zip(self._shards.all, before, now, strict=True):
            over = state.summary_bytes - self._most_bytes
            if over > 0 and (in_time or state.summary_bytes >= was.summary_bytes):
                self._drop_oldest(shard.number, state, over)

    def _drop_oldest(self, number: int, state: ShardState, over_bytes: int) -> None:
        shard = self._shards.all[number]
        names = shard.aggregations()
        panes = [(int(end), name) for name, index in zip(names, shard.index(names), strict=True) for end in index[0]]
        final = sorted(pane for pane in panes if pane[0] <= state.final_ms)
        each = max(1, state.summary_bytes // max(1, len(panes)))
        dropped = final[: -(-over_bytes // each)]
        for name in {name for _, name in dropped}:
            shard.forget(name, "dropped", np.array([end for end, of in dropped if of == name], np.int64))
        self.counts.dropped += len(dropped)
        if dropped:
            logger.error("shard %d: %d panes were dropped: redis.max_summary_bytes is reached", number, len(dropped))
