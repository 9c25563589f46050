"""One node of the core: its table, log, head, intake and engine, put together from frozen settings.

    starting   the log is read back into the head, in a thread of its own; writes are refused, nothing is ready
    running    a heartbeat each second; ticks when called
    stopped    writes refused, the batch in hand committed, the log closed
"""

import logging
import shutil
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from precompute.aggregations import Aggregation
from precompute.clock import Clock
from precompute.engines.minibatch import EngineLimits, MiniBatchEngine
from precompute.errors import PrecomputeError, Rejected
from precompute.evaluate.head_source import HeadSource
from precompute.head import Head
from precompute.installs import Claim, agree_on_install
from precompute.intake import Intake, IntakeLimits
from precompute.labels import SeriesTable
from precompute.lasting import attempt
from precompute.log.files import FileSampleLog
from precompute.losses import note_losses
from precompute.progress import Progress
from precompute.progress_file import ProgressFile, open_progress
from precompute.selection import Index
from precompute.stores.base import SummaryStore
from precompute.touched import Touched

logger = logging.getLogger(__name__)

_HEARTBEAT_S = 1.0
_SEGMENT_BYTES, _FEWEST_SEGMENTS = 128 << 20, 16
"""A segment is let go as a whole, so a full log must consist of several."""


@dataclass(frozen=True)
class NodeSettings:
    """What a node is built from. Times in ms, sizes in bytes; names as in the config."""

    data_dir: Path
    window_ms: int
    lateness_ms: int
    acceptance_ms: int
    max_reach_ms: int
    kept_ms: int
    """R: how far before `final` head and log keep samples."""
    max_future_ms: int
    hash_seed: int
    shards: int
    engine_threads: int
    query_threads: int
    head_max_bytes: int
    log_max_bytes: int
    max_backlog_bytes: int
    min_free_disk_bytes: int
    fsync_ms: int
    """Time between syncs of the log; 0 syncs every append."""
    has_upstream: bool


