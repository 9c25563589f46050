"""Summaries of a cluster as queries read them: packs of the database, and open panes merged from all shards' partials.

A merged pane is cached under the number of its last change, so one that was replaced in any shard is merged again. A
pane is there only if all shards have a partial, or the database has it. Where servers or the database are away their
panes are gaps, which other tiers fill.
"""

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import Clock
from precompute.cluster.open_panes import OpenPanes
from precompute.cluster.packs import Packs
from precompute.cluster.server import ServerDown
from precompute.cluster.shard import Shard
from precompute.cluster.shards import Shards
from precompute.errors import BlobError
from precompute.evaluate.limits import Budget, Limits
from precompute.pane_book import NONE
from precompute.partials import merged
from precompute.samples import I64, Bool
from precompute.stores.blob import from_bytes
from precompute.stores.cached import PieceCache
from precompute.stores.pieces import Keys, with_keys
from precompute.summaries import Summary, empty, pack, select

logger = logging.getLogger(__name__)

_PANES_AT_ONCE = 60
_LARGEST_MATRIX = 1 << 31
_PATIENCE_MS = 60_000

_Pane = tuple[str, int, int]
"""Aggregation, end, number of the last change."""


class MergedStore:
    """A SummaryReader; nothing raises."""

    def __init__(self, shards: Shards, panes: OpenPanes, packs: Packs, cache_bytes: int, clock: Clock) -> None:
        self._shards, self._panes, self._packs, self._clock = shards, panes, packs, clock
        self._cache = PieceCache[_Pane](cache_bytes)
        self._keys: dict[str, Keys] = {}
        self.failures = 0

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        aggregation = self._panes.kept.get(aggregation_id)
        if aggregation is None:
            return self._packs.get(aggregation_id, after_ms, until_ms)
        # first: what is read is as new, and what is stored meanwhile is in one place at least
        ends, changed = self._panes.whole(aggregation, after_ms, until_ms)
        stored = self._packs.get(aggregation_id, after_ms, until_ms)
        wanted = ~np.isin(ends, stored.ends_ms)
        pieces = self._open(aggregation, ends[wanted], changed[wanted])
        if len(pieces) < wanted.sum() and self._packs.refresh_for_query():  # perhaps they were stored meanwhile
            stored = self._packs.get(aggregation_id, after_ms, until_ms)
            pieces = [piece for piece in pieces if piece.ends_ms[0] not in stored.ends_ms]
        parts = [part for part in (stored, *pieces) if part.panes]
        return pack(parts) if parts else empty(())

    def size_bytes(self, aggregation_id: str) -> int:
        try:
            asked = self._shards.ask_all([(shard, shard.ask_bytes(aggregation_id)) for shard in self._shards.all])
        except ServerDown as error:
            self._failed(error)
            asked = []
        return self._packs.size_bytes(aggregation_id) + sum(size or 0 for size in asked)

    def drop(self, aggregation_id: str) -> None:
        """Let go of all its panes, as far as servers and database can be asked. Whoever computes them learns of it by
        the plan."""
        self._packs.drop(aggregation_id)
        for shard in self._shards.all:
            try:
                ends, _, _ = shard.index([aggregation_id])[0]
                if len(ends):
                    shard.forget(aggregation_id, "dropped", ends)
            except ServerDown as error:
                self._failed(error)

    def cache_bytes(self) -> int:
        """Bytes of merged panes held now."""
        return self._cache.size_bytes

    def _open(self, aggregation: Aggregation, ends_ms: I64, changed: I64) -> list[Summary]:
        """The panes, as far as they are to be had, each alone."""
        names = [(aggregation.id, end, number) for end, number in zip(ends_ms.tolist(), changed.tolist(), strict=True)]
        found = {name: self._cache.get(name) for name in names}
        missing = [name for name, piece in found.items() if piece is None]
        for at in range(0, len(missing) if self._panes.in_touch() else 0, _PANES_AT_ONCE):
            found |= self._fetched(aggregation, missing[at : at + _PANES_AT_ONCE])
        return [piece for piece in found.values() if piece is not None]

    def _fetched(self, aggregation: Aggregation, names: Sequence[_Pane]) -> dict[_Pane, Summary]:
        whole = self._merged(aggregation, np.array([end for _, end, _ in names], np.int64))
        places = {end: place for place, end in enumerate(whole.ends_ms.tolist())}
        pieces = {name: select(whole, np.array([places[name[1]]])) for name in names if name[1] in places}
        for name, piece in pieces.items():
            self._cache.put(name, piece)
        return pieces

    def _merged(self, aggregation: Aggregation, ends_ms: I64) -> Summary:
        """Of the panes that all shards have, in one piece; not of those that a server, started anew, has older."""
        shards, seen = self._shards.all, self._panes.seen(aggregation, ends_ms)  # first: what is read is as new
        try:
            replies = self._shards.ask_all([(shard, shard.ask_blobs(aggregation.id, ends_ms)) for shard in shards])
        except ServerDown as error:
            self._failed(error)
            return empty(())
        parts = [self._decoded(shard, aggregation, blobs) for shard, blobs in zip(shards, replies, strict=True)]
        found = [_as_new(part, ends_ms, least) for part, least in zip(parts, seen, strict=True)]
        whole = ends_ms[np.all(found, axis=0)].tolist()
        if not whole:
            return empty(())
        limits = Limits(max_samples=1 << 62, max_matrix_bytes=_LARGEST_MATRIX)
        budget = Budget(limits, self._clock, _PATIENCE_MS, of_work=True)
        made = merged(aggregation, [pack([part[end] for end in whole]) for part in parts], budget)
        shared = with_keys(made, self._keys.get(aggregation.id))
        self._keys[aggregation.id] = shared.keys
        return shared

    def _decoded(
        self, shard: Shard, aggregation: Aggregation, blobs: Sequence[bytes | None]
    ) -> dict[int, Summary]:  # fmt: skip
        """A shard's partials by end, of those that are there and whole."""
        decoded: dict[int, Summary] = {}
        known: Keys | None = None
        for blob in blobs:
            try:
                part = None if blob is None else with_keys(from_bytes(blob), known)
            except BlobError as error:
                self.failures += 1
                logger.error("a pane of %s in shard %d is a gap: %s", aggregation.id, shard.number, error)
                continue
            if part is not None:
                known, decoded[int(part.ends_ms[0])] = part.keys, part
        return decoded

    def _failed(self, error: ServerDown) -> None:
        """Only counted: who follows the server's logs tells that it is away."""
        self.failures += 1
        logger.debug("open panes cannot be read: %s", error)


def _as_new(part: Mapping[int, Summary], ends_ms: I64, least: I64) -> Bool:
    """Which of the panes are there and have seen so much, bool[p]."""
    seen = [part[end].seen[0] if end in part else NONE for end in ends_ms.tolist()]
    return np.array(seen, np.int64) >= np.maximum(least, 0)
