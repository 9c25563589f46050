"""What a worker does with kicks: it places shards, ticks them, stores, and is its own watchdog.

A kick is a hint that carries when it was made, by the one clock that all workers read (`Crew.now_ms`). A broker's own
expiry would compare the sender's clock with the receiver's. A kick is left out when it is older than four periods, or
than the last tick of its shard here, which has done what it asks for.

Nothing ends a tick or storing from outside: each ends at a deadline of its own.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from precompute.clock import Clock
from precompute.cluster.crew import SILENT_MS, Crew, Live, Member
from precompute.cluster.placement import Kick, placed
from precompute.cluster.replies import ShardState, parse_state
from precompute.cluster.server import ServerDown, ServerFull
from precompute.cluster.shards import Shards

logger = logging.getLogger(__name__)

STALE_PERIODS, _LAPSED_PERIODS, _STORED_PERIODS = 4, 2, 2
_MOVED_SHARE = 8
"""One in so many shards changes its worker in a round: moved heads are rebuilt."""


class Workers(Protocol):
    """A worker's shards, as far as kicks know them: ShardWorkers, and in tests a stand-in without heads."""

    name: str

    def tick(self, number: int, release: bool = False) -> str:
        """One tick of this shard, in a word. `release`: give the lease back after it. Raises nothing."""

    def held(self) -> tuple[int, ...]:
        """The shards whose lease it has."""

    def store(self) -> None:
        """Merge what is final into the long-term store."""

    def keep(self) -> None:
        """Once a second: hold on to what is at work, let go of what others hold. Raises nothing."""

    def shutdown(self) -> None:
        """Finish the batches, release the leases; ticks after that do nothing."""


