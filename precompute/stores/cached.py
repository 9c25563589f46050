"""Memory in front of the database: decoded pieces within a byte budget, and the index of all panes.

Since a row's id names its bytes for good, a cached piece is never out of date. The index held here is the database's
since this process is its only writer: it is changed after each write has been committed.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from precompute.samples import I64
from precompute.stores.base import StoreError
from precompute.stores.database import READ_ATTEMPTS, Change, DatabaseStore, PieceRef
from precompute.stores.pane_index import PaneIndex, index_between
from precompute.stores.pieces import Keys, joined, loose, touches, with_keys
from precompute.summaries import Summary

Refs = Mapping[str, tuple[PieceRef, ...]]
Key = TypeVar("Key", bound=Hashable)


class PieceCache(Generic[Key]):
    """Decoded pieces by row, or by what else names them for good. The least recently used ones are dropped beyond
    `max_bytes`. Any thread may call it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: OrderedDict[Key, Summary] = OrderedDict()
        self._lock = threading.Lock()
        self.size_bytes = 0

    def get(self, key: Key) -> Summary | None:
        with self._lock:
            piece = self._pieces.get(key)
            if piece is not None:
                self._pieces.move_to_end(key)
            return piece

    def put(self, key: Key, piece: Summary) -> None:
        with self._lock:
            self._forget(key)
            self._pieces[key] = piece
            self.size_bytes += piece.size_bytes()
            while self.size_bytes > self._max_bytes:
                self._forget(next(iter(self._pieces)))

    def forget(self, key: Key) -> None:
        with self._lock:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        piece = self._pieces.pop(key, None)
        self.size_bytes -= piece.size_bytes() if piece else 0


class Rows:
    """Rows of the database, decoded once as long as the cache holds them; pieces of an aggregation share their keys.
    Any thread may call it."""

    def __init__(self, database: DatabaseStore, max_bytes: int) -> None:
        self.cache = PieceCache[int](max_bytes)
        self._database = database
        self._keys: dict[str, Keys] = {}

    def get(self, rows: Sequence[int], aggregation_id: str) -> dict[int, Summary]:
        """Those of an aggregation's rows that are there and whole. Raises StoreError."""
        pieces = {row: piece for row in rows if (piece := self.cache.get(row)) is not None}
        if missing := [row for row in rows if row not in pieces]:
            for row, piece in self._database.load(missing).items():
                pieces[row] = self.sharing_keys(aggregation_id, piece)
                self.cache.put(row, pieces[row])
        return pieces

    def sharing_keys(self, aggregation_id: str, piece: Summary) -> Summary:
        shared = with_keys(piece, self._keys.get(aggregation_id))
        self._keys[aggregation_id] = shared.keys
        return shared

    def forget_keys(self, aggregation_id: str) -> None:
        """Nothing of the aggregation is there any more."""
        self._keys.pop(aggregation_id, None)


class CachedStore:
    """A SummaryStore. Readers work on the index they found; writers put another in its place."""

    def __init__(self, database: DatabaseStore, max_bytes: int) -> None:
        """max_bytes: of decoded pieces, roughly."""
        self._database = database
        self._rows = Rows(database, max_bytes)
        self._writing = threading.Lock()
        self._refs = _by_aggregation(database.refs())

    def commit(self, summaries: Sequence[tuple[str, Summary]]) -> None:
        with self._writing:
            self._apply(self._database.replace([(name, self._rows.sharing_keys(name, s)) for name, s in summaries]))

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        for _ in range(READ_ATTEMPTS):
            refs = [ref for ref in self._refs.get(aggregation_id, ()) if touches(ref, after_ms, until_ms)]
            pieces = self._rows.get([ref.row for ref in refs], aggregation_id)
            if len(pieces) == len(refs):
                return joined([pieces[ref.row] for ref in refs], after_ms, until_ms)
            self._leave_out(aggregation_id, {ref.row for ref in refs} - pieces.keys())
        raise StoreError("the panes changed faster than they could be read")

    def ends(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        return self._index(aggregation_id, after_ms, until_ms).ends_ms

    def seen(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]:
        index = self._index(aggregation_id, after_ms, until_ms)
        return index.ends_ms, index.seen, index.plan

    def failed(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        return self._index(aggregation_id, after_ms, until_ms).failed()

    def seal(self, aggregation_id: str, until_ms: int) -> None:
        with self._writing:
            if loose(self._refs.get(aggregation_id, ()), until_ms):  # else every tick would ask the database
                self._apply(self._database.pack(aggregation_id, until_ms))

    def drop(self, aggregation_id: str, before_ms: int) -> None:
        with self._writing:
            if any(ref.last_end_ms <= before_ms for ref in self._refs.get(aggregation_id, ())):
                self._apply(self._database.forget(aggregation_id, before_ms))

    def rewind(self, aggregation_id: str, after_ms: int) -> None:
        with self._writing:
            if any(ref.last_end_ms > after_ms for ref in self._refs.get(aggregation_id, ())):
                self._apply(self._database.cut_off(aggregation_id, after_ms))

    def discard(self, aggregation_id: str, ends_ms: I64) -> None:
        with self._writing:
            self._apply(self._database.cut_out(aggregation_id, ends_ms))

    def aggregations(self) -> tuple[str, ...]:
        return tuple(sorted(self._refs))

    def size_bytes(self, aggregation_id: str) -> int:
        return self._database.size_bytes(aggregation_id)

    def cache_bytes(self) -> int:
        """Bytes of decoded pieces held now."""
        return self._rows.cache.size_bytes

    def _index(self, aggregation_id: str, after_ms: int, until_ms: int) -> PaneIndex:
        refs = self._refs.get(aggregation_id, ())
        return index_between([ref.index for ref in refs if touches(ref, after_ms, until_ms)], after_ms, until_ms)

    def _apply(self, change: Change) -> None:
        """Cache first, index second: whoever finds a new piece in the index finds it in the cache."""
        for ref, piece in change.added:
            self._rows.cache.put(ref.row, piece)
        self._publish(change)
        for row in change.removed:
            self._rows.cache.forget(row)

    def _publish(self, change: Change) -> None:
        refs = dict(self._refs)
        for name in change.aggregations:
            kept = [ref for ref in refs.get(name, ()) if ref.row not in change.removed]
            kept += [ref for ref, _ in change.added if ref.aggregation_id == name]
            refs[name] = tuple(sorted(kept, key=lambda ref: ref.last_end_ms))
        self._refs = {name: held for name, held in refs.items() if held}
        for name in change.aggregations - self._refs.keys():
            self._rows.forget_keys(name)

    def _leave_out(self, aggregation_id: str, rows: set[int]) -> None:
        """Rows that a reader did not find: replaced in the meantime, and no longer in the index, or set aside."""
        with self._writing:
            self._publish(Change({aggregation_id}, removed=rows))


def _by_aggregation(refs: Sequence[PieceRef]) -> Refs:
    """References of each aggregation; `refs` are in order of their last ends, at least within each."""
    grouped: dict[str, list[PieceRef]] = {}
    for ref in refs:
        grouped.setdefault(ref.aggregation_id, []).append(ref)
    return {name: tuple(held) for name, held in grouped.items()}
