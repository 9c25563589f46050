"""Writes through the appender: what is acknowledged is in the logs, once, in the writers' order."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock, SystemClock
from precompute.cluster import server, table_use
from precompute.cluster.appender import Appender, AppenderLimits
from precompute.cluster.heartbeat import Heartbeat
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.server import Server, ServerDown
from precompute.cluster.shards import Shards
from precompute.cluster.shared import SharedNotes
from precompute.errors import Rejected, TableReplaced
from precompute.intake_port import Admission
from precompute.labels import SeriesTable
from precompute.log.base import Hole
from precompute.samples import Block
from tests.cluster.made_shards import LIMITS, NOW_MS, made_shards
from tests.running import poll_until
from tests.servers import RedisServer, redis_server

SHARDS = 4
QUICK = AppenderLimits(linger_ms=0, wait_replicas=0, has_upstream=False, table_max_bytes=1 << 30)

Sample = tuple[str, int, float]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def shards(redis: RedisServer, clock: ManualClock) -> Iterator[Shards]:
    made = made_shards(redis.url, clock, SHARDS)
    yield made
    made.close()


def opened(shards: Shards, clock: ManualClock, **limits: int) -> Appender:
    made = Appender(
        shards, SeriesTable(0, SHARDS), SharedNotes(shards.first, SystemClock()), clock, replace(QUICK, **limits)  # type: ignore[arg-type]
    )  # fmt: skip
    made.open()
    return made


def write(to: Appender, samples: list[Sample], metric: str = "m") -> Admission:
    """As an ingest process: series are looked up in the table of the moment."""
    while True:
        try:
            table = to.table
            with to.intern_lock:
                sids = [table.intern((("__name__", metric), ("i", i))) for i, _, _ in samples]
            t_ms, values = ([sample[k] for sample in samples] for k in (1, 2))
            return to.write(Block(np.array(sids, np.int32), np.array(t_ms), np.array(values, np.float64)), table)
        except TableReplaced:
            continue


def kept(shards: Shards) -> list[list[Sample]]:
    """Per shard every row of its log, in order, by who has never seen a series."""
    return [_rows(RedisSampleLog(shard, SeriesTable())) for shard in shards.all]


def _rows(log: RedisSampleLog) -> list[Sample]:
    table, rows = SeriesTable(), list[Sample]()
    for entry in log.read(0, table):
        if entry.block is not None:
            names = [dict(table.labels_of(sid))["i"] for sid in entry.block.sid.tolist()]
            rows += zip(names, entry.block.t_ms.tolist(), entry.block.value.tolist(), strict=True)
    assert not log.damaged_records
    return rows


def every(shards: Shards) -> list[Sample]:
    return sorted(row for rows in kept(shards) for row in rows)


def some(count: int, t_ms: int = NOW_MS) -> list[Sample]:
    return [(f"s{k}", t_ms, float(k)) for k in range(count)]


def test_it_works(shards: Shards, clock: ManualClock) -> None:
    assert write(opened(shards, clock), some(50)) == Admission(50, 0, 0, 0)
    assert every(shards) == sorted(some(50))
    table = SeriesTable(0, SHARDS)
    for number, rows in enumerate(kept(shards)):
        assert rows
        sids = np.array([table.intern((("__name__", "m"), ("i", i))) for i, _, _ in rows], np.int32)
        assert set(table.shard_of(sids).tolist()) == {number}


def test_a_known_series_is_defined_once_a_segment(shards: Shards, clock: ManualClock) -> None:
    to = opened(shards, clock)
    write(to, some(50))
    first = sum(state.bytes for state in shards.states() if state)
    write(to, some(50, NOW_MS + 1))
    second = sum(state.bytes for state in shards.states() if state) - first
    clock.advance(LIMITS.segment_ms)
    write(to, some(50, NOW_MS + 2))
    third = sum(state.bytes for state in shards.states() if state) - first - second
    assert second < 0.8 * first
    assert third > 1.2 * second
    assert len(every(shards)) == 150


def test_rows_out_of_time_are_dropped_and_counted_and_the_others_taken(shards: Shards, clock: ManualClock) -> None:
    floor_ms, last_ms = NOW_MS - LIMITS.acceptance_ms, NOW_MS + LIMITS.future_ms
    samples = some(10) + some(4, floor_ms) + some(3, last_ms + 1) + [("x", floor_ms + 1, 1.0), ("y", last_ms, 1.0)]
    assert write(opened(shards, clock), samples) == Admission(12, 4, 3, floor_ms)
    assert len(every(shards)) == 12
    assert [shard.holes() for shard in shards.all] == [()] * SHARDS


def test_with_an_upstream_dropped_rows_leave_holes_of_whole_minutes(shards: Shards, clock: ManualClock) -> None:
    to = opened(shards, clock, has_upstream=True)
    late_ms = (NOW_MS - LIMITS.acceptance_ms) // 60_000 * 60_000 - 60_000
    assert write(to, [("a", late_ms + 1, 1.0), ("a", late_ms + 5000, 1.0)]).too_old == 2
    write(to, [("a", late_ms + 7000, 1.0)])
    assert [hole for shard in shards.all for hole in shard.holes()] == [Hole(late_ms, late_ms + 60_000, "m")]
    assert sum(len(shard.read(0, 100)) for shard in shards.all) == 1


def test_the_first_sample_of_a_metric_is_noted_with_an_upstream(shards: Shards, clock: ManualClock) -> None:
    to, notes = opened(shards, clock, has_upstream=True), SharedNotes(shards.first, SystemClock())
    write(to, [*some(5), ("early", NOW_MS - 7, 1.0), ("dropped", 5, 1.0)])
    write(to, [("earlier", NOW_MS - 9, 1.0)])
    write(to, some(1), "n")
    assert notes.received_since() == {"m": NOW_MS - 7, "n": NOW_MS}


def test_a_full_shard_rejects_the_writes_with_rows_for_it(redis: RedisServer, clock: ManualClock) -> None:
    shards = made_shards(redis.url, clock, SHARDS, log_max_bytes=600)
    to = opened(shards, clock)
    with pytest.raises(Rejected, match=r"log\.max_bytes"):
        for at in range(100):
            write(to, some(20, NOW_MS + at))
    shards.close()


def test_a_shard_that_lost_its_metadata_begins_anew(shards: Shards, clock: ManualClock, redis: RedisServer) -> None:
    to = opened(shards, clock)
    write(to, some(20))
    redis.cli("flushall")
    assert write(to, some(20, NOW_MS + 1)).accepted == 20
    state = shards.all[0].state()
    assert state is not None
    assert state.base_ms == NOW_MS


def test_a_server_that_is_down_rejects_and_takes_the_same_write_later(clock: ManualClock) -> None:
    with redis_server("always") as redis:
        shards = made_shards(redis.url, clock, SHARDS)
        to = opened(shards, clock)
        write(to, some(20))
        redis.kill()
        with pytest.raises(Rejected, match="cannot be asked"):
            write(to, some(20, NOW_MS + 1))
        to.beats.beat()
        redis.start()
        assert write(to, some(20, NOW_MS + 1)).accepted == 20
        assert every(shards) == sorted(some(20) + some(20, NOW_MS + 1))
        shards.close()


def test_a_server_without_memory_rejects(redis: RedisServer, shards: Shards, clock: ManualClock) -> None:
    to = opened(shards, clock)
    redis.cli("config", "set", "maxmemory", "1")
    try:
        with pytest.raises(Rejected, match="maxmemory"):
            write(to, some(5))
    finally:
        redis.cli("config", "set", "maxmemory", "0")
    assert write(to, some(5)).accepted == 5


def test_too_few_replicas_reject(shards: Shards, clock: ManualClock) -> None:
    to = opened(shards, clock, wait_replicas=1)
    with pytest.raises(Rejected, match="0 of 1 replicas"):
        write(to, some(5))
    assert to.traffic.outcomes["unsafe"] > 0 == to.traffic.outcomes["ok"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas, and answers, are waited for for as long as a busy machine needs."""
    monkeypatch.setattr(server, "_REPLICAS_MS", 30_000)
    monkeypatch.setattr(server, "_ANSWER_S", 60.0)