class Kicks:
    """See the module's text. Any thread may call it; methods raise ServerDown, ServerFull unless they say otherwise."""

    def __init__(self, workers: Workers, shards: Shards, crew: Crew, period_ms: int, clock: Clock) -> None:
        """period_ms: how often shards are placed."""
        self.workers, self.crew, self.period_ms, self.clock = workers, crew, period_ms, clock
        self.stale = 0
        """Kicks that were left out."""
        self._shards, self._started_ms = shards, clock.now_ms()
        self._lock = threading.Lock()
        self._began_ms: dict[int, int] = {}
        self._running: dict[int, float] = {}
        self._unasked: dict[int, float] = {}
        """By thread since when it follows a kick, or stores for the want of one."""
        self._heard_s = self._kicked_s = self._ticked_s = self._stored_s = clock.monotonic_s()
        self._tick_ms = 0
        self._beaten_s: float | None = None

    # -- what is asked for

    def place(self) -> tuple[list[Kick], int]:
        """A kick for each shard that can be asked, the one that waits longest first, and when they were made.

        None where another worker has just placed: two schedulers do no more than one.
        """
        self._kicked()
        if not self.crew.take_turn("place", self.period_ms // 2):
            return [], 0
        live, states = self.crew.live(), self._states()
        names = [member.name for member in live.members]
        lapsed_ms = live.now_ms - _LAPSED_PERIODS * self.period_ms
        holders = [_holder(shard, states.get(shard), live, lapsed_ms) for shard in range(len(self._shards))]
        kicks = placed(names, holders, max(1, len(holders) // _MOVED_SHARE))
        reachable = [kick for kick in kicks if kick.shard in states]
        return sorted(reachable, key=lambda kick: _waits_since(states[kick.shard])), live.now_ms

    def tick(self, shard: int, made_ms: int, release: bool) -> str:
        """Follow a kick: what became of it in a word, `stale` where it was left out."""
        self._kicked()
        now_ms = self.crew.now_ms()
        with self._lock:
            self._ticked_s = self.clock.monotonic_s()
            if now_ms - made_ms > STALE_PERIODS * self.period_ms or made_ms < self._began_ms.get(shard, 0):
                self.stale += 1
                return "stale"
            self._began_ms[shard] = now_ms
        return self._tick(shard, release)

    def store(self) -> None:
        """Store what is final, unless another worker has just done so."""
        self._kicked()
        if self.crew.take_turn("store", self.period_ms):
            with self._noted(self._running):
                self.workers.store()

    def heard(self) -> None:
        """A message came: the broker's connection works."""
        self._heard_s = self.clock.monotonic_s()

    # -- the worker's own

    def beat(self) -> None:
        """Say that this worker lives."""
        held = tuple(sorted(self.workers.held()))
        self.crew.beat(Member(self.workers.name, held, self._started_ms, self._tick_ms))
        self._beaten_s = self.clock.monotonic_s()

    def why_not_ready(self) -> str | None:
        """None while the crew hears that this worker lives, so that it is given shards. Raises nothing."""
        if self._beaten_s is None:
            return "no other worker has heard of this one yet"
        unheard_s = self.clock.monotonic_s() - self._beaten_s
        return f"this worker was last heard {unheard_s:.0f} s ago" if unheard_s * 1000 > SILENT_MS else None

    def tick_held(self) -> None:
        """Nobody kicks: tick what is held."""
        for shard in sorted(self.workers.held()):
            self._tick(shard, False)
        self._ticked_s = self.clock.monotonic_s()

    def store_unasked(self) -> None:
        """Nobody kicks: store, unless another worker has just done so."""
        self._stored_s = self.clock.monotonic_s()
        if self.crew.take_turn("store", _STORED_PERIODS * self.period_ms):
            with self._noted(self._unasked):
                self.workers.store()

    def silent_s(self) -> float:
        """How long no message has come."""
        return self.clock.monotonic_s() - self._heard_s

    def unkicked_s(self) -> float:
        """How long no kick of a shard has come, and what is held was not ticked for the want of one."""
        return self.clock.monotonic_s() - self._ticked_s

    def unasked_s(self) -> float:
        """How long no kick of any kind has come, and it has not stored for the want of one."""
        return self.clock.monotonic_s() - max(self._kicked_s, self._stored_s)

    def is_busy(self) -> bool:
        """Whether a kick is being followed, so that the next message may have to wait."""
        with self._lock:
            return bool(self._running)

    def longest_s(self) -> float:
        """For how long a tick or storing has been running, the longest of them; 0 while none does."""
        with self._lock:
            began_s = [*self._running.values(), *self._unasked.values()]
        return self.clock.monotonic_s() - min(began_s) if began_s else 0.0

    def shutdown(self) -> None:
        """Finish the batches, release the leases, leave the crew. Raises nothing."""
        self.workers.shutdown()
        try:
            self.crew.leave(self.workers.name)
        except (ServerDown, ServerFull) as error:
            logger.warning("%s; the others will see by the silence that %s has ended", error, self.workers.name)

    def _kicked(self) -> None:
        self._heard_s = self._kicked_s = self.clock.monotonic_s()

    def _tick(self, shard: int, release: bool) -> str:
        began_s = self.clock.monotonic_s()
        try:
            with self._noted(self._running):
                return self.workers.tick(shard, release)
        finally:
            self._tick_ms = round(1000 * (self.clock.monotonic_s() - began_s))

    @contextmanager
    def _noted(self, running: dict[int, float]) -> Iterator[None]:
        """The watchdog sees that this thread is at work."""
        thread = threading.get_ident()
        with self._lock:
            running[thread] = self.clock.monotonic_s()
        try:
            yield
        finally:
            with self._lock:
                del running[thread]

    def _states(self) -> dict[int, ShardState]:
        """Of the shards that can be asked: one server that is down does not stop the others' shards."""
        found: dict[int, ShardState] = {}
        for server in self._shards.servers:
            mine = [shard for shard in self._shards.all if shard.server is server]
            try:
                replies = self._shards.ask_all([(shard, shard.ask_state()) for shard in mine])
            except ServerDown as error:
                logger.warning("%s; its shards are not placed", error)
                continue
            states = ((shard.number, parse_state(reply)) for shard, reply in zip(mine, replies, strict=True))
            found.update((number, state) for number, state in states if state is not None)
        return found


def _holder(shard: int, state: ShardState | None, live: Live, lapsed_ms: int) -> str:
    """Who holds it: by the lease, or, where that names nobody who lives, by what the workers say.

    A lease may be shorter than a period, and its holder's head is warm all the same: nobody holds a shard whose lease
    ended before `lapsed_ms`.
    """
    if state is not None and state.until_ms < lapsed_ms:
        return ""
    if state is not None and any(member.name == state.holder for member in live.members):
        return state.holder
    return next((member.name for member in live.members if shard in member.held), "")


def _waits_since(state: ShardState) -> tuple[int, int]:
    """Grows with the last tick, which renewed the lease; a shard that nobody holds comes first, the furthest behind."""
    return state.until_ms, state.read - state.bytes