class Node:
    """See the module's text. Building one opens the log; `start` brings it to life."""

    def __init__(
        self, settings: NodeSettings, store: SummaryStore, aggregations: Sequence[Aggregation], clock: Clock,
        wrong: Collection[str] = (), claim: Claim | None = None,
    ) -> None:  # fmt: skip
        """wrong: ids of which no pane in the store may serve again. claim: of a database that other nodes could use as
        well. Raises InstallMismatch where one does."""
        self.settings, self.store, self.clock, self._wrong = settings, store, clock, wrong
        self.started_ms = clock.now_ms()
        self.head = Head(SeriesTable(settings.hash_seed, settings.shards), settings.head_max_bytes)
        self.index = Index()
        self.log = self._open_log()
        try:
            self._agree(claim)
            self.intake = self._open_intake()
        except (PrecomputeError, OSError):
            self.log.close()
            raise
        self._pool = ThreadPoolExecutor(max(settings.engine_threads, settings.query_threads), "asap-kernel")
        self.engine = MiniBatchEngine(
            self.intake, self.source(settings.engine_threads), store, aggregations, self._engine_limits(), clock
        )
        self._not_ready = "the head is being rebuilt from the sample log"
        self._stopped, self._rebuilt = threading.Event(), threading.Event()
        self._rebuilding = threading.Thread(target=self._rebuild, name="asap-rebuild", daemon=True)
        self._beats = threading.Thread(target=self._beat, name="asap-heartbeat", daemon=True)

    def source(self, threads: int) -> HeadSource:
        """A reader of the head that uses up to `threads` threads."""
        return HeadSource(self.head, self.index, threads, self._pool if threads > 1 else None)

    def start(self) -> None:
        """Begin to rebuild the head from the log; returns at once."""
        self._rebuilding.start()

    def why_not_ready(self) -> str | None:
        """None when queries can be answered."""
        if self._stopped.is_set():
            return "shutting down"
        return None if self._rebuilt.is_set() else self._not_ready

    def why_unhealthy(self) -> str | None:
        """None while ticks complete: the last one, or the start, is at most four pane widths ago."""
        late_ms = self.clock.now_ms() - (self.engine.health().completed_ms or self.started_ms)
        return f"the last tick completed {late_ms / 1000:.0f} s ago" if late_ms > 4 * self.settings.window_ms else None

    def wait_until_rebuilt(self) -> bool:
        """Waits for the rebuild to end; false if it was broken off."""
        self._rebuilding.join()
        return self._rebuilt.is_set()

    def stop_accepting(self) -> None:
        """Refuse writes from now on."""
        self.intake.stop()

    def shutdown(self) -> None:
        """Finish the batch in hand and close the log."""
        self.stop_accepting()
        self._stopped.set()
        self._rebuilding.join()
        self.engine.shutdown()
        if self._rebuilt.is_set():
            self._beats.join()
            self._sync()
        self._pool.shutdown()
        self.log.close()

    def _open_log(self) -> FileSampleLog:
        s = self.settings
        folder = s.data_dir / "log"
        folder.mkdir(parents=True, exist_ok=True)
        return FileSampleLog(
            folder, self.head.table, max_bytes=s.log_max_bytes, min_free_disk=s.min_free_disk_bytes, clock=self.clock,
            floor_ms=lambda: self.intake.progress.floor_ms, max_future_ms=s.max_future_ms,
            fsync_every_append=s.fsync_ms == 0, disk_free=lambda: shutil.disk_usage(folder).free,
            segment_bytes=min(_SEGMENT_BYTES, s.log_max_bytes // _FEWEST_SEGMENTS),
        )  # fmt: skip

    def _agree(self, claim: Claim | None) -> None:
        folder = self.settings.data_dir / "log"
        if claim is not None:
            is_new = not self.log.last_id() and not list(folder.glob("state.*"))
            agree_on_install(folder, is_new, claim)

    def _open_intake(self) -> Intake:
        s = self.settings
        file = ProgressFile(s.data_dir / "log" / "state.json")
        nothing_kept = not self.log.last_id() and not self.store.aggregations()
        progress = open_progress(
            file, {"shards": s.shards, "hash_seed": s.hash_seed}, log_is_empty=nothing_kept,
            now_ms=self.clock.now_ms(), acceptance_ms=s.acceptance_ms, lateness_ms=s.lateness_ms,
            has_upstream=s.has_upstream,
        )  # fmt: skip
        progress = note_losses(file, progress, self.log)
        limits = IntakeLimits(s.max_future_ms, s.max_backlog_bytes, s.lateness_ms, s.has_upstream)
        return Intake(self.head, self.log, progress, file, Touched(s.window_ms), self.clock, limits)

    def _engine_limits(self) -> EngineLimits:
        s = self.settings
        return EngineLimits(s.acceptance_ms, s.lateness_ms, s.kept_ms, s.max_reach_ms, tick_ms=s.window_ms)

    def _rebuild(self) -> None:
        try:
            self._read_back()
        except PrecomputeError as error:
            self._not_ready = f"the head could not be rebuilt: {error}"
            logger.exception("the head could not be rebuilt; mend the cause and start again")

    def _read_back(self) -> None:
        begun_s = self.clock.monotonic_s()
        for entry in self.log.read(0, self.head.table):
            if self._stopped.is_set():
                return
            self.intake.replay(entry)
        self.engine.load(self._wrong)
        self.engine.discard_stale()
        self.intake.open()
        self._beats.start()
        self._rebuilt.set()
        took_s = self.clock.monotonic_s() - begun_s
        held, series = self.head.samples(), len(self.head.table)
        if held:
            logger.info("%d samples of %d series are in the head after %.1f s", held, series, took_s)

    def _beat(self) -> None:
        """Sync the log each `fsync_ms`, move `alive` each second, and note on disk what is both alive and synced."""
        every_s = min(_HEARTBEAT_S, self.settings.fsync_ms / 1000 or _HEARTBEAT_S)
        synced_s = beat_s = self.clock.monotonic_s()
        while not self._stopped.wait(every_s):
            now_s = self.clock.monotonic_s()
            if now_s - beat_s >= _HEARTBEAT_S - every_s / 2:
                beat_s = now_s
                attempt(self.intake.heartbeat, "the heartbeat")
            if now_s - synced_s >= self.settings.fsync_ms / 1000 - every_s / 2:
                synced_s = now_s
                attempt(self._sync, "syncing the sample log")

    def _sync(self) -> None:
        alive_ms, entry = self.intake.progress.alive_ms, self.log.last_id()
        with suppress(Rejected):  # the log has said why, and refuses writes
            self.log.sync()
            self.intake.note_alive(alive_ms, entry)

    def progress(self) -> Progress:
        return self.intake.progress

    def replayed(self) -> tuple[int, int]:
        """The newest entry of the log, and the newest one in the head."""
        return self.log.last_id(), self.intake.applied

    def damaged_records(self) -> int:
        """Places in the log that could not be read."""
        return self.log.damaged_records
