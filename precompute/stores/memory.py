"""Summaries in this process' memory: the reference implementation, and the store of installs without a database."""

import threading
from collections.abc import Sequence

from precompute.samples import I64
from precompute.stores.pane_index import PaneIndex, index_between, index_of
from precompute.stores.pieces import (
    NEVER_MS,
    cut,
    joined,
    loose,
    shares_a_pane,
    touches,
    with_keys,
    without,
)
from precompute.summaries import Summary, between, pack

Pieces = tuple[Summary, ...]


class MemoryStore:
    """A SummaryStore. Readers work on the tuple of pieces they found; writers put another in its place."""

    def __init__(self) -> None:
        self._pieces: dict[str, Pieces] = {}
        self._writing = threading.Lock()

    def commit(self, summaries: Sequence[tuple[str, Summary]]) -> None:
        with self._writing:
            pieces = dict(self._pieces)
            for aggregation_id, summary in summaries:
                if summary.panes:
                    pieces[aggregation_id] = _replaced(pieces.get(aggregation_id, ()), summary)
            self._pieces = pieces

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        return joined(self._touched(aggregation_id, after_ms, until_ms), after_ms, until_ms)

    def ends(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        return self._index(aggregation_id, after_ms, until_ms).ends_ms

    def seen(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]:
        index = self._index(aggregation_id, after_ms, until_ms)
        return index.ends_ms, index.seen, index.plan

    def failed(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        return self._index(aggregation_id, after_ms, until_ms).failed()

    def seal(self, aggregation_id: str, until_ms: int) -> None:
        with self._writing:
            pieces = self._pieces.get(aggregation_id, ())
            if packing := loose(pieces, until_ms):
                gone = {id(piece) for piece in packing}
                kept = [piece for piece in pieces if id(piece) not in gone]
                self._put(aggregation_id, _ordered([*kept, *cut(pack(packing))]))

    def drop(self, aggregation_id: str, before_ms: int) -> None:
        with self._writing:
            pieces = self._pieces.get(aggregation_id, ())
            self._put(aggregation_id, tuple(p for p in pieces if p.ends_ms[-1] > before_ms))

    def rewind(self, aggregation_id: str, after_ms: int) -> None:
        with self._writing:
            kept = [between(piece, NEVER_MS, after_ms) for piece in self._pieces.get(aggregation_id, ())]
            self._put(aggregation_id, _ordered([piece for piece in kept if piece.panes]))

    def discard(self, aggregation_id: str, ends_ms: I64) -> None:
        with self._writing:
            self._put(aggregation_id, _ordered(_others(self._pieces.get(aggregation_id, ()), ends_ms)))

    def aggregations(self) -> tuple[str, ...]:
        return tuple(sorted(self._pieces))

    def size_bytes(self, aggregation_id: str) -> int:
        return sum(piece.size_bytes() for piece in self._pieces.get(aggregation_id, ()))

    def _put(self, aggregation_id: str, pieces: Pieces) -> None:
        others = {name: held for name, held in self._pieces.items() if name != aggregation_id}
        self._pieces = {**others, aggregation_id: pieces} if pieces else others

    def _touched(self, aggregation_id: str, after_ms: int, until_ms: int) -> list[Summary]:
        return [p for p in self._pieces.get(aggregation_id, ()) if touches(p, after_ms, until_ms)]

    def _index(self, aggregation_id: str, after_ms: int, until_ms: int) -> PaneIndex:
        touched = self._touched(aggregation_id, after_ms, until_ms)
        return index_between([index_of(piece) for piece in touched], after_ms, until_ms)


def _replaced(pieces: Pieces, summary: Summary) -> Pieces:
    """The pieces with the summary's panes in place of theirs."""
    new = with_keys(summary, pieces[-1].keys if pieces else None)
    return _ordered([*_others(pieces, summary.ends_ms), *cut(new)])


def _others(pieces: Pieces, ends_ms: I64) -> list[Summary]:
    """The pieces without the panes that end then."""
    kept = [without(p, ends_ms) if shares_a_pane(p, ends_ms) else p for p in pieces]
    return [p for p in kept if p.panes]


def _ordered(pieces: Sequence[Summary]) -> Pieces:
    return tuple(sorted(pieces, key=lambda piece: int(piece.ends_ms[-1])))
