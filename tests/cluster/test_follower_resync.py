"""A query engine whose logs change under it: another's data, a crash between two looks, a query over a rebuild."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from precompute.cluster.contact import Contact
from precompute.cluster.follower import Follower
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.replies import stream_id
from precompute.cluster.shards import Shards
from precompute.evaluate.head_source import HeadSource
from precompute.labels import Labels, SeriesTable
from precompute.samples import Block
from tests.cluster.following import FOLLOW_S, LIMITS, SHARDS, Cluster, instant, queries
from tests.cluster.test_follower import bits, some_minutes
from tests.precompute.made_node import series
from tests.running import poll_until
from tests.servers import RedisServer, redis_server

LOST = series("m", g="a", i="lost")


def read_up(follower: Follower, contact: Contact) -> None:
    """Until all logs are read to their ends, as its threads would."""
    follower._read_notes()
    while follower.why_not_ready() is not None:
        contact._polled_s = -1e9
        contact.keep_up()
        follower._see_if_whole()


def shard_of(cluster: Cluster, labels: Labels) -> int:
    return int(cluster.table.shard_of(np.array([cluster.table.intern(labels)], np.int32))[0])


def written_elsewhere(cluster: Cluster, server: RedisServer) -> None:
    """Samples of other series, to a server that has become a master of its own."""
    shards, table = Shards([server.url], SHARDS, LIMITS, cluster.clock.now_ms), SeriesTable(shards=SHARDS)
    logs = [RedisSampleLog(shard, table) for shard in shards.all]
    for pod in range(40):
        sid = np.array([table.intern(series("m", g="b", i=f"new{pod}"))], np.int32)
        logs[table.shard_of(sid)[0]].append(Block(sid, np.array([cluster.clock.now_ms()]), np.array([1.0])))
    shards.close()


def follow(server: RedisServer, other: RedisServer) -> None:
    server.cli("replicaof", "127.0.0.1", str(other.port))
    poll_until(lambda: "master_link_status:up" in server.cli("info", "replication"), FOLLOW_S, "it has all")


def test_a_server_that_has_anothers_data_is_read_anew_though_it_is_the_same_process(
    made_cluster: Callable[..., Cluster], using: str
) -> None:
    with redis_server() as server, redis_server() as promoted:
        cluster = made_cluster(server.url)
        some_minutes(cluster, seed=3, minutes=1)
        follow(promoted, server)
        promoted.cli("replicaof", "no", "one")
        with cluster.follower(using) as follower:
            cluster.write([(LOST, cluster.clock.now_ms(), 1e9)])
            cluster.caught_up(follower)
            assert bits(instant(queries(follower), 'm{i="lost"}', cluster.clock.now_ms()))
            cluster.clock.advance(3000)
            written_elsewhere(cluster, promoted)
            follow(server, promoted)
            server.cli("replicaof", "no", "one")
            poll_until(lambda: follower.read_anew, FOLLOW_S, "the logs are read anew")
            cluster.caught_up(follower)
            assert not bits(instant(queries(follower), 'm{i="lost"}', cluster.clock.now_ms()))


def test_a_query_over_a_rebuild_of_the_head_is_evaluated_again(
    cluster: Cluster, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_minutes(cluster, seed=13)
    follower = cluster.made_follower(using)
    (contact,), fill, tiles = follower._contacts, HeadSource._fill_tiles, list[int]()
    read_up(follower, contact)
    asked, text, t_ms = queries(follower), "count(m) + 0 * count(n)", cluster.clock.now_ms() - 1
    right = bits(instant(asked, text, t_ms))
    assert right

    def filled(source: HeadSource, *tile: Any) -> None:
        tiles.append(1)
        if len(tiles) == 1:
            follower._begin_anew()
        fill(source, *tile)
        if len(tiles) == 1:
            read_up(follower, contact)

    monkeypatch.setattr(HeadSource, "_fill_tiles", filled)
    assert bits(instant(queries(follower), text, t_ms)) == right
    assert follower.read_anew == 1
    follower.shutdown()


def test_what_a_server_had_before_its_crash_is_not_waited_for(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=14, minutes=1)
    follower = cluster.made_follower(using)
    (contact,), number = follower._contacts, shard_of(cluster, LOST)
    shard, copy = cluster.shards.all[number], follower.copies[number]
    read_up(follower, contact)
    before = shard.state()
    cluster.write([(LOST, cluster.clock.now_ms(), 1.0)])
    contact._polled_s = -1e9
    contact._poll()  # and before the log is read the server crashes and loses its newest entry
    lost = shard.state()
    assert before is not None and lost is not None
    shard.server.ask("XDEL", shard.log_key, stream_id(lost.last))
    shard.server.ask("HSET", f"{{{number}}}m", "last", stream_id(before.last))
    contact._run_id = b"of before the crash"
    cluster.pass_time(60_000)
    for _ in range(3):
        contact._polled_s = -1e9
        contact.keep_up()
    now = shard.state()
    assert copy.state is not None and now is not None and copy.state.alive_ms == now.alive_ms
    follower.shutdown()


def test_a_segment_that_is_still_read_keeps_its_definitions(cluster: Cluster, using: str) -> None:
    """The oldest one, which began in its last minute; base is the time of its first entry and a minute more."""
    segment_ms = LIMITS.segment_ms
    cluster.clock.advance((segment_ms - 30_000 - cluster.clock.now_ms()) % segment_ms)
    rows = [series("m", g="a", i=str(k)) for k in range(4)]
    for k in range(200):
        cluster.write([(labels, cluster.clock.now_ms() + 50_000 + k, 1.0) for labels in rows])
        cluster.clock.advance(100)
    for shard in cluster.shards.all:
        if oldest_ms := shard.oldest_ms():
            shard.server.ask("HSET", f"{{{shard.number}}}m", "base", oldest_ms + LIMITS.future_ms)
    follower = cluster.made_follower(using)
    (contact,) = follower._contacts
    read_up(follower, contact)
    assert follower.damaged_records() == 0
    assert follower.head.samples() == 4 * 200
    follower.shutdown()
