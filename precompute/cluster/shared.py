"""What belongs to no shard, kept on the first server:

    fixed          hash: constants fixed at install
    place          on every server: its number among all
    metadata       hash: metric family -> its descriptions, JSON [[type, help, unit], …]
    histograms     set: metrics that have histogram samples
    partial        set: metrics some series of which were refused
    received       hash: metric -> time of the first sample that was noted of it
    received_rev   a nonce that every addition to it changes
"""

import json
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple

from precompute.clock import Clock
from precompute.cluster.server import Call, Script, Server, ServerDown, ServerFull
from precompute.cluster.shards import Shards
from precompute.errors import InstallMismatch, Rejected
from precompute.metadata import MOST_FAMILIES, Described, Family

MOST_NOTED_METRICS = 100_000
_REFRESH_S = 5.0
_WRITTEN_AGAIN_S, _DESCRIBED_AGAIN_S = 10.0, 600.0
"""What this process has written is written again when it comes after so long: the server may have lost it."""
_AWAY_S = 10.0
"""So long a server that did not answer is not asked again for what can wait: each time may take 5 s."""

_NOTE_FAMILY = Script(
    """
-- KEYS metadata   ARGV family description most
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
local all, kept = known and cjson.decode(known) or {}, {}
for _, one in ipairs(all) do
  if cjson.encode(one) ~= cjson.encode(cjson.decode(ARGV[2])) then kept[#kept + 1] = one end
end
kept[#kept + 1] = cjson.decode(ARGV[2])
while #kept > 4 do table.remove(kept, 1) end
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(kept))
return 1
"""
)

_ADD_BOUNDED = Script(
    """
-- KEYS set   ARGV most member… -> 1, or 0 if it would hold more
local new = 0
for at = 2, #ARGV do new = new + 1 - redis.call('SISMEMBER', KEYS[1], ARGV[at]) end
if redis.call('SCARD', KEYS[1]) + new > tonumber(ARGV[1]) then return 0 end
for at = 2, #ARGV do redis.call('SADD', KEYS[1], ARGV[at]) end
return 1
"""
)

_NOTE_RECEIVED = Script(
    """
-- KEYS received rev   ARGV new_rev most (metric t_ms)…
local left, added = tonumber(ARGV[2]) - redis.call('HLEN', KEYS[1]), 0
for at = 3, #ARGV, 2 do
  if added < left then added = added + redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1]) end
end
if added > 0 then redis.call('SET', KEYS[2], ARGV[1]) end
return added
"""
)


def agree(shards: Shards, constants: Mapping[str, int]) -> None:
    """Fix these options for the whole install, or find them fixed alike; raises InstallMismatch where one is not."""
    names = list(constants)
    stored = shards.first.ask("HMGET", "fixed", *names)
    if None in stored:  # else nothing is written, which a full server would refuse
        fix = [("HSETNX", "fixed", name, constants[name]) for name in names]
        *_, stored = shards.first.ask_all([*fix, ("HMGET", "fixed", *names)])
    for name, value in zip(names, map(int, stored), strict=True):
        if value != constants[name]:
            raise InstallMismatch(
                f"{name} is {constants[name]}, but this install was made with {value}: set it back to {value}, "
                f"or begin anew with an empty Redis at {shards.first.name}"
            )


def take_places(shards: Shards) -> None:
    """Each server is told its place among all, or has it; raises InstallMismatch where it has another.

    Shards are found by it: with the servers in another order, or one of them named twice, every shard would begin anew.
    """
    for place, server in enumerate(shards.servers):
        stored = server.ask("GET", "place")
        if stored is None:
            *_, stored = server.ask_all([("SETNX", "place", place), ("GET", "place")])
        if int(stored) != place:
            raise InstallMismatch(
                f"redis.log_urls: {server.name} is number {place} and was number {int(stored)} when this install was "
                "made, counted from 0: name the same servers in the same order"
            )


