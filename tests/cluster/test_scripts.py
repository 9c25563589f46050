"""The steps of one shard, each with its refusals, by a clock that the test moves."""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.replies import PaneBlob, Samples, appended, stream_id
from precompute.cluster.server import ServerFull
from precompute.cluster.shard import Shard
from precompute.errors import LogDamaged
from precompute.labels import SeriesTable
from precompute.log.base import Hole
from precompute.progress import MAX_HOLES, Progress, add_hole
from precompute.samples import Block
from tests.cluster.made_shards import LIMITS, NOW_MS, Sender, made_shards
from tests.servers import RedisServer, without_memory

FLOOR_MS = NOW_MS - LIMITS.acceptance_ms


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def shard(redis: RedisServer, clock: ManualClock) -> Iterator[Shard]:
    shards = made_shards(redis.url, clock)
    yield shards.all[0]
    shards.close()


@pytest.fixture
def sender(shard: Shard) -> Sender:
    return Sender(shard, SeriesTable())


def block(sender: Sender, *t_ms: int, series: str = "a") -> Block:
    sid = sender.table.intern((("__name__", "m"), ("i", series)))
    return Block(np.full(len(t_ms), sid, np.int32), np.array(t_ms, np.int64), np.ones(len(t_ms)))


def begun(shard: Shard, clock: ManualClock, holder: str = "w", rev: str = "", new_rev: str = "r1") -> str | None:
    return shard.begin(holder, rev, new_rev, clock.now_ms())[0]


def ended(shard: Shard, rev: str, clean_to_ms: int | None) -> tuple[int, int] | None:
    state = shard.state()
    assert state is not None
    return shard.end("w", rev, clean_to_ms, state.bytes, release=False, holes_before_ms=None)


def floor_ms(shard: Shard) -> int:
    state = shard.state()
    assert state is not None
    return state.floor_ms


def alive_ms(shard: Shard) -> int:
    state = shard.state()
    assert state is not None
    return state.alive_ms


PANE = PaneBlob(NOW_MS, 0, b"x")


# -- append


