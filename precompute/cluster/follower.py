"""A query engine's node: head, panes and progress, kept up to date from the logs and notices of all shards.

    starting   the logs are read to the ends that they have; queries are refused
    following  a thread for each server (contact.py), one that keeps house, and one that looks for packs
    behind     a shard that was not heard of for longer than the lateness leaves a hole, until it is
    anew       a log lost entries that were read from it: all logs are read again, and queries refused as at the start
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count

from precompute.aggregations import Aggregation
from precompute.clock import Clock
from precompute.cluster.cluster_panes import ClusterPanes
from precompute.cluster.contact import Contact, LogRewound
from precompute.cluster.head_copy import HeadCopy
from precompute.cluster.merged_store import MergedStore
from precompute.cluster.open_panes import OpenPanes
from precompute.cluster.packs import Packs
from precompute.cluster.shard_copy import ShardCopy
from precompute.cluster.shards import Shards
from precompute.errors import PrecomputeError
from precompute.evaluate.head_source import HeadSource
from precompute.labels import SeriesTable
from precompute.lasting import attempt
from precompute.log.base import Hole
from precompute.progress import Progress, add_holes
from precompute.selection import Index

logger = logging.getLogger(__name__)

_AGAIN_S, _HOUSE_S, _NOTES_S, _TRIM_S, _PACKS_S, _BACK_S = 0.5, 0.5, 2.0, 15.0, 10.0, 2.0
_FRESH_S = 2.0
_SLACK_MS = 2000
"""Heartbeats come each second and are looked at each half second."""
_UNHEALTHY_S = 30.0


@dataclass(frozen=True)
class Notes:
    """What is known of metrics; see Progress."""

    histogram_metrics: frozenset[str] = frozenset()
    partial_metrics: frozenset[str] = frozenset()
    received_since: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FollowerSettings:
    """Times in ms, sizes in bytes; names as in the config."""

    window_ms: int
    hash_seed: int
    head_retention_ms: int
    """How far the head reaches; 0: no samples are held."""
    head_max_bytes: int
    summary_cache_bytes: int
    query_threads: int


class Follower:
    """A QueryNode (query_node.py); see the module's text."""

    def __init__(
        self, settings: FollowerSettings, shards: Shards, packs: Packs, aggregations: Sequence[Aggregation],
        notes: Callable[[], Notes], clock: Clock,
    ) -> None:  # fmt: skip
        """notes: what all roles know of metrics; may raise ServerDown. They are asked each 2 s."""
        self.settings, self.clock, self.packs = settings, clock, packs
        self.started_ms, self.read_anew = clock.now_ms(), 0
        table, changes = SeriesTable(settings.hash_seed, len(shards)), count(1)
        self._head = HeadCopy(
            table, settings.head_max_bytes, settings.window_ms, settings.head_retention_ms, len(shards), clock
        )
        self.head, self.index = self._head.head, Index()
        self.copies = tuple(ShardCopy(shard, settings.window_ms, changes) for shard in shards.all)
        self._lateness_ms = shards.limits.lateness_ms
        panes = OpenPanes(self.copies, aggregations)
        self.store = MergedStore(shards, panes, packs, settings.summary_cache_bytes, clock)
        self.engine = ClusterPanes(
            panes, packs, self.store, self._head.touched, self._lateness_ms, lambda: self._progress.alive_ms,
            lambda: max(copy.heard_alive_ms for copy in self.copies), clock,
        )  # fmt: skip
        self._panes, self._notes = panes, notes
        self._noted: Notes | None = None
        self._contacts = [
            Contact(server, [c for c in self.copies if c.shard.server is server], self._head, panes, clock)
            for server in shards.servers
        ]
        self._progress, self._assembled_s = Progress(0, 0, 0, 0), -1e9
        self._assembling = threading.Lock()
        self._pool = ThreadPoolExecutor(settings.query_threads, "asap-kernel")
        self._ready, self._stopped = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=(c,), name="asap-follow") for c in self._contacts]
        self._threads.append(threading.Thread(target=self._keep_house, name="asap-follow-house"))
        self._threads.append(threading.Thread(target=self._look_for_packs, name="asap-follow-packs"))

    def start(self) -> None:
        """Begin to follow; returns at once."""
        for thread in self._threads:
            thread.start()

    def shutdown(self) -> None:
        """Follow no longer; waits for what is being read."""
        self._stopped.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._pool.shutdown()

    def source(self, threads: int) -> HeadSource:
        """A reader of the head that uses up to `threads` threads."""
        return HeadSource(self.head, self.index, threads, self._pool if threads > 1 else None)

    def progress(self) -> Progress:
        """All shards' together. Never of a time when the head held more than it does now, nor 2 s old."""
        if self.clock.monotonic_s() - self._assembled_s >= _FRESH_S:  # whatever holds up the one who keeps house
            self._assemble()
        base_ms = max(self._progress.base_ms, self._head.base_ms)
        return replace(self._progress, base_ms=base_ms) if base_ms != self._progress.base_ms else self._progress

    def why_not_ready(self) -> str | None:
        """None when queries can be answered; else how far the shard that is most behind is."""
        if self._stopped.is_set():
            return "shutting down"
        return None if self._ready.is_set() else f"the sample logs are being read: {self._furthest_behind()}"

    def why_unhealthy(self) -> str | None:
        """None while each server is asked again and again, whether it answers or not."""
        still_s = max(self.clock.monotonic_s() - contact.turned_s for contact in self._contacts)
        return f"the logs were last looked at {still_s:.0f} s ago" if still_s > _UNHEALTHY_S else None

    def replayed(self) -> tuple[int, int]:
        """Entries that were read of all logs, twice: what is not read yet is not known here."""
        return self._head.applied, self._head.applied

    def damaged_records(self) -> int:
        """Log entries that could not be read."""
        return sum(contact.damaged for contact in self._contacts)

    def behind_ms(self) -> int:
        """How old is what is known of the shard that is most behind."""
        now_s = self.clock.monotonic_s()
        return max(copy.behind_ms(now_s) or 0 for copy in self.copies)

    # -- following

    def _follow(self, contact: Contact) -> None:
        while not self._stopped.is_set():
            try:
                contact.keep_up()
                contact.trouble = ""
                self._see_if_whole()
            except LogRewound as error:
                logger.error("all logs are read anew: %s", error)
                contact.lose()
                self._begin_anew()
            except PrecomputeError as error:
                if not contact.trouble:
                    logger.warning("not heard of until it answers: %s", error)
                contact.trouble = str(error)
                contact.lose()
                self._stopped.wait(_AGAIN_S)
            except Exception:  # whatever it is, the server's shards are looked at anew
                logger.exception("following %s failed; it is tried again", contact.server.name)
                contact.lose()
                self._stopped.wait(_AGAIN_S)

    def _see_if_whole(self) -> None:
        """Be ready once every log was read to the end that it had, and panes and metrics are known."""
        if self._ready.is_set():
            return
        with self._head.lock:
            known = all(copy.state is not None and copy.names() == self._panes.kept.keys() for copy in self.copies)
            if known and self._noted is not None:
                self._head.complete()
                self._assemble()
                self._ready.set()
                logger.info("%d samples of %d series are in the head", self.head.samples(), len(self.head.table))

    def _begin_anew(self) -> None:
        with self._head.lock:
            self._ready.clear()
            self.read_anew += 1
            self._head.clear()
            for copy in self.copies:
                copy.begin_anew()
            self._assemble()

    # -- keeping house

    def _keep_house(self) -> None:
        self._take_turns((_HOUSE_S, self._assemble), (_NOTES_S, self._read_notes), (_TRIM_S, self._head.trim))

    def _look_for_packs(self) -> None:
        """In a thread of its own, since the database may keep it waiting."""
        self._take_turns((_HOUSE_S, self._see_to_stored), (_PACKS_S, self._refresh_packs), (_BACK_S, self._see_if_back))
        self.packs.release()

    def _take_turns(self, *jobs: tuple[float, Callable[[], None]]) -> None:
        """Each job about as often as it says, in s, until the end."""
        done_s = [-1e9] * len(jobs)
        while not self._stopped.is_set():
            for place, (every_s, job) in enumerate(jobs):
                if self.clock.monotonic_s() - done_s[place] >= every_s:
                    done_s[place] = self.clock.monotonic_s()
                    attempt(job, "keeping house")
            self._stopped.wait(_HOUSE_S)

    def _see_to_stored(self) -> None:
        if any(contact.stored for contact in self._contacts):
            self._refresh_packs()

    def _see_if_back(self) -> None:
        if self.packs.away:
            self._refresh_packs()

    def _read_notes(self) -> None:
        try:
            self._noted = self._notes()
        except PrecomputeError as error:
            logger.warning("what is known of metrics cannot be read: %s", error)

    def _refresh_packs(self) -> None:
        """Look for what was stored; only then it is read from there."""
        for contact in self._contacts:
            contact.stored = False
        leaving = [(copy, copy.leaving()) for copy in self.copies]
        if self.packs.refresh():
            for copy, panes in leaving:
                copy.leave(panes)

    def _assemble(self) -> None:
        """All shards' progress as one. One thread at a time: an older one would take the place of a newer."""
        with self._assembling:
            begun_s = self.clock.monotonic_s()
            self._progress = self._joined()
            self._assembled_s = begun_s  # last: until then what is there is as old as it was

    def _joined(self) -> Progress:
        states = [copy.state for copy in self.copies]
        known = [state for state in states if state is not None]
        whole = len(known) == len(states)
        limits = [(state.floor_ms, state.final_ms, state.alive_ms) for state in known] if whole else [(0, 0, 0)]
        floor_ms, final_ms, alive_ms = (min(column) for column in zip(*limits, strict=True))
        base_ms, noted = max(copy.base_ms for copy in self.copies), self._noted or Notes()
        progress = Progress(
            floor_ms, final_ms, base_ms, alive_ms, (),
            noted.histogram_metrics, noted.partial_metrics, noted.received_since,
        )  # fmt: skip
        holes = [hole for copy in self.copies for hole in (*copy.holes, *copy.bad)]
        return add_holes(progress, [*holes, *self._not_heard()])

    def _not_heard(self) -> list[Hole]:
        """Samples of shards that are behind may be missing here."""
        now_s, future_ms = self.clock.monotonic_s(), self.copies[0].shard.limits.future_ms
        until_ms = self.clock.now_ms() + future_ms
        late = [copy.state for copy in self.copies if self._is_late(copy, now_s, self._lateness_ms + _SLACK_MS)]
        return [Hole(state.alive_ms, until_ms) for state in late if state is not None]

    def _is_late(self, copy: ShardCopy, now_s: float, than_ms: float) -> bool:
        behind_ms = copy.behind_ms(now_s)
        return behind_ms is None or behind_ms > than_ms

    def _furthest_behind(self) -> str:
        now_s = self.clock.monotonic_s()
        waiting = [copy for copy in self.copies if copy.state is None] or list(self.copies)
        return max(waiting, key=lambda copy: copy.behind_ms(now_s) or 1 << 62).behind_text(now_s)
