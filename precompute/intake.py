"""Where samples enter: admitted by floor and future, written to the log, added to the head.

One lock orders everything that changes the node's durable state: appends, the floor, trimming, compaction.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from precompute.clock import Clock
from precompute.compaction import compact, worth_compacting
from precompute.errors import Rejected, TableReplaced
from precompute.head import Head
from precompute.intake_port import Admission
from precompute.labels import METRIC_NAME, SeriesTable
from precompute.log.base import Entry, Hole, OwnLog
from precompute.missed import holes_of
from precompute.progress import (
    FURTHEST_AHEAD_MS,
    Progress,
    add_hole,
    add_holes,
    cut_holes,
    prune_holes,
    raise_floor,
    settle,
    trimmed,
)
from precompute.progress_file import ProgressFile
from precompute.samples import I64, Block
from precompute.touched import Touched

logger = logging.getLogger(__name__)

_CLOCK_TOLERANCE_MS = 5000
_MOST_NOTED_METRICS = 100_000
_MOST_NOTED_CHARACTERS = 1 << 23
"""Of the names of noted metrics, all together: they are kept in memory, and written whenever progress is saved."""
_STRIDE_MS = 3_600_000
_LAST_STRIDE = (1 << 62) // _STRIDE_MS


@dataclass(frozen=True)
class IntakeLimits:
    """`max_backlog_bytes` bounds the log bytes that no tick has read yet."""

    max_future_ms: int
    max_backlog_bytes: int
    lateness_ms: int
    has_upstream: bool
    """Then it is noted what is not held here, since the upstream has it."""


class Intake:
    """The write side of one node; closed until `open`.

    `table` is shared by decoder, log and head; take `intern_lock` to add to it.
    """

    def __init__(
        self, head: Head, log: OwnLog, progress: Progress, file: ProgressFile, touched: Touched,
        clock: Clock, limits: IntakeLimits,
    ) -> None:  # fmt: skip
        self.head, self.log, self.progress, self.file = head, log, progress, file
        self.touched, self.clock, self.limits = touched, clock, limits
        self.lock = threading.RLock()
        self.intern_lock = threading.Lock()
        self.applied = max(log.last_id(), progress.last_entry)  # panes may have seen what the log has lost
        self._closed = "starting: the head is being rebuilt from the sample log"
        self._synced_alive_ms, self._synced_entry = progress.alive_ms, progress.last_entry
        self._bytes_written, self._bytes_ticked = 0, 0
        self.clock_drift_ms = 0
        self._clock_offset_ms = clock.now_ms() - clock.boot_ms()

    @property
    def table(self) -> SeriesTable:
        return self.head.table

    def rotate(self, table: SeriesTable) -> None:
        """The log's next segment uses ids of `table`."""
        self.log.rotate(table)

    def check_room(self) -> None:
        """Raises Rejected when a write would be refused now whatever it holds."""
        if self._closed:
            raise Rejected(self._closed)
        self.head.check_room()
        backlog = self._bytes_written - self._bytes_ticked
        if backlog > self.limits.max_backlog_bytes:
            raise Rejected(
                f"{backlog} log bytes wait for a tick; log.max_backlog is {self.limits.max_backlog_bytes}"
            )

    def write(self, block: Block, table: SeriesTable) -> Admission:
        """Take the rows newer than the floor and not too far ahead; when this returns, the log has them.

        table: the block's ids are of it. Raises Rejected, and takes nothing, when log, head or backlog are full
        or the node is stopping; TableReplaced when the ids have to be looked up again.
        """
        with self.lock:
            self.check_room()
            if table is not self.table:
                raise TableReplaced("the series table was compacted")
            now_ms = self.clock.now_ms()
            old = block.t_ms <= self.progress.floor_ms
            ahead = block.t_ms > now_ms + self.limits.max_future_ms
            kept = block.take(~(old | ahead)) if old.any() or ahead.any() else block
            if len(kept):
                self.head.check_room(len(kept))  # before the log has what the head could not take
                self._append(kept)
            if len(kept) < len(block):
                self._note_missed(block.take(old), block.take(ahead & (block.t_ms <= now_ms + FURTHEST_AHEAD_MS)))
            return Admission(len(kept), int(old.sum()), int((ahead & ~old).sum()), self.progress.floor_ms)

    def heartbeat(self) -> None:
        """Called each second: moves `alive`, unless full; a jump past the lateness leaves a hole."""
        with self.lock, suppress(Rejected):
            self.check_room()
            self.log.check_room()
            now_ms, alive_ms = self.clock.now_ms(), self.progress.alive_ms
            if now_ms - alive_ms > self.limits.lateness_ms:
                self._add_holes((Hole(alive_ms, now_ms),))
            self.progress = replace(self.progress, alive_ms=max(alive_ms, now_ms))
            if self.limits.has_upstream:
                self._note_received()

    def note_alive(self, alive_ms: int, entry: int) -> None:
        """Note on disk that the node listened until then, and that its log up to `entry` has been synced since."""
        self._synced_entry = max(self._synced_entry, entry)
        with suppress(OSError):  # an older heartbeat only makes a hole longer
            self.file.beat(alive_ms)
            self._synced_alive_ms = alive_ms

    def advance(self, progress: Progress) -> None:
        """Save the node's progress, then act upon it; called under the lock. Raises Rejected where the disk fails."""
        try:
            self.file.save(self._with_what_is_synced(progress))
        except OSError as error:
            raise Rejected(f"cannot save {self.file.path}: {error.strerror}") from error
        self.progress = progress

    def _with_what_is_synced(self, progress: Progress) -> Progress:
        return replace(
            progress, alive_ms=self._synced_alive_ms, last_entry=self._synced_entry,
            first_entry=self.log.first_id(progress.base_ms),
        )  # fmt: skip

    # -- for the engine (engines/base.py, Ground)

    def begin(self, acceptance_ms: int) -> tuple[int, int]:
        """Raise the floor; the newest entry in the head, and the floor, both as of one moment."""
        with self.lock:
            trusted = self._clock_is_trusted()
            self.advance(raise_floor(self.progress, self.clock.now_ms(), acceptance_ms, trusted))
            self._bytes_ticked = self._bytes_written
            return self.applied, self.progress.floor_ms

    def settle(self, floor_ms: int) -> None:
        """Panes up to the floor of `begin` are final."""
        with self.lock:
            self.advance(settle(self.progress, floor_ms))

    def trim(self, keep_ms: int) -> None:
        """Let go of samples at or before `keep_ms`, and of series without any."""
        with self.lock:
            oldest_ms = self.log.oldest_ms()
            if oldest_ms is not None and oldest_ms <= keep_ms:
                self.advance(trimmed(self.progress, keep_ms))
                self.log.trim(keep_ms)
                self.head.trim(keep_ms)
                self.touched.forget(keep_ms)
        with suppress(Rejected):  # no room on the disk for a new segment: at a later tick
            if worth_compacting(self.head):
                compact(self)

    def forget_holes(self, before_ms: int) -> None:
        """Holes that end by then touch nothing that is kept."""
        with self.lock:
            self.progress = prune_holes(self.progress, before_ms)

    def oldest_ms(self) -> int | None:
        """Time of the oldest sample in the log."""
        return self.log.oldest_ms()

    def _clock_is_trusted(self) -> bool:
        """Whether the wall clock has gone as far as the time since boot has, since the start."""
        self.clock_drift_ms = self.clock.now_ms() - self.clock.boot_ms() - self._clock_offset_ms
        if abs(self.clock_drift_ms) <= _CLOCK_TOLERANCE_MS:
            return True
        logger.warning(
            "the wall clock was moved by %.1f s since the start: the floor stays and the log grows until a restart",
            self.clock_drift_ms / 1000,
        )
        return False

    def note_histograms(self, metrics: Iterable[str]) -> None:
        """These metrics have histogram samples, which the head does not hold."""
        if set(metrics) - self.progress.histogram_metrics:
            with self.lock:
                known = _bounded(self.progress.histogram_metrics | set(metrics), "have native histograms")
                self.advance(replace(self.progress, histogram_metrics=known))

    def note_partial(self, metrics: Iterable[str]) -> None:
        """Series of these metrics were refused: with an upstream, which has them, it is to be asked."""
        if self.limits.has_upstream and set(metrics) - self.progress.partial_metrics:
            with self.lock:
                known = _bounded(self.progress.partial_metrics | set(metrics), "had series that were refused")
                self.advance(replace(self.progress, partial_metrics=known))

    def _note_received(self) -> None:
        """With an upstream: since when each metric is received; it is not known here what was before.

        Metrics beyond a bound are let go: what is not known to be received is asked of the upstream.
        """
        known, table = self.progress.received_since, self.head.table
        room = max(0, _MOST_NOTED_METRICS - len(known))
        first = ((m, self.head.oldest_ms(m)) for m in table.values(METRIC_NAME) if room and m not in known)
        found = dict(islice(((metric, t_ms) for metric, t_ms in first if t_ms is not None), room))
        if found:
            self.advance(replace(self.progress, received_since={**known, **found}))

    def stop(self) -> None:
        """Refuse writes from now on; a write that is inside ends first."""
        with self.lock:
            self._closed = "shutting down"

    def open(self) -> None:
        """Take writes from now on; the head holds all of the log."""
        with self.lock:
            self.progress = cut_holes(self.progress, self.clock.now_ms(), self.limits.max_future_ms)
            self._closed = self._closed if self._closed == "shutting down" else ""

    def replay(self, entry: Entry) -> None:
        """Take an entry of the log into the head again; before `open`."""
        if entry.block is not None and len(entry.block):
            self.head.append(entry.block)
            self.touched.note(entry.block.t_ms, entry.id)
        if entry.hole is not None:
            self.progress = add_hole(self.progress, entry.hole)
        self.applied = max(self.applied, entry.id)

    def _append(self, block: Block) -> None:
        before = self.log.size_bytes()
        entry = self.log.append(block)
        self.head.append(block)
        self.touched.note(block.t_ms, entry)
        self.applied = entry
        self._bytes_written += self.log.size_bytes() - before

    def _note_missed(self, old: Block, ahead: Block) -> None:
        """Note where samples came too late or too early to be taken: an upstream has them, or one to come may."""
        if self.limits.has_upstream:
            self._add_holes([*holes_of(self.table, old), *holes_of(self.table, ahead)])
        else:
            self._note_refused(self.progress.floor_ms, ahead.t_ms)

    def _note_refused(self, floor_ms: int, ahead_ms: I64) -> None:
        """Note up to when samples were refused, in strides, so that this is seldom saved: for an upstream to come."""
        latest_ms = int(ahead_ms.max(initial=0))
        until_ms = max(floor_ms, min(latest_ms // _STRIDE_MS + 1, _LAST_STRIDE) * _STRIDE_MS if latest_ms else 0)
        if until_ms > self.progress.refused_until_ms:
            self.advance(replace(self.progress, refused_until_ms=until_ms))

    def _add_holes(self, holes: Sequence[Hole]) -> None:
        """Only what they add is written to the log: a sender that is always late would fill it."""
        known = add_holes(self.progress, holes)
        new = set(known.holes) - set(self.progress.holes)
        for hole in new:
            self.log.append_hole(hole)
        if new:
            self.advance(known)


def _bounded(metrics: frozenset[str], what: str) -> frozenset[str]:
    if len(metrics) > _MOST_NOTED_METRICS:
        raise Rejected(f"more than {_MOST_NOTED_METRICS} metrics {what}")
    if sum(map(len, metrics)) > _MOST_NOTED_CHARACTERS:
        raise Rejected(f"the names of metrics that {what} have more than {_MOST_NOTED_CHARACTERS} characters")
    return metrics