class SharedNotes:
    """What is remembered of metrics; written by ingest processes, read by those who answer. Any thread may call it."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server, self._clock = server, clock
        self._noted: dict[str, set[str]] = {"histograms": set(), "partial": set()}
        """What this process has written lately."""
        self._since_s = clock.monotonic_s()
        self._received: dict[str, int] = {}
        self._received_as_of: tuple[bytes | None, int] = (None, 0)
        """Revision and size of what was read last."""

    def note_histograms(self, metrics: Iterable[str]) -> None:
        """Raises Rejected when there are too many, or the server does not take it."""
        self._add("histograms", set(metrics), "have native histograms")

    def note_partial(self, metrics: Iterable[str]) -> None:
        """Raises as `note_histograms`."""
        self._add("partial", set(metrics), "had series that were refused")

    def note_received(self, first_ms: Mapping[str, int]) -> None:
        """What was noted first of a metric stays: series that come later say nothing of those before them.

        Metrics beyond a bound are let go: what is not known to be received is asked of the upstream.
        """
        flat = [part for metric, t_ms in first_ms.items() for part in (metric, t_ms)]
        arguments = (secrets.token_hex(8), MOST_NOTED_METRICS, *flat)
        try:
            self._server.run(Call(_NOTE_RECEIVED, ("received", "received_rev"), arguments))
        except (ServerDown, ServerFull) as error:
            raise Rejected(str(error)) from error

    def histogram_metrics(self) -> frozenset[str]:
        return self._members("histograms")

    def partial_metrics(self) -> frozenset[str]:
        return self._members("partial")

    def received_since(self) -> dict[str, int]:
        """By metric the time of the first sample that was noted of it; read anew when it has changed.

        A revision that goes back with the server is another one too. The size tells what processes of an older
        version add, which leave the revision.
        """
        as_of = tuple(self._server.ask_all([("GET", "received_rev"), ("HLEN", "received")]))
        if as_of != self._received_as_of:  # what is added meanwhile changes the revision, and is read next time
            flat = self._server.ask("HGETALL", "received")
            self._received = {metric.decode(): int(t_ms) for metric, t_ms in zip(flat[::2], flat[1::2], strict=True)}
            self._received_as_of = as_of
        return self._received

    def _add(self, key: str, metrics: set[str], what: str) -> None:
        if self._clock.monotonic_s() - self._since_s >= _WRITTEN_AGAIN_S:
            self._since_s = self._clock.monotonic_s()
            self._noted = {key: set() for key in self._noted}
        new = metrics - self._noted[key]
        if not new:
            return
        try:
            added = self._server.run(Call(_ADD_BOUNDED, (key,), (MOST_NOTED_METRICS, *sorted(new))))
        except (ServerDown, ServerFull) as error:
            raise Rejected(str(error)) from error
        if not added:
            raise Rejected(f"more than {MOST_NOTED_METRICS} metrics {what}")
        self._noted[key] = self._noted[key] | new

    def _members(self, key: str) -> frozenset[str]:
        return frozenset(member.decode() for member in self._server.ask("SMEMBERS", key))


class SharedMetadata:
    """Descriptions of metric families that all processes share; what others note is seen within seconds."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server, self._clock = server, clock
        self._lock = threading.Lock()
        self._noted: set[tuple[str, Family]] = set()
        """What this process has written lately."""
        self._since_s = clock.monotonic_s()
        self._known: dict[str, list[Family]] = {}
        self._read_s: float | None = None
        self._silent_until_s = clock.monotonic_s()

    def note(self, described: Sequence[Described]) -> None:
        """Where the server does not take them, they are let go: senders repeat them every minute."""
        now_s = self._clock.monotonic_s()
        if now_s - self._since_s >= _DESCRIBED_AGAIN_S:
            self._since_s, self._noted = now_s, set()
        new = [one for one in dict.fromkeys(described) if one not in self._noted]
        if not new or now_s < self._silent_until_s:
            return
        with self._letting_go():
            self._server.run_all([_note_call(*one) for one in new])
            self._noted.update(new[: MOST_FAMILIES - len(self._noted)])

    def all(self) -> dict[str, list[Family]]:
        """As they were known seconds ago, or when the server last answered."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            is_due = self._read_s is None or now_s - self._read_s >= _REFRESH_S
            if is_due and now_s >= self._silent_until_s:
                self._read_s = now_s
                with self._letting_go():
                    self._known = self._read()
            return self._known

    @contextmanager
    def _letting_go(self) -> Iterator[None]:
        """What the server does not do."""
        try:
            yield
        except ServerFull:
            return
        except ServerDown:
            self._silent_until_s = self._clock.monotonic_s() + _AWAY_S

    def _read(self) -> dict[str, list[Family]]:
        flat = self._server.ask("HGETALL", "metadata")
        found = zip(flat[::2], flat[1::2], strict=True)
        known = {family.decode(): [Family(*one) for one in json.loads(text)] for family, text in found}
        return dict(sorted(known.items()))


def _note_call(family: str, description: Family) -> Call:
    return Call(_NOTE_FAMILY, ("metadata",), (family, json.dumps(astuple(description)), MOST_FAMILIES))
