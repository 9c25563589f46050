"""Who works: each worker says each second that it lives and what it holds, and counts as gone when it falls silent.

    {crew}heard        sorted set: worker -> when it was last heard, by the server's clock
    {crew}said         hash: worker -> what it said, as JSON
    {crew}turn:<what>  somebody has just done this; expires

Kept on the server of what belongs to no shard; without memory left it goes on (scripts.py).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from precompute.cluster.scripts import NOW, WHATEVER_MEMORY
from precompute.cluster.server import Call, Script, Server, time_ms

SILENT_MS = 5_000
"""A worker that was not heard for longer counts as gone."""

_HEARD, _SAID = "{crew}heard", "{crew}said"

_BEAT = Script(
    WHATEVER_MEMORY
    + NOW
    + """
local now = now_ms()
-- KEYS heard said   ARGV now name said
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return now
"""
)

_LIVE = Script(
    NOW
    + """
local now = now_ms()
-- KEYS heard said   ARGV now silent -> now (name said)…
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - ARGV[2]))) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('HDEL', KEYS[2], gone)
end
local found = redis.call('HGETALL', KEYS[2])
table.insert(found, 1, string.format('%.0f', now))
return found
"""
)

_TAKE_TURN = Script(
    WHATEVER_MEMORY
    + """
-- KEYS turn   ARGV quiet -> 1 if it is the caller's
return redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) and 1 or 0
"""
)


@dataclass(frozen=True)
class Member:
    """What a worker says of itself."""

    name: str
    held: tuple[int, ...]
    """The shards whose lease it has, ascending."""
    started_ms: int
    tick_ms: int
    """How long its last tick took."""


@dataclass(frozen=True)
class Live:
    """The workers that live, by name, and the server's time at which that was so."""

    now_ms: int
    members: tuple[Member, ...]


class Crew:
    """All workers of an install. Any thread may call it; every method raises ServerDown."""

    def __init__(self, server: Server, now_ms: Callable[[], int] | None = None) -> None:
        """now_ms: the time to judge by, for tests that move it; None: the server's own."""
        self._server, self._now_ms = server, now_ms

    def beat(self, member: Member) -> None:
        """Say that this worker lives."""
        said = json.dumps([member.held, member.started_ms, member.tick_ms])
        self._server.run(Call(_BEAT, (_HEARD, _SAID), (self._now(), member.name, said)))

    def live(self) -> Live:
        """Who was heard just now; the others are forgotten."""
        now, *flat = self._server.run(Call(_LIVE, (_HEARD, _SAID), (self._now(), SILENT_MS)))
        members = (_member(name, said) for name, said in zip(flat[::2], flat[1::2], strict=True))
        return Live(int(now), tuple(sorted(members, key=lambda member: member.name)))

    def leave(self, name: str) -> None:
        """This worker ends, and says so."""
        self._server.ask_all([("ZREM", _HEARD, name), ("HDEL", _SAID, name)])

    def take_turn(self, what: str, quiet_ms: int) -> bool:
        """Whether it is ours to do this now; then it is nobody's for `quiet_ms`."""
        return bool(self._server.run(Call(_TAKE_TURN, (f"{{crew}}turn:{what}",), (max(1, quiet_ms),))))

    def now_ms(self) -> int:
        """The server's time, which is the same for all workers."""
        if self._now_ms is not None:
            return self._now_ms()
        return time_ms(self._server.ask("TIME"))

    def _now(self) -> int | str:
        return "" if self._now_ms is None else self._now_ms()


def _member(name: bytes, said: bytes) -> Member:
    told: Any = json.loads(said)
    held, started_ms, tick_ms = told
    return Member(name.decode(), tuple(held), started_ms, tick_ms)
