"""Shards of a few lines under the real worker: settings and what they name, for tests of kicks and of starting and
stopping.

A tick takes the shard's real lease and notes itself in the list `ticks` of the first log server: worker, shard and what
became of it. STANDIN in the environment chooses what goes wrong: `slow` ticks take 2 s, a `stuck` one never ends, a
`deaf` worker is connected to its broker and fetches nothing, a `refused` one cannot start.
"""

import os
import threading
import uuid

from kombu.transport.redis import MultiChannelPoller

from asap_project.config import Config
from asap_project.settings import *  # noqa: F403
from precompute.clock import SystemClock
from precompute.cluster.crew import Crew
from precompute.cluster.kicks import Kicks
from precompute.cluster.replies import ShardLimits
from precompute.cluster.shards import Shards
from precompute.errors import InstallMismatch

STREAMING_WORKER = "tests.cluster.standin_worker.streaming_worker"
BEHAVIOUR = os.environ.get("STANDIN", "")
_MINUTE_MS, _ROOM = 60_000, 1 << 30
_LEASE_MS = 10_000 if BEHAVIOUR == "slow" else 3_000
LIMITS = ShardLimits(
    60 * _MINUTE_MS, _MINUTE_MS, 1000, 60 * _MINUTE_MS, 10 * _MINUTE_MS, _LEASE_MS, _ROOM, _ROOM
)  # fmt: skip
"""With a short lease, which a tick is well within."""


class StandinWorkers:
    """Leases without heads."""

    def __init__(self, name: str, shards: Shards) -> None:
        self.name, self._shards, self._clock = name, shards, SystemClock()
        self._revs: dict[int, str] = {}
        self._lock, self._stopped = threading.Lock(), threading.Event()

    def tick(self, number: int, release: bool = False) -> str:
        with self._lock:
            if self._stopped.is_set():
                return "stopped"
            outcome = self._tick(number, release)
            self._shards.first.ask("RPUSH", "ticks", f"{self.name} {number} {outcome}")
            return outcome

    def _tick(self, shard: int, release: bool) -> str:
        one = self._shards.all[shard]
        rev, _ = one.begin(self.name, self._revs.get(shard, ""), uuid.uuid4().hex, self._clock.now_ms())
        if rev is None:
            self._revs.pop(shard, None)
            return "taken"
        self._revs[shard] = rev
        threading.Event().wait({"slow": 2.0, "stuck": None}.get(BEHAVIOUR, 0.0))
        if release:
            self._release(shard)
        return "released" if release else "ticked"

    def _release(self, shard: int) -> None:
        self._shards.all[shard].end(self.name, self._revs.pop(shard), None, 0, True, None)

    def held(self) -> tuple[int, ...]:
        return tuple(self._revs)

    def keep(self) -> None:
        """Its ticks are short."""

    def store(self) -> None:
        self._shards.first.ask("RPUSH", "stores", self.name)

    def shutdown(self) -> None:
        self._stopped.set()
        with self._lock:
            for shard in self.held():
                self._release(shard)
        print(f"{self.name} has released all", flush=True)


def streaming_worker(config: Config, name: str) -> Kicks:
    """What settings.STREAMING_WORKER names."""
    if BEHAVIOUR == "refused":
        raise InstallMismatch("engine.minibatch.shards is 4 here and was 8 at install")
    if BEHAVIOUR == "deaf":
        MultiChannelPoller.on_poll_start = lambda self: None
    shards = Shards(config.redis.log_urls, config.engine.minibatch.shards, LIMITS)
    shards.create(True)
    workers = StandinWorkers(name, shards)
    return Kicks(workers, shards, Crew(shards.first), config.engine.minibatch.window_size, SystemClock())
