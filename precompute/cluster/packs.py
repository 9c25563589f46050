"""Packs: final panes in the database, as a query engine reads them. While it is away they are gaps, and counted."""

import logging
import threading
from collections import deque

import numpy as np

from precompute.clock import Clock
from precompute.cluster.pack_reader import PackReader
from precompute.samples import I64, Bool
from precompute.stores.base import StoreError
from precompute.summaries import Summary

logger = logging.getLogger(__name__)

_ALL_AGAIN_S, _NOT_AGAIN_S, _BRIEFLY_S = 600.0, 0.2, 1.0
_LONGEST_WRITE_S = 60.0
"""Rows get their numbers before they are seen: a smaller one may come so long after a larger one."""


class Packs:
    """Any thread may call it; nothing raises."""

    def __init__(self, store: PackReader, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._all_s: float | None = None
        self._rows: deque[tuple[float, int]] = deque()
        self.failures = 0
        self.away = False
        """The database failed; until a refresh succeeds no query waits for it."""

    def get(self, aggregation_id: str, after_ms: int, until_ms: int) -> Summary:
        """The panes that are there and can be read."""
        if not self.away:
            try:
                return self._store.get(aggregation_id, after_ms, until_ms)
            except StoreError as error:
                self._failed(error)
        return self._store.at_hand(aggregation_id, after_ms, until_ms)

    def has(self, aggregation_id: str, ends_ms: I64) -> Bool:
        """Which of these panes are there, bool[p]."""
        if not len(ends_ms):
            return np.zeros(0, np.bool_)
        return np.isin(ends_ms, self.ends(aggregation_id, int(ends_ms.min()) - 1, int(ends_ms.max())))

    def ends(self, aggregation_id: str, after_ms: int, until_ms: int) -> I64:
        """Ends of the panes that are there; asks nobody."""
        return self._store.ends(aggregation_id, after_ms, until_ms)

    def refresh(self) -> bool:
        """Find out what is there; false where the database cannot be asked. Waits for another that does."""
        with self._lock:
            return self._refresh()

    def refresh_for_query(self) -> bool:
        """The same, but asks nobody where somebody has a moment ago, and waits for a moment only."""
        if self.away or not self._lock.acquire(timeout=_BRIEFLY_S):
            return False
        try:
            lately = self._rows and self._clock.monotonic_s() - self._rows[-1][0] < _NOT_AGAIN_S
            return bool(lately) or self._refresh()
        finally:
            self._lock.release()

    def size_bytes(self, aggregation_id: str) -> int:
        """0 where the database cannot be asked."""
        try:
            return 0 if self.away else self._store.size_bytes(aggregation_id)
        except StoreError as error:
            self._failed(error)
            return 0

    def drop(self, aggregation_id: str) -> None:
        """Let go of all its packs: here at once, in the database if it can be asked."""
        try:
            self._store.drop(aggregation_id)
        except StoreError as error:
            self._failed(error)

    def release(self) -> None:
        """This thread asks for no more."""
        self._store.release()

    def _refresh(self) -> bool:
        now_s = self._clock.monotonic_s()
        everything = self._all_s is None or now_s - self._all_s >= _ALL_AGAIN_S
        try:
            newest = self._store.refresh(0 if everything else self._settled(now_s))
        except StoreError as error:
            self._failed(error)
            return False
        self._all_s, self.away = now_s if everything else self._all_s, False
        self._rows.append((now_s, newest))
        return True

    def _settled(self, now_s: float) -> int:
        """A row before which no other comes into sight any more."""
        while len(self._rows) > 1 and now_s - self._rows[1][0] >= _LONGEST_WRITE_S:
            self._rows.popleft()
        at_s, row = self._rows[0]
        return row if now_s - at_s >= _LONGEST_WRITE_S else 0

    def _failed(self, error: StoreError) -> None:
        self.failures += 1
        if not self.away:
            logger.warning("final panes are gaps until the database answers: %s", error)
        self.away = True
