"""One of several, agreed upon by way of the first server: replicas that are heard, processes that lead."""

import threading
from dataclasses import dataclass

from precompute.clock import Clock
from precompute.cluster.server import Call, Script, Server, ServerDown, ServerFull
from precompute.errors import Rejected

_KEPT_PART = 4
"""A decision is asked for again after this part of the timeout."""

_MOST_DECISIONS = 100_000

_HEAR = Script(
    """
-- KEYS elected:<cluster>   ARGV replica timeout -> 1 if it is heard
local elected = redis.call('GET', KEYS[1])
if elected and elected ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
)

_LEAD = Script(
    """
-- KEYS leader:<name>   ARGV holder lease -> 1 if it leads
local leader = redis.call('GET', KEYS[1])
if leader and leader ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
)


@dataclass(frozen=True)
class _Decision:
    heard: bool
    until_s: float


class SharedElections:
    """Of the replicas of a cluster the same one is heard by all processes.

    A process asks again after a quarter of the timeout, so a silent replica loses its place after three to four
    quarters of it, and another is heard at most a quarter later.
    """

    def __init__(self, server: Server, timeout_ms: int, clock: Clock) -> None:
        self._server, self._timeout_ms, self._clock = server, timeout_ms, clock
        self._lock = threading.Lock()
        self._decisions: dict[tuple[str, str], _Decision] = {}

    def hear(self, cluster: str, replica: str) -> bool:
        """Whether this replica, which has just sent, is heard. Raises Rejected where nobody can tell."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            known = self._decisions.get((cluster, replica))
        if known is not None and now_s < known.until_s:
            return known.heard
        heard = self._ask(cluster, replica)
        with self._lock:
            if len(self._decisions) >= _MOST_DECISIONS:
                self._decisions.clear()
            self._decisions[cluster, replica] = _Decision(heard, now_s + self._timeout_ms / 1000 / _KEPT_PART)
        return heard

    def _ask(self, cluster: str, replica: str) -> bool:
        try:
            return bool(self._server.run(Call(_HEAR, (f"elected:{cluster}",), (replica, self._timeout_ms))))
        except (ServerDown, ServerFull) as error:
            raise Rejected(str(error)) from error


class Leader:
    """A lease for what one process of several does. Several may think they lead for as long as a call takes."""

    def __init__(self, server: Server, name: str, holder: str, lease_ms: int) -> None:
        """holder: differs from every other process's."""
        self._server = server
        self._call = Call(_LEAD, (f"leader:{name}",), (holder, lease_ms))

    def mine(self) -> bool:
        """Take or renew the lease; false where another has it, or nobody can tell."""
        try:
            return bool(self._server.run(self._call))
        except (ServerDown, ServerFull):
            return False
