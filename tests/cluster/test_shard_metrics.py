"""What every role shows of shards and of their servers: by the server's own clock, and as far as it can be asked."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from precompute.clock import Clock, ManualClock, SystemClock
from precompute.cluster.metrics import ShardCollector
from precompute.cluster.replies import appended
from precompute.cluster.shards import Shards
from precompute.log.base import Hole
from tests.cluster import made_shards
from tests.servers import RedisServer, redis_server

LIMITS = replace(made_shards.LIMITS, lease_ms=600_000)
AHEAD_MS = 3_600_000
"""So far that no test which stands still for a while comes near it."""
SHARDS = 4


@pytest.fixture
def other() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def shards(redis: RedisServer, other: RedisServer) -> Iterator[Shards]:
    """On two servers, judged by their clocks."""
    made = Shards([redis.url, other.url], SHARDS, LIMITS)
    made.create(complete=False)
    for shard in made.all:
        assert appended(shard.server.run(shard.beat_call())).outcome == "ok"
    yield made
    made.close()


def shown(shards: Shards, clock: Clock) -> dict[tuple[str, str], float]:
    """By the metric's name, and its shard or server."""
    samples = (sample for metric in ShardCollector(shards, clock).collect() for sample in metric.samples)
    return {(sample.name, next(iter(sample.labels.values()))): sample.value for sample in samples}


def ahead(ms: int) -> ManualClock:
    return ManualClock(SystemClock().now_ms() + ms)


def test_a_clock_that_is_ahead_is_seen_and_makes_no_shard_silent(shards: Shards) -> None:
    found = shown(shards, ahead(AHEAD_MS))
    for server in shards.servers:
        assert found["asap_clock_ahead_seconds", server.name] == pytest.approx(AHEAD_MS / 1000, abs=600)
    for number in map(str, range(SHARDS)):
        assert found["asap_shard_silent_seconds", number] < 600


def test_who_holds_a_shard_is_judged_by_its_servers_clock(shards: Shards) -> None:
    shards.all[1].begin("a", "", "r1", SystemClock().now_ms())
    found = shown(shards, ahead(2 * LIMITS.lease_ms))
    assert [found["asap_shard_held", str(number)] for number in range(SHARDS)] == [0, 1, 0, 0]


def test_holes_are_counted(shards: Shards) -> None:
    shard, now_ms = shards.all[2], SystemClock().now_ms()
    before = shown(shards, SystemClock())["asap_shard_holes", "2"]
    shard.server.run(shard.hole_call(Hole(now_ms - 2000, now_ms - 1000, "m")))
    assert shown(shards, SystemClock())["asap_shard_holes", "2"] == before + 1


def test_of_a_server_that_is_away_nothing_is_shown(shards: Shards, other: RedisServer) -> None:
    other.kill()
    found = shown(shards, SystemClock())
    assert {label for name, label in found if name == "asap_shard_held"} == {"0", "2"}
    assert [label for name, label in found if name == "asap_clock_ahead_seconds"] == [shards.first.name]