def test_an_append_that_is_repeated_counts_once(shard: Shard, sender: Sender) -> None:
    sender.writer.begin(NOW_MS // LIMITS.segment_ms)
    prepared = sender.writer.prepare(block(sender, NOW_MS))
    assert [sender.repeat(prepared).outcome for _ in range(3)] == ["ok", "dup", "dup"]
    assert len(shard.read(0, 10)) == 1


def test_an_entry_out_of_order_and_one_of_another_segment_begin_anew(sender: Sender, clock: ManualClock) -> None:
    segment = NOW_MS // LIMITS.segment_ms
    sender.writer.begin(segment)
    sender.writer.wrote(sender.writer.prepare(block(sender, NOW_MS)))
    reply = sender.repeat(sender.writer.prepare(block(sender, NOW_MS)))
    assert (reply.outcome, reply.number) == ("restart", segment)
    sender.writer.begin(segment - 1)
    assert sender.repeat(sender.writer.prepare(block(sender, NOW_MS))).number == segment
    clock.advance(LIMITS.segment_ms)
    assert sender.send(block(sender, NOW_MS)).outcome == "ok"


def test_a_segment_does_not_go_back_with_the_clock(shard: Shard, sender: Sender, clock: ManualClock) -> None:
    clock.advance(LIMITS.segment_ms)
    sender.send(block(sender, clock.now_ms()))
    clock.advance(-LIMITS.segment_ms)
    other = Sender(shard, SeriesTable())
    reply = other.repeat(other.writer.prepare(block(other, NOW_MS)))
    assert (reply.outcome, reply.number) == ("restart", NOW_MS // LIMITS.segment_ms + 1)


def test_a_sample_at_the_floor_is_too_old_and_one_after_it_is_not(sender: Sender) -> None:
    reply = sender.send(block(sender, NOW_MS, FLOOR_MS))
    assert (reply.outcome, reply.number) == ("old", FLOOR_MS)
    assert sender.send(block(sender, FLOOR_MS + 1)).outcome == "ok"


def test_a_sample_may_be_as_far_ahead_as_allowed(sender: Sender) -> None:
    last_ms = NOW_MS + LIMITS.future_ms
    reply = sender.send(block(sender, NOW_MS, last_ms + 1))
    assert (reply.outcome, reply.number) == ("future", last_ms)
    assert sender.send(block(sender, last_ms)).outcome == "ok"


def test_a_shard_without_metadata_takes_nothing(shard: Shard, sender: Sender, redis: RedisServer) -> None:
    redis.cli("flushall")
    assert sender.send(block(sender, NOW_MS)).outcome == "missing"
    assert sender.beat().outcome == "missing"
    with pytest.raises(LogDamaged):
        shard.begin("w", "", "r", NOW_MS)


def test_a_new_shard_claims_nothing_of_the_past_unless_it_is_a_first_install(redis: RedisServer) -> None:
    shards = made_shards(redis.url, ManualClock(NOW_MS), complete=False)
    state = shards.all[0].state()
    assert state is not None
    assert (state.base_ms, state.floor_ms, state.final_ms) == (NOW_MS, FLOOR_MS, FLOOR_MS)
    assert not shards.all[0].create(complete=True)
    shards.close()


@pytest.mark.parametrize("option", ["log.max_bytes", "log.max_backlog"])
def test_a_full_shard_refuses_samples_and_is_not_alive(redis: RedisServer, option: str) -> None:
    limit = {"log.max_bytes": "log_max_bytes", "log.max_backlog": "max_backlog_bytes"}[option]
    clock = ManualClock(NOW_MS)
    shards = made_shards(redis.url, clock, **{limit: 500})
    shard, sender = shards.all[0], Sender(shards.all[0], SeriesTable())
    replies = [sender.send(block(sender, *range(NOW_MS, NOW_MS + 20))) for _ in range(9)]
    assert (replies[0].outcome, replies[-1].outcome, replies[-1].why) == ("ok", "full", option)
    clock.advance(1000)
    assert sender.beat().outcome == "full"
    assert alive_ms(shard) == NOW_MS
    shards.close()


def test_a_full_shard_is_alive_again_when_it_has_room_for_what_it_refused(redis: RedisServer) -> None:
    clock = ManualClock(NOW_MS)
    shards = made_shards(redis.url, clock, max_backlog_bytes=500)
    shard, sender = shards.all[0], Sender(shards.all[0], SeriesTable())
    while sender.send(block(sender, *range(NOW_MS, NOW_MS + 20))).outcome == "ok":
        pass
    clock.advance(5000)
    rev = begun(shard, clock)
    assert rev is not None
    ended(shard, rev, None)
    assert sender.beat().outcome == "ok"
    assert alive_ms(shard) == NOW_MS + 5000
    assert shard.holes() == (Hole(NOW_MS, NOW_MS + 5000),)
    shards.close()


def test_a_silence_longer_than_the_lateness_leaves_one_hole(shard: Shard, sender: Sender, clock: ManualClock) -> None:
    clock.advance(LIMITS.lateness_ms)
    sender.beat()
    assert shard.holes() == ()
    clock.advance(LIMITS.lateness_ms + 1)
    sender.send(block(sender, NOW_MS))
    sender.beat()
    hole = Hole(NOW_MS + LIMITS.lateness_ms, NOW_MS + 2 * LIMITS.lateness_ms + 1)
    assert shard.holes() == (hole,)
    assert [entry.hole for entry in RedisSampleLog(shard, SeriesTable()).read(0, SeriesTable())] == [hole, None]


def test_holes_that_meet_are_one_and_too_many_are_made_fewer_as_in_one_process(shard: Shard) -> None:
    random, progress = Random(5), Progress(0, 0, 0, 0)
    for count in (400, 2000):
        times = [(random.randrange(-50, 9000) * 1000, random.choice((1, 1000, 7000))) for _ in range(count)]
        some = [Hole(after_ms, after_ms + width_ms, random.choice("abc")) for after_ms, width_ms in times]
        for hole in some:
            progress = add_hole(progress, hole)
        shard.server.run_all([shard.hole_call(hole) for hole in some])
        assert set(shard.holes()) == set(progress.holes)
    assert {hole.metric for hole in shard.holes()} >= {""} and len(shard.holes()) <= MAX_HOLES


def test_a_hole_without_beginning_joins_and_keeps_its_bounds(shard: Shard) -> None:
    first, last = -(1 << 63), (1 << 63) - 1
    for hole in (Hole(5, last, "m"), Hole(first, 5, "m"), Hole(first, 7, "n")):
        shard.server.run(shard.hole_call(hole))
    assert set(shard.holes()) == {Hole(first, last, "m"), Hole(first, 7, "n")}


def test_a_hole_is_noted_whatever_the_floor(shard: Shard) -> None:
    hole = Hole(-(1 << 63), 7, "a metric")
    assert appended(shard.server.run(shard.hole_call(hole))).outcome == "ok"
    assert shard.holes() == (hole,)


# -- lease and rev


def test_a_lease_is_taken_once_renewed_by_its_holder_and_free_when_it_ends(shard: Shard, clock: ManualClock) -> None:
    assert begun(shard, clock) == "r1"
    assert shard.begin("other", "", "r2", clock.now_ms()) == (None, "w")
    assert begun(shard, clock, rev="r1", new_rev="r3") == "r1"
    clock.advance(LIMITS.lease_ms + 1)
    assert begun(shard, clock, holder="other", new_rev="r4") == "r4"


def test_a_holder_whose_lease_ended_goes_on_if_nobody_came(shard: Shard, clock: ManualClock) -> None:
    begun(shard, clock)
    clock.advance(LIMITS.lease_ms + 1)
    assert not shard.commit("w", "r1", "r2", "a", 0, [PANE])
    assert begun(shard, clock, rev="r1", new_rev="r5") == "r1"
    assert shard.commit("w", "r1", "r2", "a", 0, [PANE])


def test_a_commit_may_be_repeated_and_needs_the_rev_before_it(shard: Shard, clock: ManualClock) -> None:
    begun(shard, clock)
    assert [shard.commit("w", "r1", "r2", "a", 0, [PANE]) for _ in range(2)] == [True, True]
    assert not shard.commit("w", "r1", "r3", "a", 0, [PANE])
    ends, seen, flags = shard.index(["a"])[0]
    assert (ends.tolist(), seen.tolist(), flags.tolist()) == ([NOW_MS], [0], [0])
    assert shard.blobs("a", ends) == [b"x"]


def test_the_bytes_of_summaries_are_those_that_are_kept(shard: Shard, clock: ManualClock) -> None:
    begun(shard, clock)
    shard.commit("w", "r1", "r2", "a", 0, [PaneBlob(1, 0, b"xxx"), PaneBlob(2, 0, b"yy")])
    shard.commit("w", "r2", "r3", "a", 0, [PaneBlob(2, 0, b"zzzz")])
    state = shard.state()
    assert state is not None
    assert state.summary_bytes == 7
    shard.forget("a", "stored", np.array([1, 2]))
    state = shard.state()
    assert state is not None
    assert (state.summary_bytes, shard.aggregations()) == (0, ())


def test_what_has_seen_an_entry_that_is_lost_is_not_committed(
    shard: Shard, sender: Sender, clock: ManualClock
) -> None:
    entry = sender.send(block(sender, NOW_MS)).entry
    begun(shard, clock)
    assert shard.begin("w", "r1", "r2", NOW_MS, entry)[0] == "r1"
    assert shard.commit("w", "r1", "r2", "a", entry, [PANE])
    shard.server.ask("XDEL", shard.log_key, stream_id(entry))
    assert not shard.commit("w", "r2", "r3", "a", entry, [PANE])
    assert shard.begin("w", "r2", "r3", NOW_MS, entry)[0] == "r3"


def test_one_who_was_overtaken_can_neither_commit_nor_end(shard: Shard, clock: ManualClock) -> None:
    begun(shard, clock)
    clock.advance(LIMITS.lease_ms + 1)
    begun(shard, clock, holder="other", new_rev="r2")
    assert not shard.commit("w", "r1", "r3", "a", 0, [PANE])
    assert ended(shard, "r1", None) is None


def test_a_lease_given_back_is_free_and_its_holder_is_not_warm(shard: Shard, clock: ManualClock) -> None:
    begun(shard, clock)
    assert shard.end("w", "r1", None, 0, release=True, holes_before_ms=None) is not None
    assert begun(shard, clock, rev="r1", new_rev="r2") == "r2"


# -- floor and final


def test_the_floor_follows_the_clock_that_is_behind_and_never_falls(shard: Shard, clock: ManualClock) -> None:
    clock.advance(10_000)
    shard.begin("w", "", "r", clock.now_ms() - 3000)
    assert floor_ms(shard) == FLOOR_MS + 7000
    shard.begin("w", "r", "r", clock.now_ms() - 5000)
    assert floor_ms(shard) == FLOOR_MS + 7000


@pytest.mark.parametrize("behind_ms", [5001, -5001])
def test_the_floor_stays_while_clocks_differ(shard: Shard, clock: ManualClock, behind_ms: int) -> None:
    clock.advance(20_000)
    shard.begin("w", "", "r", clock.now_ms() - behind_ms)
    assert floor_ms(shard) == FLOOR_MS


def test_final_follows_what_was_clean_and_never_passes_the_floor(shard: Shard, clock: ManualClock) -> None:
    clock.advance(10_000)
    begun(shard, clock)
    assert ended(shard, "r1", FLOOR_MS + 10_001) is None
    assert ended(shard, "r1", FLOOR_MS + 10_000) == (FLOOR_MS + 10_000, 0)
    assert ended(shard, "r1", FLOOR_MS + 4000) == (FLOOR_MS + 10_000, 0)
    assert ended(shard, "r1", None) == (FLOOR_MS + 10_000, 0)


# -- trim


def test_whole_segments_leave_when_nothing_in_them_can_be_needed(
    shard: Shard, sender: Sender, clock: ManualClock
) -> None:
    for _ in range(12):
        clock.advance(LIMITS.segment_ms)
        sender.send(block(sender, clock.now_ms()))
    rev = begun(shard, clock)
    assert rev is not None
    ended_at = ended(shard, rev, floor_ms(shard))
    assert ended_at is not None
    final_ms, base_ms = ended_at
    numbers = [number for number, fields in shard.read(0, 100) if b"b" in fields]
    oldest_ms = shard.oldest_ms()
    assert oldest_ms is not None
    assert base_ms == oldest_ms + LIMITS.future_ms
    assert base_ms <= final_ms - LIMITS.kept_ms < base_ms + LIMITS.segment_ms
    assert len(numbers) == 12 - (oldest_ms - NOW_MS) // LIMITS.segment_ms + 1
    assert len(list(RedisSampleLog(shard, SeriesTable()).read(0, SeriesTable()))) >= len(numbers)


def test_a_writer_that_is_forgotten_begins_anew(shard: Shard, sender: Sender, clock: ManualClock) -> None:
    other = Sender(shard, SeriesTable())
    other.send(block(other, NOW_MS))
    for _ in range(12):
        clock.advance(LIMITS.segment_ms)
        sender.send(block(sender, clock.now_ms()))
    shard.trim(clock.now_ms())
    assert other.repeat(other.writer.prepare(block(other, clock.now_ms()))).outcome == "restart"
    assert other.send(block(other, clock.now_ms())).outcome == "ok"


# -- a server without memory


def test_without_memory_samples_are_refused_and_workers_go_on(
    redis: RedisServer, shard: Shard, sender: Sender, clock: ManualClock
) -> None:
    for _ in range(12):
        clock.advance(LIMITS.segment_ms)
        sender.send(block(sender, clock.now_ms()))
    before = len(shard.read(0, 100))
    with without_memory(redis):
        with pytest.raises(ServerFull, match="maxmemory"):
            sender.send(block(sender, clock.now_ms()))
        assert begun(shard, clock) == "r1"
        assert shard.commit("w", "r1", "r2", "a", 0, [PANE])
        assert ended(shard, "r2", floor_ms(shard)) is not None
        shard.forget("a", "stored", np.array([NOW_MS]))
        assert len(shard.read(0, 100)) < before


# -- damage


def test_a_damaged_entry_is_kept_aside_once_and_read_as_a_hole(
    redis: RedisServer, shard: Shard, sender: Sender
) -> None:
    sender.send(block(sender, NOW_MS))
    damaged = Samples("w", 1, NOW_MS // LIMITS.segment_ms, NOW_MS - 1, NOW_MS, b"no entry")
    assert appended(shard.server.run(shard.append_call(damaged))).outcome == "ok"
    log, holes = RedisSampleLog(shard, SeriesTable()), list[Hole | None]()
    for _ in range(2):
        holes += [entry.hole for entry in log.read(0, SeriesTable())]
    assert holes[0] is None
    assert holes[1] is not None
    assert holes[1].until_ms - holes[1].after_ms == LIMITS.acceptance_ms + LIMITS.future_ms
    assert (log.damaged_records, redis.cli("llen", shard.bad_key)) == (2, "1")


def test_where_damaged_entries_may_have_had_samples_is_a_hole_of_the_shard(
    redis: RedisServer, shard: Shard, sender: Sender, clock: ManualClock
) -> None:
    sender.send(block(sender, NOW_MS))
    for seq in (1, 2):
        damaged = Samples("w", seq, NOW_MS // LIMITS.segment_ms, NOW_MS - 1, NOW_MS, b"no entry")
        assert appended(shard.server.run(shard.append_call(damaged))).outcome == "ok"
        clock.advance(1000)
    before = shard.state()
    with without_memory(redis):
        for _ in range(2):
            list(RedisSampleLog(shard, SeriesTable()).read(0, SeriesTable()))
    assert shard.holes() == (Hole(FLOOR_MS, NOW_MS + 1000 + LIMITS.future_ms),)
    assert shard.state() == before, "that somebody has read it does not mean that somebody listened"
