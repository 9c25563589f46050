"""Says each second, to every shard, that somebody listens for its samples; and knows who does not hear it."""

import logging
import threading

from precompute.clock import Clock
from precompute.cluster.replies import appended
from precompute.cluster.server import Server, ServerDown, ServerFull
from precompute.cluster.shards import Shards
from precompute.lasting import attempt

logger = logging.getLogger(__name__)

_EVERY_S, _UNHEALTHY_S = 1.0, 30.0


class Heartbeat:
    """One thread sends; any may ask how that goes."""

    def __init__(self, shards: Shards, clock: Clock) -> None:
        self._shards, self._clock = shards, clock
        self._silent: dict[Server, str] = {}
        """Servers that did not take the last one, and why."""
        self._taken_s = dict.fromkeys(shards.servers, clock.monotonic_s())
        """When each server last took one; at first, when we began."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asap-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Nobody listens any more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def beat(self) -> None:
        """Move `alive` of every shard that has room and whose server answers; of the others it has to stay."""
        for server in self._shards.servers:
            try:
                self._beat_on(server)
                self._silent.pop(server, None)
                self._taken_s[server] = self._clock.monotonic_s()
            except (ServerDown, ServerFull) as error:
                if server not in self._silent:
                    logger.warning("no heartbeat: %s", error)
                self._silent[server] = str(error)

    def silent_servers(self) -> int:
        """How many did not take the last one."""
        return len(self._silent)

    def why_unhealthy(self) -> str | None:
        """None while every server took one lately."""
        server = min(self._taken_s, key=lambda one: self._taken_s[one])
        silent_s = self._clock.monotonic_s() - self._taken_s[server]
        if silent_s <= _UNHEALTHY_S:
            return None
        why = self._silent.get(server, "none is sent any more")
        return f"Redis at {server.name} has taken no heartbeat for {silent_s:.0f} s: {why}"

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            attempt(self.beat, "the heartbeat")

    def _beat_on(self, server: Server) -> None:
        mine = [shard for shard in self._shards.all if shard.server is server]
        replies = server.run_all([shard.beat_call() for shard in mine])
        for shard, reply in zip(mine, replies, strict=True):
            if appended(reply).outcome == "missing":
                logger.error("shard %d has lost its metadata and begins anew, complete from now on", shard.number)
                shard.create(complete=False)
