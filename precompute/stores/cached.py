"""Memory in front of the database: decoded pieces within a byte budget, and the index of all panes.

Since a row's id names its bytes for good, a cached piece is never out of date. The index held here is the database's
where this process is its only writer: it is changed after each write has been committed. Where others write, they only
add rows and drop them; `refresh` takes in the new ones, and of those that are gone a reader finds out by itself.
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


class CachedStore:
    """A SummaryStore. Readers work on the index they found; writers put another in its place."""

    def __init__(self, database: DatabaseStore, max_bytes: int, known: Sequence[PieceRef] | None = None) -> None:
        """max_bytes: of decoded pieces, roughly. known: the index, which is read where it is not given."""
        self._database = database
        self._cache = PieceCache[int](max_bytes)
        self._writing = threading.Lock()
        self._refs = _by_aggregation(database.refs() if known is None else known)
        self._keys: dict[str, Keys] = {}

    def refresh(self, after_row: int) -> int:
        """Take in what others wrote in rows after this one, and let go of those of them that are gone.

        The largest row that was found; `after_row` where none was.
        """
        with self._writing:
            found = self._database.refs(after_row)
            held = {ref.row for refs in self._refs.values() for ref in refs if ref.row > after_row}
            gone, new = held - {ref.row for ref in found}, [ref for ref in found if ref.row not in held]
            if gone or new:
                kept = [ref for refs in self._refs.values() for ref in refs if ref.row not in gone]
                self._refs = _by_aggregation(sorted([*kept, *new], key=lambda ref: ref.last_end_ms))
            return max([after_row, *(ref.row for ref in found)])

    def commit(self, summaries: Sequence[tuple[str, Summary]]) -> None:
        with self._writing:
            self._apply(self._database.replace([(name, self._sharing_keys(name, s)) for name, s in summaries]))

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        for _ in range(READ_ATTEMPTS):
            refs = [ref for ref in self._refs.get(aggregation_id, ()) if touches(ref, after_ms, until_ms)]
            pieces = self._pieces([ref.row for ref in refs], aggregation_id)
            if len(pieces) == len(refs):
                return joined([pieces[ref.row] for ref in refs], after_ms, until_ms)
            self._leave_out(aggregation_id, {ref.row for ref in refs} - pieces.keys())
        raise StoreError("the panes changed faster than they could be read")

    def at_hand(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        """Those of the panes that are in memory; asks nobody."""
        refs = [ref for ref in self._refs.get(aggregation_id, ()) if touches(ref, after_ms, until_ms)]
        held = [self._cache.get(ref.row) for ref in refs]
        return joined([piece for piece in held if piece is not None], after_ms, until_ms)

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

    def leave_out(self, aggregation_id: str) -> None:
        """Know of none of its panes any more, as far as they were known; the database is not asked."""
        self._leave_out(aggregation_id, {ref.row for ref in self._refs.get(aggregation_id, ())})

    def aggregations(self) -> tuple[str, ...]:
        return tuple(sorted(self._refs))

    def size_bytes(self, aggregation_id: str) -> int:
        return self._database.size_bytes(aggregation_id)

    def release(self) -> None:
        """This thread reads and writes no more for now."""
        self._database.release()

    def cache_bytes(self) -> int:
        """Bytes of decoded pieces held now."""
        return self._cache.size_bytes

    def _index(self, aggregation_id: str, after_ms: int, until_ms: int) -> PaneIndex:
        refs = self._refs.get(aggregation_id, ())
        return index_between([ref.index for ref in refs if touches(ref, after_ms, until_ms)], after_ms, until_ms)

    def _pieces(self, rows: Sequence[int], aggregation_id: str) -> dict[int, Summary]:
        pieces = {row: piece for row in rows if (piece := self._cache.get(row)) is not None}
        if missing := [row for row in rows if row not in pieces]:
            for row, piece in self._database.load(missing).items():
                pieces[row] = self._sharing_keys(aggregation_id, piece)
                self._cache.put(row, pieces[row])
        return pieces

    def _sharing_keys(self, aggregation_id: str, piece: Summary) -> Summary:
        shared = with_keys(piece, self._keys.get(aggregation_id))
        self._keys[aggregation_id] = shared.keys
        return shared

    def _apply(self, change: Change) -> None:
        """Cache first, index second: whoever finds a new piece in the index finds it in the cache."""
        for ref, piece in change.added:
            self._cache.put(ref.row, piece)
        self._publish(change)
        for row in change.removed:
            self._cache.forget(row)

    def _publish(self, change: Change) -> None:
        refs = dict(self._refs)
        for name in change.aggregations:
            kept = [ref for ref in refs.get(name, ()) if ref.row not in change.removed]
            kept += [ref for ref, _ in change.added if ref.aggregation_id == name]
            refs[name] = tuple(sorted(kept, key=lambda ref: ref.last_end_ms))
        self._refs = {name: held for name, held in refs.items() if held}
        for name in change.aggregations - self._refs.keys():
            self._keys.pop(name, None)

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
