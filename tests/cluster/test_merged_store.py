"""What a query engine reads is what one process makes, to the bit: merged from shards, and from the database."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asap_project.config import Config
from asap_project.database import database
from precompute.clock import SystemClock
from precompute.cluster.follower import Follower
from precompute.cluster.server import Server, ServerDown
from precompute.models import SummaryPack
from precompute.pane_book import NONE
from precompute.samples import I64
from precompute.stores.base import StoreError
from precompute.stores.database import DatabaseStore
from precompute.summaries import Summary
from tests.cluster.conftest import KEPT
from tests.cluster.following import FOLLOW_S, SHARDS, Cluster, instant, queries, unnumbered
from tests.cluster.test_follower import bits, some_minutes
from tests.precompute.made_node import WIDTH_MS, aggregation, series
from tests.precompute.made_summaries import same
from tests.precompute.stores import databases
from tests.running import poll_until
from tests.servers import RedisServer, postgresql_server, redis_server

EVER_MS = 1 << 60


def summaries_agree(cluster: Cluster, follower: Follower) -> bool:
    """Every aggregation's panes since the beginning, in both."""
    pairs = [
        [unnumbered(store.get(kept.id, cluster.start_ms, EVER_MS)) for store in (cluster.core.store, follower.store)]
        for kept in cluster.kept
    ]
    assert all(one.rows for one, _ in pairs)
    return all(same(one, other) for one, other in pairs)


def put_away(cluster: Cluster, number: int, long_term: DatabaseStore | None, ends: I64) -> Summary:
    """Panes of an aggregation leave all shards, for the long-term store if there is one."""
    kept = cluster.kept[number]
    pack = cluster.core.store.get(kept.id, int(ends[0]) - 1, int(ends[-1]))
    if long_term is not None:
        long_term.insert(kept.id, pack)
    for shard in cluster.shards.all:
        shard.forget(kept.id, "stored", ends)
    return pack


def some_ends(cluster: Cluster, first: int, last: int) -> I64:
    return cluster.start_ms + WIDTH_MS * np.arange(first, last + 1, dtype=np.int64)


def test_merged_panes_are_those_of_one_process_to_the_bit(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=21)
    with cluster.follower(using) as follower:
        assert summaries_agree(cluster, follower)
        assert follower.store.cache_bytes() > 0
        assert follower.store.size_bytes(KEPT[0].id) > 0


