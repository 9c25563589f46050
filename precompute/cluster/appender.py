"""The ingest role's intake: writes of many senders, into the logs of all shards.

Writes that come at about the same time are sent together: whoever finds nobody sending waits a moment for others,
then sends for all of them (batch.py). So a writer's entries keep their order, and entries do not become too small.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from precompute.clock import Clock
from precompute.cluster.batch import TAKEN, Batch, Holes, Line, joined, replicated, run_lines
from precompute.cluster.heartbeat import Heartbeat
from precompute.cluster.shards import Shards
from precompute.cluster.table_use import TableUse
from precompute.cluster.traffic import Traffic
from precompute.cluster.writing import LocalIds, ShardWriter
from precompute.errors import Rejected, TableReplaced
from precompute.intake_port import Admission
from precompute.labels import SeriesTable
from precompute.samples import Block

logger = logging.getLogger(__name__)

_ENOUGH_ROWS = 256
"""A shard's rows in an entry that is worth sending, about 4 KB of them."""


class MetricNotes(Protocol):
    """What is remembered of metrics beside their samples; all raise Rejected where it cannot be kept."""

    def note_histograms(self, metrics: Iterable[str]) -> None:
        """They have histogram samples."""

    def note_partial(self, metrics: Iterable[str]) -> None:
        """Some of their series were refused."""

    def note_received(self, first_ms: Mapping[str, int]) -> None:
        """They are received, and since when, unless that is known."""


@dataclass(frozen=True)
class AppenderLimits:
    """`linger_ms`: how long a write waits for others; `table_max_bytes`: of labels that are remembered."""

    linger_ms: int
    wait_replicas: int
    has_upstream: bool
    table_max_bytes: int


@dataclass
class _Waiting:
    block: Block
    table: SeriesTable
    since_s: float
    outcome: Admission | Rejected | TableReplaced | None = None


