"""A streaming worker: the shards that it holds, each with a head and an engine, and their ticks.

    cold   nothing of the shard is known here: the next tick takes the lease and reads the log from its beginning
    warm   head and books are up to date with what this worker did; a tick reads on and commits

A tick is a hint. Whatever goes wrong in one makes the shard cold at worst; what was acknowledged is in the log.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from precompute.clock import Clock
from precompute.cluster.ground import Lost, ShardGround
from precompute.cluster.partial_store import NotAtOnceAgain, PartialStore, Stored
from precompute.cluster.server import ServerDown
from precompute.cluster.shard import Shard
from precompute.cluster.shards import Shards
from precompute.cluster.storing import Storing
from precompute.definitions import Kept
from precompute.engines.minibatch import EngineLimits, MiniBatchEngine
from precompute.errors import PrecomputeError, Rejected
from precompute.evaluate.head_source import HeadSource
from precompute.head import Head
from precompute.in_force import in_service, suspended_of
from precompute.labels import SeriesTable
from precompute.partials import shard_summaries
from precompute.selection import Index
from precompute.sinks import DirectSink

logger = logging.getLogger(__name__)

_NO_ROOM_S = 600.0

Outcome = Literal["done", "taken", "busy", "failed", "stopping"]
"""Of a tick: "taken" where another worker holds the shard, "busy" where a tick of it is still running here."""


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker is built from. Times in ms, sizes in bytes."""

    name: str
    window_ms: int
    hash_seed: int
    head_max_bytes: int
    """Of all its heads together."""
    batch: int
    """Most log entries that are read at once."""
    engine: EngineLimits


@dataclass
class Counts:
    """What a worker did with one shard since it began."""

    ticks: int = 0
    skipped: int = 0
    failed: int = 0
    cold: int = 0
    lost: int = 0
    panes: int = 0
    damaged: int = 0
    completed_ms: int = 0


@dataclass(frozen=True)
class Warm:
    """What is known of a shard that is held."""

    ground: ShardGround
    engine: MiniBatchEngine
    sink: DirectSink
    since_ms: int
    """When its log had been read."""