def test_a_pane_is_merged_once_and_again_when_it_was_replaced(
    cluster: Cluster, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_minutes(cluster, seed=22)
    with cluster.follower(using) as follower:
        assert summaries_agree(cluster, follower)
        asked: list[int] = []
        merged = follower.store._merged
        monkeypatch.setattr(follower.store, "_merged", lambda a, ends: asked.extend(ends) or merged(a, ends))  # type: ignore[func-returns-value]
        assert summaries_agree(cluster, follower) and not asked
        some_minutes(cluster, seed=23, minutes=1)
        cluster.caught_up(follower)
        assert summaries_agree(cluster, follower)
        replaced = [end for end in asked if end <= cluster.start_ms + 12 * WIDTH_MS]
        assert replaced and set(asked) - set(replaced)


def test_panes_that_were_stored_are_read_from_the_database(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=24)
    with cluster.follower(using) as follower:
        before, ends = instant(queries(follower), "sum(m)", cluster.start_ms + 4 * WIDTH_MS), some_ends(cluster, 2, 6)
        put_away(cluster, 0, DatabaseStore(using), ends)
        kept = cluster.kept[0]
        poll_until(lambda: not follower.engine.seen(kept, ends).any(), FOLLOW_S, "the pack is known")
        assert summaries_agree(cluster, follower)
        assert not follower.engine.dirty(kept, ends).any()
        after = instant(queries(follower), "sum(m)", cluster.start_ms + 4 * WIDTH_MS)
        assert (after.tiers, bits(after)) == (before.tiers, bits(before)) == (("summary",), bits(before))


def test_a_partial_that_vanishes_while_it_is_read_is_looked_for_in_the_database(
    cluster: Cluster, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Follower, "_see_to_stored", lambda self: None)
    some_minutes(cluster, seed=25)
    with cluster.follower(using) as follower:
        put_away(cluster, 0, DatabaseStore(using), some_ends(cluster, 2, 6))
        poll_until(lambda: summaries_agree(cluster, follower), FOLLOW_S, "the pack is found")


def test_a_pane_that_is_stored_between_two_looks_is_in_one_of_them(
    cluster: Cluster, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Follower, "_see_to_stored", lambda self: None)
    some_minutes(cluster, seed=28)
    with cluster.follower(using) as follower:
        ends, got, turns = some_ends(cluster, 2, 6), follower.packs.get, list[int]()
        put_away(cluster, 0, DatabaseStore(using), ends)
        poll_until(lambda: sum(len(copy.leaving()) for copy in follower.copies) >= SHARDS, FOLLOW_S, "it is heard of")

        def get(*asked: Any) -> Summary:
            found = got(*asked)
            if not turns:
                turns.append(1)
                follower._refresh_packs()
            return found

        monkeypatch.setattr(follower.packs, "get", get)
        read = follower.store.get(KEPT[0].id, int(ends[0]) - 1, int(ends[-1]))
        assert turns and read.ends_ms.tolist() == ends.tolist()
        assert not follower.engine.dirty(KEPT[0], ends).any()


def test_a_partial_that_vanishes_for_good_is_a_gap_that_the_head_fills(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=26)
    end_ms = cluster.start_ms + 4 * WIDTH_MS
    with cluster.follower(using) as follower:
        cluster.shards.all[5].server.ask("HDEL", f"{{5}}p:{KEPT[0].id}", end_ms)
        answer = instant(queries(follower), "sum(m)", end_ms)
        assert (answer.tiers, bits(answer)) == (("head",), bits(cluster.core.instant("sum(m)", end_ms)))


def test_a_partial_whose_bytes_are_damaged_is_a_gap(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=27)
    end_ms = cluster.start_ms + 4 * WIDTH_MS
    with cluster.follower(using) as follower:
        cluster.shards.all[5].server.ask("HSET", f"{{5}}p:{KEPT[0].id}", end_ms, b"no summary")
        assert instant(queries(follower), "sum(m)", end_ms).tiers == ("head",)
        assert follower.store.failures == 1


def test_a_partial_that_is_older_again_after_a_crash_is_a_gap(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=32)
    end_ms, late = cluster.start_ms + 4 * WIDTH_MS, series("m", g="a", i="later")
    number = int(cluster.table.shard_of(np.array([cluster.table.intern(late)], np.int32))[0])
    shard, end = cluster.shards.all[number], np.array([end_ms], np.int64)
    (older,) = shard.blobs(KEPT[0].id, end)
    cluster.write([(late, end_ms - 1000, 1e6)])
    cluster.tick()
    with cluster.follower(using) as follower:
        assert older is not None
        shard.server.ask("HSET", f"{{{number}}}p:{KEPT[0].id}", end_ms, older)
        answer = instant(queries(follower), "sum(m)", end_ms)
        assert (answer.tiers, bits(answer)) == (("head",), bits(cluster.core.instant("sum(m)", end_ms)))


def test_while_redis_is_away_its_panes_are_gaps(cluster: Cluster, using: str, monkeypatch: pytest.MonkeyPatch) -> None:
    some_minutes(cluster, seed=28)
    ends = some_ends(cluster, 2, 6)
    with cluster.follower(using) as follower:
        put_away(cluster, 0, DatabaseStore(using), ends)
        poll_until(lambda: not follower.engine.seen(cluster.kept[0], ends).any(), FOLLOW_S, "the pack is known")

        def away(*_: object) -> Any:
            raise ServerDown("away")

        monkeypatch.setattr(Server, "ask_all", away)
        found = follower.store.get(KEPT[0].id, cluster.start_ms, EVER_MS)
        assert found.ends_ms.tolist() == ends.tolist()


def test_a_new_aggregation_is_served_once_its_panes_are_known(cluster: Cluster, using: str) -> None:
    new, cluster.kept[1:] = cluster.kept[1], []
    some_minutes(cluster, seed=29)
    with cluster.follower(using) as follower:
        cluster.kept.append(new)
        cluster.core.engine.replace(cluster.kept)
        follower.engine.replace(cluster.kept)
        cluster.tick()
        cluster.caught_up(follower)
        end = some_ends(cluster, 6, 6)
        poll_until(lambda: not follower.engine.dirty(new, end).any(), FOLLOW_S, "its panes are known")
        assert summaries_agree(cluster, follower)
        follower.engine.replace([new])
        assert follower.engine.aggregations == (new,)
        assert len(follower.engine.ends(new)) > 6 and follower.engine.newest_ms(new)


def test_no_pane_of_what_was_found_wrong_serves_again_packed_or_open(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=33)
    ends, wrong = some_ends(cluster, 2, 6), cluster.kept[0]
    with cluster.follower(using) as follower:
        put_away(cluster, 0, DatabaseStore(using), ends)
        poll_until(lambda: not follower.engine.seen(wrong, ends).any(), FOLLOW_S, "the pack is known")
        follower.engine.replace(cluster.kept[1:], [wrong.id])
        follower.engine.replace(cluster.kept)
        assert follower.engine.disowned == 1 and not DatabaseStore(using).get(wrong.id, 0, EVER_MS).panes
        poll_until(lambda: not len(follower.engine.ends(wrong)), FOLLOW_S, "its partials are known to be gone")
        assert not follower.store.get(wrong.id, 0, EVER_MS).panes
        assert len(follower.engine.ends(cluster.kept[1])) > 6


def test_while_postgresql_is_away_packs_are_gaps_and_open_panes_are_served(
    django_db_blocker: Any, redis: RedisServer, tmp_path: Path
) -> None:
    with (
        django_db_blocker.unblock(),
        postgresql_server() as server,
        databases.migrated("packs_away", database(Config(database={"url": server.url()}))) as alias,
    ):
        cluster = Cluster([redis.url], tmp_path, KEPT, SystemClock().now_ms())
        some_minutes(cluster, seed=30)
        ends, kept = some_ends(cluster, 2, 6), cluster.kept[0]
        with cluster.follower(alias) as follower:
            put_away(cluster, 0, DatabaseStore(alias), ends)
            poll_until(lambda: not follower.engine.seen(kept, ends).any(), FOLLOW_S, "the pack is known")
            asked = queries(follower)
            server.stop()
            stored_ms, open_ms = int(ends[2]), int(ends[-1]) + WIDTH_MS
            for text, end_ms in (("sum(m)", stored_ms), ("sum(m)", open_ms), ("count(m)", stored_ms)):
                answer = instant(asked, text, end_ms)
                assert answer.tiers == (("head",) if end_ms == stored_ms else ("summary",))
                assert bits(answer) == bits(cluster.core.instant(text, end_ms))
            assert follower.packs.failures
            server.start()
            poll_until(
                lambda: instant(asked, "sum(m)", stored_ms).tiers == ("summary",), FOLLOW_S, "the database is back"
            )


def test_while_postgresql_is_silent_queries_are_answered_and_silence_of_redis_is_seen(
    django_db_blocker: Any, tmp_path: Path
) -> None:
    with (
        django_db_blocker.unblock(),
        redis_server() as redis,
        postgresql_server() as server,
        databases.migrated("packs_silent", database(Config(database={"url": server.url()}))) as alias,
    ):
        cluster = Cluster([redis.url], tmp_path, KEPT, SystemClock().now_ms())
        some_minutes(cluster, seed=32)
        ends, kept = some_ends(cluster, 2, 6), cluster.kept[0]
        with cluster.follower(alias) as follower:
            put_away(cluster, 0, DatabaseStore(alias), ends)
            poll_until(lambda: not follower.engine.seen(kept, ends).any(), FOLLOW_S, "the pack is known")
            asked, stored_ms = queries(follower), int(ends[2])
            with server.paused():
                answer = instant(asked, "sum(m)", stored_ms)
                assert answer.tiers == ("head",)
                assert bits(answer) == bits(cluster.core.instant("sum(m)", stored_ms))
                assert follower.packs.away and not follower.progress().holes
                redis.kill()
                copy = follower.copies[7]
                poll_until(lambda: not copy.in_touch, FOLLOW_S, "Redis is noticed to be gone")
                assert copy.state is not None
                copy.state = replace(copy.state, alive_ms=copy.state.alive_ms - 600_000)  # as after ten minutes
                poll_until(lambda: follower.progress().holes, FOLLOW_S, "a hole is seen")


def test_a_query_engine_starts_while_the_database_is_away(cluster: Cluster, using: str, monkeypatch: Any) -> None:
    some_minutes(cluster, seed=31)

    def away(*_: object) -> Any:
        raise StoreError("away")

    monkeypatch.setattr(DatabaseStore, "refs", away)
    with cluster.follower(using) as follower:
        assert summaries_agree(cluster, follower)


def test_panes_past_their_retention_are_gone_though_their_pack_is_there(
    redis: RedisServer, using: str, tmp_path: Path
) -> None:
    SummaryPack.objects.using(using).all().delete()
    short = aggregation("m", ["g"], retention_ms=10 * 60_000)
    cluster = Cluster([redis.url], tmp_path, [short], SystemClock().now_ms())
    some_minutes(cluster, seed=33)
    ends = some_ends(cluster, 2, 8)
    with cluster.follower(using) as follower:
        engine, one_node = follower.engine, cluster.core.engine
        put_away(cluster, 0, DatabaseStore(using), ends)
        poll_until(lambda: not engine.seen(short, ends).any(), FOLLOW_S, "the pack is known")
        assert not engine.dirty(short, ends).any()
        cluster.pass_time(int(ends[3]) + short.retention_ms - cluster.clock.now_ms())
        cluster.tick()
        cluster.caught_up(follower)
        kept = np.array([False] * 4 + [True] * 3)
        assert (one_node.seen(short, ends) != NONE).tolist() == kept.tolist()
        assert (engine.seen(short, ends) != NONE).tolist() == kept.tolist()
        assert (~engine.dirty(short, ends)).tolist() == kept.tolist()
        assert np.isin(ends, engine.ends(short)).tolist() == kept.tolist()
        assert engine.why_dirty(short, int(ends[3])) == "past its retention"
        assert len(follower.packs.ends(short.id, 0, EVER_MS)) == len(ends)