@pytest.mark.usefixtures("patient")
def test_a_replica_that_has_the_samples_is_enough(redis: RedisServer, clock: ManualClock) -> None:
    shards = made_shards(redis.url, clock, SHARDS)
    to = opened(shards, clock, wait_replicas=1)
    with redis_server("everysec", "--replicaof", "127.0.0.1", str(redis.port)) as replica:
        poll_until(lambda: "master_link_status:up" in replica.cli("info", "replication"), 30, "the replica follows")
        assert write(to, some(20)).accepted == 20
        assert int(replica.cli("dbsize")) == int(redis.cli("dbsize"))
    shards.close()


def test_nothing_is_taken_before_open_and_after_stop(shards: Shards, clock: ManualClock) -> None:
    to = Appender(shards, SeriesTable(0, SHARDS), SharedNotes(shards.first, SystemClock()), clock, QUICK)
    with pytest.raises(Rejected, match="starting"):
        write(to, some(1))
    to.open()
    to.stop()
    to.open()
    with pytest.raises(Rejected, match="shutting down"):
        write(to, some(1))


def test_a_heartbeat_moves_every_shard_that_has_room(shards: Shards, clock: ManualClock) -> None:
    to = opened(shards, clock)
    clock.advance(1000)
    to.beats.beat()
    assert {state.alive_ms for state in shards.states() if state} == {NOW_MS + 1000}