@dataclass
class Held:
    """One shard in this worker."""

    shard: Shard
    warm: Warm | None = None
    """None while it is cold."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: Counts = field(default_factory=Counts)
    no_room: tuple[float, int] | None = None
    """When its head had no room here, and how large it was."""


class ShardWorkers:
    """See the module's text. Any thread may call it."""

    def __init__(
        self, shards: Shards, settings: WorkerSettings, plan: Callable[[], Sequence[Kept]], stored: Stored,
        clock: Clock, storing: Storing | None = None,
    ) -> None:  # fmt: skip
        """plan: what is kept; asked at each tick. Raises PrecomputeError while they are not known."""
        self.name = settings.name
        self.shards, self.settings = shards, settings
        self.held_by_number = tuple(Held(shard) for shard in shards.all)
        self._plan, self._stored, self._clock = plan, NotAtOnceAgain(stored, clock), clock
        self.storing, self._storing = storing, threading.Lock()
        self._stopping = False

    def tick(self, number: int, release: bool = False) -> Outcome:
        """Summarise what is sealed and dirty in this shard. release: give it back when that is done."""
        held = self.held_by_number[number]
        if not held.lock.acquire(blocking=False):
            held.counts.skipped += 1
            return "busy"
        try:
            return "stopping" if self._stopping else self._tick(held, release)
        finally:
            held.lock.release()

    def store(self) -> None:
        """Move final panes to the long-term store; nothing where that is still being done here."""
        if self.storing is None or not self._storing.acquire(blocking=False):
            return
        try:
            kept = self._plan()
            self.storing.run(in_service(kept), suspended_of(kept))
        except PrecomputeError as error:
            logger.warning("final panes are not stored now: %s", error)
        finally:
            self._storing.release()

    def keep(self) -> None:
        """Renew the leases of shards whose ticks take long, and drop the heads of shards that others hold. Called each
        second, beside the ticks; raises nothing."""
        silent = set()
        for held in self.held_by_number:
            if held.warm is not None and held.shard.server not in silent:
                try:
                    self._keep(held, held.warm)
                except ServerDown as error:
                    silent.add(held.shard.server)
                    logger.debug("leases are not renewed: %s", error)

    def held(self) -> tuple[int, ...]:
        """Shards that are warm here."""
        return tuple(held.shard.number for held in self.held_by_number if held.warm)

    def completed_ms(self) -> int:
        """When the last tick ended well; 0 before the first."""
        return max(held.counts.completed_ms for held in self.held_by_number)

    def late_ms(self) -> int:
        """For how long no tick of what is held has ended well; 0 while nothing is held."""
        warm = [(held.counts.completed_ms, one.since_ms) for held in self.held_by_number if (one := held.warm)]
        return self._clock.now_ms() - max(map(max, warm)) if warm else 0

    def head_bytes(self) -> int:
        """Memory of all heads."""
        return sum(head.size_bytes() for head in self._heads())

    def shutdown(self) -> None:
        """Finish what is being summarised, and give every shard back: first those that nothing is done for."""
        self._stopping = True
        for held in self.held_by_number:
            if held.lock.acquire(blocking=False):
                self._give_back(held)
                held.lock.release()
        for held in self.held_by_number:
            if warm := held.warm:
                warm.engine.shutdown()
            with held.lock:
                self._give_back(held)

    def _tick(self, held: Held, release: bool) -> Outcome:
        warm = held.warm
        try:
            warm = held.warm = self._warmed(held)
            warm.ground.release = release
            if self._stopping:
                return "stopping"
            warm.engine.run(warm.sink)
        except Lost as lost:
            held.warm = None
            if warm is not None:
                self._note_lost(held, str(lost))
            return "taken"
        except Rejected as full:  # others may have room, and those that are held here have more
            held.counts.failed += 1
            logger.warning("shard %d is not kept here: %s", held.shard.number, full)
            if warm is not None:
                held.no_room = self._clock.monotonic_s(), warm.ground.head.size_bytes()
            self._give_back(held)
            return "failed"
        except PrecomputeError as error:
            held.counts.failed += 1
            logger.warning("shard %d: the tick failed: %s", held.shard.number, error)
            return "failed"
        self._count(held, warm)
        if release or warm.ground.crowded:
            held.warm = None
        return "done"

    def _warmed(self, held: Held) -> Warm:
        kept = self._plan()
        if held.warm is None:
            return self._build(held, kept)
        if held.warm.engine.aggregations != in_service(kept):
            held.warm.engine.replace(in_service(kept), suspended_of(kept))
        return held.warm

    def _build(self, held: Held, kept: Sequence[Kept]) -> Warm:
        own = self.settings
        self._check_again(held)
        head = Head(SeriesTable(own.hash_seed, len(self.shards)), own.head_max_bytes)
        ground = ShardGround(held.shard, own.name, head, own.window_ms, own.batch, self._clock, self._check)
        store, source = PartialStore(held.shard, ground.commit, self._stored), HeadSource(head, Index())
        engine = MiniBatchEngine(ground, source, store, in_service(kept), own.engine, self._clock, shard_summaries)
        try:
            ground.begin(own.engine.acceptance_ms)
        except Rejected:
            held.no_room = self._clock.monotonic_s(), head.size_bytes()
            ground.give_back()
            raise
        engine.load(suspended_of(kept))
        held.counts.cold += 1
        return Warm(ground, engine, DirectSink(store), self._clock.now_ms())

    def _check(self, head: Head) -> None:
        """Whether this head may read on."""
        if self._stopping:
            raise Rejected("this worker ends")
        self._check_room(head.size_bytes() + sum(one.size_bytes() for one in self._heads() if one is not head))

    def _heads(self) -> list[Head]:
        return [warm.ground.head for held in self.held_by_number if (warm := held.warm)]

    def _check_again(self, held: Held) -> None:
        """A log whose samples had no room a short while ago is read again only where they would have."""
        if held.no_room and self._clock.monotonic_s() - held.no_room[0] < _NO_ROOM_S:
            self._check_room(self.head_bytes() + held.no_room[1])

    def _check_room(self, used_bytes: int) -> None:
        if used_bytes > self.settings.head_max_bytes:
            most = self.settings.head_max_bytes
            raise Rejected(f"the heads would hold {used_bytes} bytes; head.max_bytes is {most}")

    def _keep(self, held: Held, warm: Warm) -> None:
        if not warm.ground.has_lapsed():
            if held.lock.locked():  # by a tick
                with suppress(Lost):  # which finds that out itself
                    warm.ground.keep()
        elif held.lock.acquire(blocking=False):
            try:
                self._drop_if_taken(held)
            finally:
                held.lock.release()

    def _drop_if_taken(self, held: Held) -> None:
        state = held.shard.state()
        if held.warm and state and state.holder not in ("", self.name):
            held.warm = None
            self._note_lost(held, f"shard {held.shard.number} is held by {state.holder}")

    def _note_lost(self, held: Held, why: str) -> None:
        held.counts.lost += 1
        logger.warning("%s; its head is dropped", why)

    def _count(self, held: Held, warm: Warm) -> None:
        counts = held.counts
        counts.ticks += 1
        counts.panes += warm.engine.committed
        counts.damaged = warm.ground.damaged
        warm.engine.committed = 0
        counts.completed_ms = self._clock.now_ms()

    def _give_back(self, held: Held) -> None:
        if held.warm is not None:
            try:
                held.warm.ground.give_back()
            except PrecomputeError as error:  # then the lease runs out
                logger.warning("shard %d is not given back: %s", held.shard.number, error)
            held.warm = None
