"""Partials of one shard as a SummaryStore: kept in Redis until the long-term store has the merged panes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from precompute.clock import Clock
from precompute.cluster.replies import PaneBlob
from precompute.cluster.server import ServerDown, ServerFull
from precompute.cluster.shard import Shard
from precompute.errors import BlobError
from precompute.samples import I64
from precompute.stores.base import StoreError
from precompute.stores.blob import from_bytes, to_bytes
from precompute.stores.pieces import joined
from precompute.summaries import FAILED, Summary, select

_EVER_MS = 1 << 62
_AGAIN_S = 10.0
_COMMIT_BYTES = 1 << 20
"""Redis answers nobody else while it takes a commit."""

Commit = Callable[[str, int, Sequence[PaneBlob]], None]
"""Put panes of an aggregation in place, which have seen this log entry; raises where the shard is not ours."""


class Stored(Protocol):
    """The long-term store, as far as it tells what it has."""

    def seen(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]: ...


class NotAtOnceAgain:
    """A long-term store that is not asked again shortly after it failed: each time may take seconds."""

    def __init__(self, stored: Stored, clock: Clock) -> None:
        self._stored, self._clock, self._again_s = stored, clock, 0.0

    def seen(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]:
        if self._clock.monotonic_s() < self._again_s:
            raise StoreError("it failed a moment ago")
        try:
            return self._stored.seen(aggregation_id, after_ms, until_ms)
        except StoreError:
            self._again_s = self._clock.monotonic_s() + _AGAIN_S
            raise


class PartialStore:
    """See the module's text; panes that only the long-term store has are known by their ends.

    What a commit promises holds for each aggregation and about a MB of panes. Plans are not told: 1 stands for all.
    """

    def __init__(self, shard: Shard, commit: Commit, stored: Stored) -> None:
        self._shard, self._commit, self._stored = shard, commit, stored
        self._oldest_ms: dict[str, int] = {}
        """No pane here ends earlier; so that most calls of `drop` ask nothing."""

    def commit(self, summaries: Sequence[tuple[str, Summary]]) -> None:
        with _errors():
            for aggregation_id, summary in summaries:
                for seen in np.unique(summary.seen):  # one, unless panes of several ticks come together
                    same = select(summary, np.flatnonzero(summary.seen == seen))
                    for part in _parts([_pane(same, pane) for pane in range(same.panes)]):
                        self._commit(aggregation_id, int(seen), part)
                self._note(aggregation_id, summary.ends_ms)

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        with _errors():
            blobs = self._shard.blobs(aggregation_id, self._index(aggregation_id, after_ms, until_ms)[0])
        return joined([piece for blob in blobs if (piece := _read(blob)) is not None], after_ms, until_ms)

    def ends(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        with _errors():
            return self._index(aggregation_id, after_ms, until_ms)[0]

    def seen(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]:
        with _errors():
            ends, seen, _ = self._index(aggregation_id, after_ms, until_ms)
        try:
            old_ends, _, _ = self._stored.seen(aggregation_id, after_ms, until_ms)
        except StoreError:  # then they are made again, which changes nothing
            old_ends = np.zeros(0, np.int64)
        older = old_ends[~np.isin(old_ends, ends)]
        ends, seen = np.concatenate([ends, older]), np.concatenate([seen, np.zeros(len(older), np.int64)])
        order = np.argsort(ends)
        return ends[order], seen[order], np.ones(len(ends), np.int64)

    def failed(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        with _errors():
            ends, _, flags = self._index(aggregation_id, after_ms, until_ms)
        return np.asarray(ends[(flags & FAILED) != 0])

    def seal(self, aggregation_id: str, until_ms: int) -> None:
        """Final panes are packed where they are stored for long."""

    def drop(self, aggregation_id: str, before_ms: int) -> None:
        if self._oldest_ms.get(aggregation_id, 0) <= before_ms:
            self._forget(aggregation_id, 0, before_ms)
            left = self.ends(aggregation_id, before_ms, _EVER_MS)
            self._oldest_ms[aggregation_id] = int(left[0]) if len(left) else _EVER_MS

    def rewind(self, aggregation_id: str, after_ms: int) -> None:
        self._forget(aggregation_id, after_ms, _EVER_MS)

    def discard(self, aggregation_id: str, ends_ms: I64) -> None:
        with _errors():
            held, _, _ = self._index(aggregation_id, int(ends_ms[0]) - 1, int(ends_ms[-1]))
            gone = held[np.isin(held, ends_ms)]
            if len(gone):
                self._shard.forget(aggregation_id, "dropped", gone)

    def aggregations(self) -> tuple[str, ...]:
        with _errors():
            return self._shard.aggregations()

    def size_bytes(self, aggregation_id: str) -> int:
        with _errors():
            blobs = self._shard.blobs(aggregation_id, self._index(aggregation_id, 0, _EVER_MS)[0])
        return sum(len(blob) for blob in blobs if blob is not None)

    def _forget(self, aggregation_id: str, after_ms: int, until_ms: int) -> None:
        with _errors():
            ends, _, _ = self._index(aggregation_id, after_ms, until_ms)
            if len(ends):
                self._shard.forget(aggregation_id, "dropped", ends)

    def _note(self, aggregation_id: str, ends_ms: I64) -> None:
        known = self._oldest_ms.get(aggregation_id)
        if known is not None and len(ends_ms):
            self._oldest_ms[aggregation_id] = min(known, int(ends_ms[0]))

    def _index(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]:
        ends, seen, flags = self._shard.index([aggregation_id])[0]
        inside = (ends > after_ms) & (ends <= until_ms)
        return ends[inside], seen[inside], flags[inside].astype(np.int64)


def _pane(summary: Summary, pane: int) -> PaneBlob:
    blob = to_bytes(select(summary, np.array([pane])))
    return PaneBlob(int(summary.ends_ms[pane]), int(summary.flags[pane]), blob)


def _parts(panes: Sequence[PaneBlob]) -> Iterator[Sequence[PaneBlob]]:
    """In parts of about a commit's bytes, one pane at least."""
    part: list[PaneBlob] = []
    size = 0
    for pane in panes:
        if part and size + len(pane.blob) > _COMMIT_BYTES:
            yield part
            part, size = [], 0
        part.append(pane)
        size += len(pane.blob)
    if part:
        yield part


@contextmanager
def _errors() -> Iterator[None]:
    """The border where Redis' errors become StoreError."""
    try:
        yield
    except (ServerDown, ServerFull) as error:
        raise StoreError(str(error)) from error


def _read(blob: bytes | None) -> Summary | None:
    """None for a blob that is gone or damaged: a gap."""
    try:
        return None if blob is None else from_bytes(blob)
    except BlobError:
        return None