def test_a_table_of_series_that_are_not_sent_any_more_is_replaced(
    shards: Shards, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_use, "_FEWEST_UNUSED", 100)
    to = opened(shards, clock)
    first = to.table
    write(to, some(200))
    for _ in range(2):
        clock.advance(LIMITS.segment_ms)
        write(to, some(20, clock.now_ms()))
    assert to.table is not first
    write(to, some(20, clock.now_ms() + 1))
    assert len(to.table) == 20
    assert len(every(shards)) == 260


class Faulty:
    """Between appenders and Redis: calls get lost before or after they are carried out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, random: Random) -> None:
        self.random, self.lock, self.rate = random, threading.Lock(), 0.1
        run_all = Server.run_all

        def faulty(server: Server, calls: list[object]) -> list[object]:
            with self.lock:
                x = random.random()
            if x < self.rate / 2:
                raise ServerDown("lost on the way there")
            replies = run_all(server, calls)  # type: ignore[arg-type]
            if x < self.rate:
                raise ServerDown("lost on the way back")
            return replies

        monkeypatch.setattr(Server, "run_all", faulty)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_fails_what_is_acknowledged_is_in_the_log_once(
    redis: RedisServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    shards = made_shards(redis.url, clock, SHARDS)
    faults = Faulty(monkeypatch, Random(seed))
    appenders = [opened(shards, clock, linger_ms=2) for _ in range(2)]
    acknowledged, offered = list[Sample](), list[Sample]()

    def send(number: int, first: int) -> None:
        random = Random(f"{seed} {number} {first}")
        for at in range(first, first + 10):
            samples = [(f"s{random.randrange(60)}", NOW_MS - at, number * 1e6 + at + k / 64) for k in range(30)]
            late = [("late", NOW_MS - LIMITS.acceptance_ms - k, 0.0) for k in range(random.randrange(3))]
            offered.extend(samples)
            try:
                admission = write(appenders[number % 2], samples + late)
            except Rejected:
                continue
            assert (admission.accepted, admission.too_old) == (30, len(late))
            acknowledged.extend(samples)

    for first in range(0, 40, 10):
        threads = [threading.Thread(target=send, args=(number, first)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.advance(LIMITS.segment_ms // 2)  # while none is on its way: a server's clock never goes back for an entry
    faults.rate = 0
    rows = every(shards)
    assert len(acknowledged) > 1000
    assert set(acknowledged) <= set(rows) <= set(offered)
    assert len(rows) == len(set(rows))
    shards.close()


def test_what_became_of_every_entry_is_counted(clock: ManualClock) -> None:
    with redis_server("always") as redis:
        shards = made_shards(redis.url, clock, SHARDS)
        to = opened(shards, clock)
        write(to, [*some(50), ("late", NOW_MS - LIMITS.acceptance_ms, 1.0)])
        counts = to.traffic.outcomes
        assert (counts["restart"], counts["ok"], counts["old"]) == (SHARDS, SHARDS, 1)
        redis.cli("config", "set", "maxmemory", "1")
        with pytest.raises(Rejected, match="maxmemory"):
            write(to, some(50))
        assert counts["no_memory"] == SHARDS
        redis.kill()
        with pytest.raises(Rejected, match="cannot be asked"):
            write(to, some(50))
        assert counts["unanswered"] == 2 * SHARDS, "it was tried twice"
        assert (to.traffic.writes, to.traffic.rounds) == (3, 6)
        shards.close()


def test_the_time_that_writes_wait_is_counted(shards: Shards) -> None:
    limits = replace(QUICK, linger_ms=20)
    to = Appender(shards, SeriesTable(0, SHARDS), SharedNotes(shards.first, SystemClock()), SystemClock(), limits)
    to.open()
    write(to, some(1))
    assert to.traffic.waiting_s >= 0.02
    assert to.traffic.sending_s > 0


def test_it_is_ready_while_writes_are_taken(shards: Shards, clock: ManualClock) -> None:
    to = Appender(shards, SeriesTable(0, SHARDS), SharedNotes(shards.first, SystemClock()), clock, QUICK)
    assert to.why_not_ready() == "starting"
    to.open()
    assert to.why_not_ready() is None
    to.stop()
    assert to.why_not_ready() == "shutting down"


def test_it_is_unhealthy_while_a_server_has_long_taken_no_heartbeat(redis: RedisServer, clock: ManualClock) -> None:
    with redis_server() as other:
        shards = Shards([redis.url, other.url], SHARDS, LIMITS, clock.now_ms)
        shards.create(True)
        beats = Heartbeat(shards, clock)
        clock.advance(31_000)
        assert "none is sent any more" in (beats.why_unhealthy() or "")
        beats.beat()
        assert (beats.why_unhealthy(), beats.silent_servers()) == (None, 0)
        other.kill()
        clock.advance(31_000)
        beats.beat()
        assert f"Redis at {other.url} has taken no heartbeat for 31 s: " in (beats.why_unhealthy() or "")
        assert beats.silent_servers() == 1
        other.start()
        beats.beat()
        assert (beats.why_unhealthy(), beats.silent_servers()) == (None, 0)
        shards.close()
