"""Packs of the database as a reader holds them: decoded ones within a byte budget, and an index of all.

Others write: they only add rows and drop them, and a row's id names its bytes for good. `refresh` takes in the new
ones, and of those that are gone a reader finds out by itself.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from precompute.cluster.pack_index import Columns, KnownPacks, step_of
from precompute.cluster.storing import PANES
from precompute.samples import I64
from precompute.stores.base import StoreError
from precompute.stores.cached import Rows
from precompute.stores.database import IDS_PER_QUERY, READ_ATTEMPTS, DatabaseStore, Outline
from precompute.stores.pieces import joined
from precompute.summaries import Summary

_EVER_MS = 1 << 62


class PackReader:
    """Any thread may call it; all but `ends` and `at_hand` may raise StoreError. It knows of no pack at first."""

    def __init__(self, database: DatabaseStore, max_bytes: int) -> None:
        """max_bytes: of decoded packs, roughly."""
        self._database = database
        self._decoded = Rows(database, max_bytes)
        self._changing = threading.Lock()
        self._known: Mapping[str, KnownPacks] = {}

    def refresh(self, after_row: int) -> int:
        """Take in what others wrote in rows after this one, and let go of those of them that are gone.

        The largest row that was found; `after_row` where none was.
        """
        with self._changing, self._database.together():
            there = self._database.rows(after_row)
            held = np.concatenate([np.zeros(0, np.int64), *(packs.rows for packs in self._known.values())])
            held = held[held > after_row]
            self._take_in(np.setdiff1d(there, held), np.setdiff1d(held, there))
            return int(there[-1]) if len(there) else after_row

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        for _ in range(READ_ATTEMPTS):
            rows = self._rows(aggregation_id, after_ms, until_ms)
            pieces = self._decoded.get(rows, aggregation_id)
            if len(pieces) == len(rows):
                return joined([pieces[row] for row in rows], after_ms, until_ms)
            with self._changing:
                self._take_in(np.zeros(0, np.int64), np.array([row for row in rows if row not in pieces], np.int64))
        raise StoreError("the panes changed faster than they could be read")

    def at_hand(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        """Those of the panes that are in memory; asks nobody."""
        held = [self._decoded.cache.get(row) for row in self._rows(aggregation_id, after_ms, until_ms)]
        return joined([piece for piece in held if piece is not None], after_ms, until_ms)

    def ends(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        known = self._known.get(aggregation_id)
        return np.zeros(0, np.int64) if known is None else known.ends(after_ms, until_ms)

    def drop(self, aggregation_id: str) -> None:
        """Let go of all its packs: here at once, in the database if it can be asked."""
        with self._changing:
            self._known = {name: packs for name, packs in self._known.items() if name != aggregation_id}
        self._database.drop(aggregation_id, _EVER_MS)

    def size_bytes(self, aggregation_id: str) -> int:
        return self._database.size_bytes(aggregation_id)

    def release(self) -> None:
        """This thread reads no more for now."""
        self._database.release()

    def _rows(self, aggregation_id: str, after_ms: int, until_ms: int) -> list[int]:
        known = self._known.get(aggregation_id)
        return [] if known is None else known.rows_between(after_ms, until_ms)

    def _take_in(self, new: I64, gone: I64) -> None:
        known = {name: packs.without(gone) if len(gone) else packs for name, packs in self._known.items()}
        for name, (columns, odd) in self._read(new).items():
            known[name] = known.get(name, KnownPacks()).joined(columns, odd)
        self._known = {name: packs for name, packs in known.items() if len(packs.rows)}

    def _read(self, rows: I64) -> dict[str, tuple[Columns, dict[int, I64]]]:
        """What is to be known of these rows, by aggregation; a part at a time, which is all that is held of it."""
        parts: defaultdict[str, list[I64]] = defaultdict(list)
        odd: defaultdict[str, dict[int, I64]] = defaultdict(dict)
        for at in range(0, len(rows), IDS_PER_QUERY):
            found: defaultdict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
            for one in self._database.outlines(rows[at : at + IDS_PER_QUERY].tolist(), PANES):
                step_ms = _step(one)
                found[one.aggregation_id].append((one.row, one.first_end_ms, one.last_end_ms, step_ms))
                if not step_ms and one.ends_ms is not None:
                    odd[one.aggregation_id][one.row] = one.ends_ms
            for name, numbers in found.items():
                parts[name].append(np.array(numbers, np.int64))
        return {name: (Columns(*np.concatenate(of).T.copy()), odd[name]) for name, of in parts.items()}


def _step(one: Outline) -> int:
    if one.ends_ms is None:
        return (one.last_end_ms - one.first_end_ms) // (PANES - 1)
    return step_of(one.ends_ms)