class Appender:
    """See the module's text, and `precompute.intake_port` for what its callers may assume; closed until `open`."""

    def __init__(
        self, shards: Shards, table: SeriesTable, notes: MetricNotes, clock: Clock, limits: AppenderLimits
    ) -> None:
        """table: an empty one; its shards are those of `shards`."""
        self._shards, self._notes, self._clock, self._limits = shards, notes, clock, limits
        self.intern_lock = threading.Lock()
        self.traffic = Traffic(clock)
        self._send = self.traffic.counted(replicated(limits.wait_replicas))
        self._closed = "starting"
        self._lock = threading.Lock()
        self._queued, self._settled = threading.Condition(self._lock), threading.Condition(self._lock)
        self._queue: list[_Waiting] = []
        self._busy = False
        """Whether somebody sends."""
        self.beats = Heartbeat(shards, clock)
        self._begin(table)

    # -- the port

    @property
    def table(self) -> SeriesTable:
        return self._table

    def check_room(self) -> None:
        if self._closed:
            raise Rejected(self._closed)

    def write(self, block: Block, table: SeriesTable) -> Admission:
        waiting = _Waiting(block, table, self._clock.monotonic_s())
        with self._lock:
            self.check_room()
            self._queue.append(waiting)
            self._queued.notify()
            self._settled.wait_for(lambda: waiting.outcome is not None or not self._busy)
            leads = waiting.outcome is None
            self._busy = self._busy or leads
        if leads:
            self._send_for_all()
        assert waiting.outcome is not None
        if isinstance(waiting.outcome, Admission):
            return waiting.outcome
        raise waiting.outcome

    def note_histograms(self, metrics: Iterable[str]) -> None:
        self._notes.note_histograms(metrics)

    def note_partial(self, metrics: Iterable[str]) -> None:
        if self._limits.has_upstream:
            self._notes.note_partial(metrics)

    # -- its life

    def start(self) -> None:
        """Take writes, and say each second that somebody listens."""
        self.open()
        self.beats.start()

    def open(self) -> None:
        """Take writes from now on."""
        with self._lock:
            self._closed = self._closed if self._closed == "shutting down" else ""

    def stop(self) -> None:
        """Refuse writes from now on; returns when those that are inside have ended."""
        with self._lock:
            self._closed = "shutting down"
            self._queued.notify()
            self._settled.wait_for(lambda: not self._busy and not self._queue)

    def close(self) -> None:
        """After `stop`: nobody listens any more."""
        self.beats.close()

    def why_not_ready(self) -> str | None:
        """None while writes are taken."""
        return self._closed or None

    # -- sending

    def _send_for_all(self) -> None:
        """Whatever waits; by whoever made us busy."""
        try:
            with self._lock:
                self._queued.wait_for(self._is_enough, self._limits.linger_ms / 1000)
                waiting, self._queue = self._queue, []
            self._send_queue(waiting)
        finally:
            with self._lock:
                self._busy = False
                self._settled.notify_all()

    def _send_queue(self, waiting: list[_Waiting]) -> None:
        ours = [one for one in waiting if one.table is self._table]
        for one in waiting:
            if one.table is not self._table:
                one.outcome = TableReplaced("the series table was replaced")
        if not ours:
            return
        try:
            self._send_batch(ours)
        finally:
            self._settle_rest(ours)
        if self._use.is_outgrown(self._clock.monotonic_s()):
            self._replace_table()

    def _is_enough(self) -> bool:
        rows = sum(len(waiting.block) for waiting in self._queue)
        return bool(self._closed) or rows >= _ENOUGH_ROWS * len(self._shards)

    def _send_batch(self, ours: list[_Waiting]) -> None:
        self.traffic.note_waits([waiting.since_s for waiting in ours])
        batch = joined([waiting.block for waiting in ours])
        run_lines(self._lines(batch), self._send)
        self._use.note(batch.block.sid)
        if self._limits.has_upstream:
            self._note_received(batch)
        for waiting, outcome in zip(ours, batch.outcomes(), strict=True):
            waiting.outcome = outcome

    def _settle_rest(self, ours: list[_Waiting]) -> None:
        """Where sending broke off, nothing is known of what was under way."""
        for waiting in ours:
            if waiting.outcome is None:
                waiting.outcome = Rejected("the samples could not be sent to Redis")

    def _lines(self, batch: Batch) -> list[Line]:
        shard_of_row = self._table.shard_of(batch.block.sid).astype(np.uint16)  # which numpy sorts in linear time
        rows = np.argsort(shard_of_row, kind="stable")
        bounds = np.searchsorted(shard_of_row[rows], np.arange(len(self._shards) + 1))
        return [
            Line(batch, rows[bounds[s] : bounds[s + 1]], self._shards.all[s], self._writers[s], self._holes)
            for s in np.flatnonzero(np.diff(bounds)).tolist()
        ]

    def _note_received(self, batch: Batch) -> None:
        """Metrics that are taken for the first time."""
        metrics = self._table.metric_ids(batch.block.sid)
        new = self._use.new_metrics(metrics, len(self._table.symbols)) & (batch.verdict == TAKEN)
        if not new.any():
            return
        ids, at = np.unique(metrics[new], return_inverse=True)
        first = np.full(len(ids), np.iinfo(np.int64).max)
        np.minimum.at(first, at, batch.block.t_ms[new])
        names = self._table.symbols.texts(ids.tolist())
        self._notes.note_received(dict(zip(names, first.tolist(), strict=True)))
        self._use.note_metrics(ids)

    # -- the table

    def _begin(self, table: SeriesTable) -> None:
        self._table = table
        ids = LocalIds(table)
        self._writers = [ShardWriter(ids) for _ in self._shards.all]
        self._holes = Holes(table, self._limits.has_upstream, self._clock)
        every_s = self._shards.limits.segment_ms / 1000
        self._use = TableUse(table, self._limits.table_max_bytes, every_s, self._clock.monotonic_s())

    def _replace_table(self) -> None:
        """By an empty one: series that are still sent are looked up again, the others are let go."""
        with self.intern_lock:
            old = self._table
            self._begin(SeriesTable(old.hash_seed, old.shards))
        logger.info("%d series are looked up again, since many of them are not sent any more", len(old))
