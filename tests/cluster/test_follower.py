"""A query engine of a cluster follows the logs: it answers as one process does, whatever happens to the servers."""

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from precompute.cluster.contact import LogRewound
from precompute.cluster.head_copy import HeadCopy
from precompute.cluster.metrics import FOLLOWER_COUNTERS, FOLLOWER_GAUGES
from precompute.cluster.packs import Packs
from precompute.cluster.replies import Samples, ShardState, appended, stream_id
from precompute.cluster.shard_copy import ShardCopy
from precompute.compaction import compact
from precompute.errors import ExecutionError
from precompute.evaluate.values import Vector
from precompute.labels import Labels
from precompute.log.base import Hole
from precompute.metrics import QUERY_GAUGES
from precompute.numbers import Numbers
from precompute.query_node import QueryNode
from query.answers import Answer
from tests.cluster.following import FOLLOW_S, Cluster, instant, queries
from tests.precompute.made_node import WIDTH_MS, series
from tests.running import poll_until
from tests.servers import RedisServer, redis_server

GROUPS, PODS = "ab", 8
MINUTE_MS = 60_000


def scrape(cluster: Cluster, rng: np.random.Generator) -> None:
    """A sample of most series, at times shortly before now."""
    now_ms = cluster.clock.now_ms()
    rows: list[tuple[Labels, int, float]] = []
    for group in GROUPS:
        for pod in range(PODS):
            t_ms, own = now_ms - int(rng.integers(0, 4000)), {"g": group, "i": str(pod)}
            rows += [(series("m", **own), t_ms, float(rng.normal()) * 1e3), (series("n", **own), t_ms, pod + 0.1)]
            rows.append((series("c_total", **own), t_ms, float((t_ms // 1000) % 500 * (pod + 1))))
    cluster.write([row for row in rows if rng.random() < 0.9])


def some_minutes(cluster: Cluster, seed: int, minutes: int = 3) -> None:
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(4 * minutes):
        scrape(cluster, rng)
        cluster.pass_time(WIDTH_MS)
        if rng.random() < 0.5:
            cluster.tick()
    late_ms = cluster.clock.now_ms() - 2 * MINUTE_MS
    cluster.write([(series("m", g="a", i="late"), late_ms, 12.5), (series("c_total", g="b", i="1"), late_ms, 3.0)])
    cluster.tick()


def bits(answer: Answer) -> dict[Labels, tuple[list[bool], list[int]]]:
    value = answer.value
    assert isinstance(value, Vector)
    shown = np.where(value.present, value.values, 0.0).view(np.int64)
    return {value.frame.labels(row): (value.present[row].tolist(), shown[row].tolist()) for row in range(len(value))}


ASKED = (
    "sum by (g) (m)", "quantile by (g) (0.9, m)", "stddev (m)", "avg by (g) (m)", "sum by (g) (rate(c_total[1m]))",
    "sum (m / on (g, i) group_left () n)", "m", "rate(c_total[2m])", "topk(3, m)", "sum by (i) (m)", "max(m) - min(m)",
)  # fmt: skip


@pytest.mark.parametrize("servers", [1, 2])
def test_it_answers_as_one_process_does_to_the_bit(
    made_cluster: Callable[..., Cluster], using: str, redis: RedisServer, servers: int
) -> None:
    with redis_server() as other:
        cluster = made_cluster(*[redis.url, other.url][:servers])
        some_minutes(cluster, seed=7)
        now_ms = cluster.clock.now_ms()
        with cluster.follower(using) as follower:
            here, there = cluster.core.queries, queries(follower)
            for text in ASKED:
                one, other_one = (
                    here.range(text, cluster.start_ms, now_ms, WIDTH_MS),
                    there.range(text, cluster.start_ms, now_ms, WIDTH_MS),
                )
                assert isinstance(one, Answer) and isinstance(other_one, Answer)
                assert (bits(one), one.tiers) == (bits(other_one), other_one.tiers), text
            assert "summary" in instant(there, ASKED[0], now_ms - 2 * WIDTH_MS).tiers


def test_a_late_sample_makes_panes_dirty_until_their_shard_has_replaced_them(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=8)
    kept, end_ms = cluster.kept[0], cluster.start_ms + MINUTE_MS
    ends = np.array([end_ms], np.int64)
    with cluster.follower(using) as follower:
        asked, engine = queries(follower), follower.engine
        before, seen = instant(asked, "sum(m)", end_ms), engine.seen(kept, ends)
        assert before.tiers == ("summary",)
        cluster.write([(series("m", g="a", i="later"), end_ms - 1000, 1e6)])
        cluster.caught_up(follower)
        assert engine.dirty(kept, ends).all() and "got late samples" in engine.why_dirty(kept, end_ms)
        assert instant(asked, "sum(m)", end_ms).tiers == ("head",)
        cluster.tick()
        cluster.caught_up(follower)
        after = instant(asked, "sum(m)", end_ms)
        assert after.tiers == ("summary",) and engine.seen(kept, ends) > seen
        assert bits(after) == bits(cluster.core.instant("sum(m)", end_ms)) != bits(before)


def test_a_pane_that_one_shard_lacks_is_dirty_and_the_reason_names_the_shard(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=9)
    cluster.pass_time(MINUTE_MS)
    cluster.tick(but=[7])
    kept, end_ms = cluster.kept[0], cluster.clock.now_ms() - 2 * WIDTH_MS
    with cluster.follower(using) as follower:
        engine = follower.engine
        assert engine.dirty(kept, np.array([end_ms], np.int64)).all()
        assert engine.seen(kept, np.array([end_ms], np.int64)).tolist() == [-1]
        assert engine.why_dirty(kept, end_ms) == "not summarised yet: shard 7 is 60 s behind"
        assert instant(queries(follower), "sum(m)", end_ms).tiers == ("head",)


def test_a_second_query_engine_is_ready_once_it_has_read_what_there_is(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=10)
    made = cluster.made_follower(using)
    assert "the sample logs are being read: shard" in (made.why_not_ready() or "")
    with cluster.follower(using) as one, cluster.follower(using) as other:
        now_ms = cluster.clock.now_ms()
        for text in ASKED:
            assert bits(instant(queries(one), text, now_ms)) == bits(instant(queries(other), text, now_ms))
        assert one.why_not_ready() is None and one.why_unhealthy() is None


def test_without_a_head_tier_late_samples_are_heard_of_all_the_same(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=11)
    kept, ends = cluster.kept[0], np.array([cluster.start_ms + MINUTE_MS], np.int64)
    with cluster.follower(using, head_ms=0) as follower:
        assert (follower.head.samples(), follower.engine.dirty(kept, ends).any()) == (0, False)
        cluster.write([(series("m", g="a", i="later"), int(ends[0]) - 1000, 1e6)])
        cluster.caught_up(follower)
        assert follower.engine.dirty(kept, ends).all()


def test_after_a_crash_of_redis_it_goes_on(made_cluster: Callable[..., Cluster], using: str) -> None:
    with redis_server(appendfsync="always") as redis:
        cluster = made_cluster(redis.url)
        some_minutes(cluster, seed=12)
        with cluster.follower(using) as follower:
            redis.kill()
            poll_until(lambda: not any(copy.in_touch for copy in follower.copies), FOLLOW_S, "it is noticed")
            redis.start()
            scrape(cluster, np.random.default_rng(1))
            cluster.pass_time(2 * WIDTH_MS)
            cluster.tick()
            cluster.caught_up(follower)
            end_ms = cluster.clock.now_ms() - 2 * WIDTH_MS
            for text in ("sum(m)", "m"):
                assert bits(instant(queries(follower), text, end_ms)) == bits(cluster.core.instant(text, end_ms))


def test_a_log_that_lost_its_newest_entries_is_read_anew(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=13)
    t_ms, labels = cluster.clock.now_ms(), series("m", g="a", i="lost")
    shard = cluster.shards.all[int(cluster.table.shard_of(np.array([cluster.table.intern(labels)], np.int32))[0])]
    before = shard.state()
    with cluster.follower(using) as follower:
        cluster.write([(labels, t_ms, 1e9)])
        cluster.caught_up(follower)
        assert bits(instant(queries(follower), 'm{i="lost"}', t_ms))
        lost = shard.state()
        assert before is not None and lost is not None
        metadata = f"{{{shard.number}}}m"
        shard.server.ask("XDEL", shard.log_key, stream_id(lost.last))
        shard.server.ask("HSET", metadata, "last", stream_id(before.last))
        poll_until(lambda: not follower.copies[shard.number].position > before.last, FOLLOW_S, "it is noticed")
        cluster.caught_up(follower)
        asked = queries(follower)
        assert not bits(instant(asked, 'm{i="lost"}', t_ms))
        assert bits(instant(asked, "sum(m)", t_ms)) != bits(cluster.core.instant("sum(m)", t_ms))


def test_entries_that_were_lost_are_missed_though_others_came_after_them(
    made_cluster: Callable[..., Cluster], using: str
) -> None:
    with redis_server(appendfsync="always") as redis:
        cluster = made_cluster(redis.url)
        some_minutes(cluster, seed=20, minutes=1)
        t_ms, labels = cluster.clock.now_ms(), series("m", g="a", i="lost")
        cluster.write([(labels, t_ms, 1e9)])
        number = int(cluster.table.shard_of(np.array([cluster.table.intern(labels)], np.int32))[0])
        shard, follower = cluster.shards.all[number], cluster.made_follower(using)
        (contact,), copy = follower._contacts, follower.copies[number]
        while copy.state is None:
            contact.keep_up()
        redis.kill()
        redis.start()
        shard.server.ask("XDEL", shard.log_key, stream_id(copy.position))
        cluster.write([(labels, t_ms + 1, 1.0)])
        with pytest.raises(LogRewound):
            for _ in range(3):
                contact.keep_up()
        follower.shutdown()


def test_a_damaged_entry_is_a_hole(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=14)
    shard = cluster.shards.all[3]
    with cluster.follower(using) as follower:
        reply = shard.server.ask("XADD", shard.log_key, "*", "b", b"A\x01\x00 not what it says it is")
        poll_until(follower.damaged_records, FOLLOW_S, "it is noticed")
        ms = int(reply.split(b"-")[0])
        poll_until(lambda: follower.progress().holes, FOLLOW_S, "the hole is known")
        (hole,) = follower.progress().holes
        assert (hole.after_ms, hole.until_ms) == (ms - shard.limits.acceptance_ms, ms + shard.limits.future_ms)


def test_the_hole_of_a_damaged_entry_outlasts_it(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=19)
    shard, now_ms = cluster.shards.all[3], cluster.clock.now_ms()
    damaged = Samples("w", 1, now_ms // shard.limits.segment_ms, now_ms - 1, now_ms, b"no entry")
    entry = appended(shard.server.run(shard.append_call(damaged))).entry
    some_minutes(cluster, seed=20, minutes=1)
    shard.server.ask("XDEL", shard.log_key, stream_id(entry))
    hole = Hole(now_ms - shard.limits.acceptance_ms, now_ms + shard.limits.future_ms)
    with cluster.follower(using) as follower:
        assert follower.damaged_records() == 0
        assert follower.progress().holes == (hole,)
        assert "missing" in str(instant(queries(follower), "sum by (g) (m)", now_ms).warnings)


def test_a_full_head_reaches_less_far_back_and_says_so(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=15)
    few = cluster.core.head.table.size_bytes() + 12_000
    with cluster.follower(using, head_bytes=few) as follower:
        base_ms = follower.progress().base_ms
        assert base_ms > cluster.start_ms - MINUTE_MS and follower.head.samples() < cluster.core.head.samples()
        with pytest.raises(ExecutionError, match="are not held"):
            queries(follower).instant("m", cluster.start_ms + WIDTH_MS)


def test_how_far_behind_a_shard_is_does_not_depend_on_our_clock(cluster: Cluster) -> None:
    copy = ShardCopy(cluster.shards.all[7], WIDTH_MS, count())
    assert copy.behind_text(5.0) == "shard 7 has not been read yet"
    state = ShardState("", 0, "", 0, 0, 0, 100_000, 0, 0, 0, 0, 0, 0)
    copy.polled(state, (), 101_000, now_s=7.0)
    assert (copy.behind_ms(7.0), copy.behind_ms(46.0)) == (1000, 40_000)
    assert copy.behind_text(46.0) == "shard 7 is 40 s behind"


def test_notices_that_were_missed_are_made_good_by_reading_the_panes_again(
    cluster: Cluster, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_minutes(cluster, seed=16)
    kept, shard = cluster.kept[0], cluster.shards.all[4]
    with cluster.follower(using) as follower, monkeypatch.context() as deaf:
        deaf.setattr(ShardCopy, "hear", lambda self, told: None)
        cluster.pass_time(MINUTE_MS)
        cluster.tick()
        end = np.array([cluster.clock.now_ms() - 2 * WIDTH_MS], np.int64)
        for one in cluster.shards.all:
            shard.server.ask("XTRIM", one.told_key, "MAXLEN", 0)
            one.forget("another", "dropped", end)
        poll_until(lambda: not follower.engine.dirty(kept, end).any(), FOLLOW_S, "the panes are known")


def test_a_shard_that_nobody_listens_for_leaves_a_hole_until_it_is_heard_of(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=17)
    with cluster.follower(using) as follower:
        copy = follower.copies[7]
        assert not follower.progress().holes and copy.state is not None
        alive_ms = copy.state.alive_ms
        copy.state = replace(copy.state, alive_ms=alive_ms - 600_000)
        follower._assemble()
        (hole,) = follower.progress().holes
        assert hole.after_ms == alive_ms - 600_000 and hole.until_ms > cluster.clock.now_ms()
        assert follower.engine.sealed_ms() < alive_ms - 600_000
        cluster.pass_time(1000)
        cluster.caught_up(follower)
        assert not follower.progress().holes


def test_whatever_holds_up_those_who_keep_house_its_progress_is_not_old(
    cluster: Cluster, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_minutes(cluster, seed=20, minutes=1)
    held, may_go_on = set[str](), threading.Event()

    def hold_up(*_: object) -> None:
        held.add(threading.current_thread().name)
        may_go_on.wait(2 * FOLLOW_S)

    for where, name in ((HeadCopy, "trim"), (Packs, "refresh")):
        monkeypatch.setattr(where, name, hold_up)
    with cluster.follower(using) as follower:
        try:
            poll_until(lambda: len(held) == 2, FOLLOW_S, "both are held up")
            cluster.pass_time(1000)
            cluster.caught_up(follower)
        finally:
            may_go_on.set()


def test_a_head_that_let_go_of_series_reads_on_into_its_new_table(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=18)
    with cluster.follower(using) as follower:
        old = follower.head.table
        follower._head._let_go(cluster.clock.now_ms() - MINUTE_MS)
        compact(follower._head)
        assert follower.head.table is not old
        scrape(cluster, np.random.default_rng(2))
        now_ms = cluster.clock.now_ms()
        cluster.write([(series("m", g="a", i="late"), now_ms, 77.0), (series("m", g="a", i="new"), now_ms, 78.0)])
        cluster.caught_up(follower)
        for text in ("rate(c_total[30s])", 'sum_over_time(m{i=~"late|new"}[30s])'):
            answer = bits(instant(queries(follower), text, now_ms))
            assert answer == bits(cluster.core.instant(text, now_ms)) != {}


def test_its_metrics_are_those_of_a_node_and_how_far_behind_it_is(cluster: Cluster, using: str) -> None:
    some_minutes(cluster, seed=19, minutes=1)
    with cluster.follower(using) as follower:
        collected = [
            *Numbers[QueryNode](follower, QUERY_GAUGES).collect(),
            *Numbers(follower, FOLLOWER_GAUGES, FOLLOWER_COUNTERS).collect(),
        ]
        shown = {metric.name: metric.samples[0].value for metric in collected}
        assert shown["asap_head_samples"] == cluster.core.head.samples()
        assert shown["asap_newest_pane_seconds"] >= cluster.start_ms / 1000
        assert shown["asap_follower_behind_seconds"] < 60 and not shown["asap_follower_read_anew"]
