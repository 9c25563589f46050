"""Summaries in SQLite or PostgreSQL, through Django's ORM.

One row per piece (1 to 240 panes). A row is never changed: replacing panes deletes the rows that hold them and
writes others in the same transaction, so a row's id names its bytes for good, and caches need no invalidation.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from django.db import connections, transaction
from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Length

from precompute.errors import BlobError
from precompute.models import SummaryPack
from precompute.samples import I64
from precompute.stores.asking import asking
from precompute.stores.base import StoreError
from precompute.stores.blob import from_bytes, to_bytes
from precompute.stores.pane_index import (
    PaneIndex,
    index_between,
    index_bytes,
    index_from_bytes,
    index_of,
    index_to_bytes,
)
from precompute.stores.pieces import NEVER_MS, cut, joined, loose, shares_a_pane, without
from precompute.summaries import Summary, between, pack

log = logging.getLogger(__name__)

READ_ATTEMPTS = 10
"""Rows may be replaced or set aside between finding and loading them; then they are looked up again."""
IDS_PER_QUERY = 500
"""SQLite bounds the parameters of one statement."""
ROWS_PER_QUERY = 20_000
"""Of a long list: a server that says nothing for some seconds counts as away."""


@dataclass(frozen=True, slots=True)
class PieceRef:
    """A stored piece: its row, and what is known of its panes."""

    row: int
    aggregation_id: str
    index: PaneIndex
    last_end_ms: int

    @property
    def ends_ms(self) -> I64:
        return self.index.ends_ms


class Outline(NamedTuple):
    """What a reader of packs needs to know of one; `ends_ms` is None where they fill a stretch of the grid."""

    row: int
    aggregation_id: str
    first_end_ms: int
    last_end_ms: int
    ends_ms: I64 | None


@dataclass
class Change:
    """What a write did: aggregations it was about, rows that are gone, pieces that are new."""

    aggregations: set[str]
    removed: set[int] = field(default_factory=set)
    added: list[tuple[PieceRef, Summary]] = field(default_factory=list)


class DatabaseStore:
    """A SummaryStore on the database that Django calls `using`. Any thread may call it."""

    def __init__(self, using: str = "default") -> None:
        self._using = using
        self._writing = threading.Lock()

    def commit(self, summaries: Sequence[tuple[str, Summary]]) -> None:
        self.replace(summaries)

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        with self._database():
            for _ in range(READ_ATTEMPTS):
                refs = self._refs(self._touched(aggregation_id, after_ms, until_ms))
                loaded = self._load([ref.row for ref in refs])
                if len(loaded) == len(refs):
                    return joined([loaded[ref.row] for ref in refs], after_ms, until_ms)
        raise StoreError("the panes changed faster than they could be read")

    def ends(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        return self._index(aggregation_id, after_ms, until_ms).ends_ms

    def seen(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]:
        index = self._index(aggregation_id, after_ms, until_ms)
        return index.ends_ms, index.seen, index.plan

    def failed(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        return self._index(aggregation_id, after_ms, until_ms).failed()

    def seal(self, aggregation_id: str, until_ms: int) -> None:
        self.pack(aggregation_id, until_ms)

    def drop(self, aggregation_id: str, before_ms: int) -> None:
        self.forget(aggregation_id, before_ms)

    def rewind(self, aggregation_id: str, after_ms: int) -> None:
        self.cut_off(aggregation_id, after_ms)

    def discard(self, aggregation_id: str, ends_ms: I64) -> None:
        self.cut_out(aggregation_id, ends_ms)

    def aggregations(self) -> tuple[str, ...]:
        with self._database():
            return tuple(sorted(set(self._packs().values_list("aggregation_id", flat=True).distinct())))

    def size_bytes(self, aggregation_id: str) -> int:
        with self._database():
            packs = self._packs().filter(aggregation_id=aggregation_id)
            return int(packs.aggregate(total=Sum("size_bytes"))["total"] or 0)

    def insert(self, aggregation_id: str, pack: Summary) -> None:
        """Keep a pack, of one pane at least, unless one that ends with it is there.

        For several writers, who all make the same packs and never replace one.
        """
        with self._database():
            packs = SummaryPack.objects.using(self._using)
            packs.bulk_create([_pack_of(aggregation_id, pack)], ignore_conflicts=True)

    def refs(self) -> list[PieceRef]:
        """All pieces, by aggregation and last end."""
        with self._database():
            return self._refs(self._packs())

    def rows(self, after_row: int) -> I64:
        """All rows after this one, ascending: int64[r]."""
        parts = [np.array([after_row], np.int64)]
        with self._database():
            while len(parts) == 1 or len(parts[-1]) == ROWS_PER_QUERY:
                later = self._packs().filter(pk__gt=int(parts[-1][-1])).order_by("pk")
                parts.append(np.array(later.values_list("pk", flat=True)[:ROWS_PER_QUERY], np.int64))
        return np.concatenate(parts[1:])

    def outlines(self, rows: Sequence[int], panes: int) -> list[Outline]:
        """Of these rows, ascending and IDS_PER_QUERY at most, as far as they are there. panes: of a pack that fills its
        stretch of the grid, whose index is not read then."""
        with self._database():
            packs = self._packs().filter(_among(rows)).annotate(index_bytes=Length("panes"))
            found = packs.values_list("pk", "aggregation_id", "first_end_ms", "last_end_ms", "index_bytes")
            outlines = {one[0]: Outline(*one[:4], None) for one in found if _fills(one[2], one[3], one[4], panes)}
            for ref in self._refs(self._packs().filter(pk__in=set(rows) - outlines.keys())):
                ends_ms = ref.ends_ms.copy()  # of its own bytes: seen and plan are not kept
                outlines[ref.row] = Outline(ref.row, ref.aggregation_id, int(ends_ms[0]), ref.last_end_ms, ends_ms)
            return list(outlines.values())

    def together(self) -> AbstractContextManager[None]:
        """What this thread asks within needs no connection for each time. Raises StoreError."""
        return self._database()

    def release(self) -> None:
        """This thread reads and writes no more for now."""
        connections[self._using].close()

    def load(self, rows: Sequence[int]) -> dict[int, Summary]:
        """Summaries by row, of those rows that are there and whole."""
        with self._database():
            return self._load(rows)

    def replace(self, summaries: Sequence[tuple[str, Summary]]) -> Change:
        """`commit`, telling what changed."""
        with self._change({name for name, _ in summaries}) as change:
            for aggregation_id, summary in summaries:
                if summary.panes:
                    self._replace(aggregation_id, summary, change)
        return change

    def pack(self, aggregation_id: str, until_ms: int) -> Change:
        """`seal`, telling what changed."""
        with self._change({aggregation_id}) as change:
            refs = loose(self._refs(self._packs().filter(aggregation_id=aggregation_id)), until_ms)
            loaded = self._load([ref.row for ref in refs])
            if loaded:
                change.removed |= loaded.keys()
                self._delete(loaded)
                self._insert(aggregation_id, cut(pack([loaded[ref.row] for ref in refs if ref.row in loaded])), change)
        return change

    def forget(self, aggregation_id: str, before_ms: int) -> Change:
        """`drop`, telling what changed."""
        with self._change({aggregation_id}) as change:
            old = SummaryPack.objects.using(self._using).filter(
                aggregation_id=aggregation_id, last_end_ms__lte=before_ms
            )
            change.removed |= set(old.values_list("pk", flat=True))
            old.delete()
        return change

    def cut_off(self, aggregation_id: str, after_ms: int) -> Change:
        """`rewind`, telling what changed."""
        with self._change({aggregation_id}) as change:
            refs = self._refs(self._packs().filter(aggregation_id=aggregation_id, last_end_ms__gt=after_ms))
            across = self._load([ref.row for ref in refs if ref.ends_ms[0] <= after_ms])
            change.removed |= {ref.row for ref in refs}
            self._delete(change.removed)
            self._insert(aggregation_id, [between(piece, NEVER_MS, after_ms) for piece in across.values()], change)
        return change

    def cut_out(self, aggregation_id: str, ends_ms: I64) -> Change:
        """`discard`, telling what changed."""
        with self._change({aggregation_id}) as change:
            self._insert(aggregation_id, self._taken_out(aggregation_id, ends_ms, change), change)
        return change

    @contextmanager
    def _change(self, aggregations: set[str]) -> Iterator[Change]:
        with self._writing, self._database(), transaction.atomic(using=self._using):
            yield Change(aggregations)

    def _database(self) -> AbstractContextManager[None]:
        return asking(self._using, "summaries")

    def _packs(self) -> "QuerySet[SummaryPack]":
        return SummaryPack.objects.using(self._using).filter(damaged=False)

    def _touched(self, aggregation_id: str, after_ms: int, until_ms: int) -> "QuerySet[SummaryPack]":
        return self._packs().filter(aggregation_id=aggregation_id, last_end_ms__gt=after_ms, first_end_ms__lte=until_ms)

    def _index(self, aggregation_id: str, after_ms: int, until_ms: int) -> PaneIndex:
        with self._database():
            refs = self._refs(self._touched(aggregation_id, after_ms, until_ms))
            return index_between([ref.index for ref in refs], after_ms, until_ms)

    def _refs(self, packs: "QuerySet[SummaryPack]") -> list[PieceRef]:
        refs = []
        columns = ("pk", "aggregation_id", "last_end_ms", "panes")
        for row, aggregation_id, last_end_ms, panes in packs.order_by(*columns[1:3]).values_list(*columns):
            try:
                refs.append(PieceRef(row, aggregation_id, index_from_bytes(bytes(panes)), last_end_ms))
            except BlobError as e:
                self._set_aside(row, e)
        return refs

    def _load(self, rows: Sequence[int]) -> dict[int, Summary]:
        loaded = {}
        for i in range(0, len(rows), IDS_PER_QUERY):
            packs = self._packs().filter(pk__in=rows[i : i + IDS_PER_QUERY])
            for row, blob in packs.values_list("pk", "blob"):
                try:
                    loaded[row] = from_bytes(bytes(blob))
                except BlobError as e:
                    self._set_aside(row, e)
        return loaded

    def _set_aside(self, row: int, reason: BlobError) -> None:
        log.error("summary pack %d is set aside, its panes are gaps from now on: %s", row, reason)
        self._packs().filter(pk=row).update(damaged=True)

    def _replace(self, aggregation_id: str, summary: Summary, change: Change) -> None:
        rests = self._taken_out(aggregation_id, summary.ends_ms, change)
        self._insert(aggregation_id, [*rests, *cut(summary)], change)

    def _taken_out(self, aggregation_id: str, ends_ms: I64, change: Change) -> list[Summary]:
        """Delete the rows that hold these panes; what else they held."""
        refs = self._refs(self._touched(aggregation_id, int(ends_ms[0]) - 1, int(ends_ms[-1])))
        rows = {ref.row for ref in refs if shares_a_pane(ref, ends_ms)}
        whole = self._load([ref.row for ref in refs if ref.row in rows and len(ref.ends_ms) > 1])
        self._delete(rows)
        change.removed |= rows
        rests = [without(piece, ends_ms) for piece in whole.values()]
        return [rest for rest in rests if rest.panes]

    def _delete(self, rows: "set[int] | dict[int, Summary]") -> None:
        ids = list(rows)
        for i in range(0, len(ids), IDS_PER_QUERY):
            self._packs().filter(pk__in=ids[i : i + IDS_PER_QUERY]).delete()

    def _insert(self, aggregation_id: str, pieces: Sequence[Summary], change: Change) -> None:
        packs = [_pack_of(aggregation_id, piece) for piece in pieces]
        for made, piece in zip(SummaryPack.objects.using(self._using).bulk_create(packs), pieces, strict=True):
            change.added.append((PieceRef(made.pk, aggregation_id, index_of(piece), made.last_end_ms), piece))


def _pack_of(aggregation_id: str, piece: Summary) -> SummaryPack:
    panes, blob = index_to_bytes(index_of(piece)), to_bytes(piece)
    return SummaryPack(
        aggregation_id=aggregation_id,
        first_end_ms=int(piece.ends_ms[0]),
        last_end_ms=int(piece.ends_ms[-1]),
        panes=panes,
        blob=blob,
        size_bytes=len(panes) + len(blob),
    )


def _among(rows: Sequence[int]) -> Q:
    """These rows; those of a run without naming each, which takes the longer part of the time."""
    run = rows[-1] - rows[0] == len(rows) - 1
    return Q(pk__range=(rows[0], rows[-1])) if run else Q(pk__in=rows)


def _fills(first_end_ms: int, last_end_ms: int, length: int, panes: int) -> bool:
    """Whether a pack whose index has so many bytes has all `panes` of a stretch of the grid."""
    step_ms, rest = divmod(last_end_ms - first_end_ms, panes - 1)
    return length == index_bytes(panes) and step_ms > 0 and not rest and last_end_ms % (step_ms * panes) == 0
