"""Final panes leave Redis for the database: late enough, once, and whoever does it the same."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from precompute.aggregations import Aggregation
from precompute.clock import ManualClock
from precompute.cluster.crew import Crew
from precompute.cluster.kicks import Kicks
from precompute.cluster.storing import PANES, Storing
from precompute.models import SummaryPack
from precompute.samples import I64
from precompute.stores.base import StoreError
from precompute.stores.database import DatabaseStore
from precompute.summaries import Summary, select
from tests.cluster.test_worker import KEPT, World
from tests.cluster.test_worker import world as world
from tests.precompute.made_node import HOUR_MS, WIDTH_MS, StoppedClock, aggregation
from tests.precompute.made_summaries import same
from tests.servers import RedisServer, without_memory

PACK_MS = PANES * WIDTH_MS


@pytest.fixture
def long_term(using: str) -> DatabaseStore:
    SummaryPack.objects.using(using).all().delete()
    return DatabaseStore(using)


def storing(world: World, long_term: Any, max_bytes: int = 1 << 26) -> Storing:
    return Storing(world.shards, long_term, max_bytes, WIDTH_MS, world.clock)


def with_final_panes(world: World, kept: Sequence[Aggregation] = KEPT) -> None:
    """Two packs of panes have become final, all at once, and a minute has passed."""
    world.pass_time(-world.clock.now_ms() % PACK_MS)
    for _ in range(2 * PANES):
        world.scrape()
        world.pass_time(WIDTH_MS)
    world.pass_time(HOUR_MS + WIDTH_MS)
    world.worker("a", kept).tick(0)


def a_minute_later(world: World) -> None:
    for name in "ab":
        world.pass_time(60_000)
        world.worker(name).tick(0)


def packs(long_term: DatabaseStore, kept: Aggregation = KEPT[0]) -> Summary:
    return long_term.get(kept.id, 0, 1 << 62)


def test_panes_are_stored_once_they_have_been_final_for_a_minute(world: World, long_term: DatabaseStore) -> None:
    with_final_panes(world)
    before = world.partials(KEPT[0])
    store = storing(world, long_term)
    store.run(KEPT)
    assert not packs(long_term).panes, "a server that loses its last second would take samples for them again"
    a_minute_later(world)
    store.run(KEPT)
    stored = packs(long_term)
    assert stored.panes >= 2 * PANES
    state = world.shard.state()
    assert state is not None and stored.ends_ms[-1] <= state.lasting_ms < state.final_ms
    assert not np.isin(stored.ends_ms, world.partials(KEPT[0]).ends_ms).any()
    assert same(stored, _of(before, stored))


def test_a_worker_that_is_stopped_while_it_merges_a_pack_makes_it_all_the_same(
    world: World, long_term: DatabaseStore
) -> None:
    join = aggregation("x + on (job, pod) x", ("job",), accumulators=("sum",))
    with_final_panes(world, [join])
    for _ in range(2):
        world.pass_time(60_000)
        world.worker("a", [join]).tick(0)
    stopped = StoppedClock(world.clock.now_ms())
    store = Storing(world.shards, long_term, 1 << 26, WIDTH_MS, stopped)
    for made in range(1, 7):  # of the hour before there were samples too; each run is out of time after one
        store.run([join])
        assert store.counts.packs == made
    stored = packs(long_term, join)
    assert stopped.stopped_s and stored.rows
    assert not stored.flags.any()


def _of(summary: Summary, other: Summary) -> Summary:
    """The panes of the one that the other has too."""
    return select(summary, np.flatnonzero(np.isin(summary.ends_ms, other.ends_ms)))


class Away(DatabaseStore):
    """A database that cannot be asked."""

    asked = 0

    def seen(self, aggregation_id: str, after_ms: int, until_ms: int) -> tuple[I64, I64, I64]:
        self.asked += 1
        raise StoreError("away")


def test_panes_that_are_made_again_while_the_database_is_away_change_no_row(
    world: World, long_term: DatabaseStore, using: str
) -> None:
    with_final_panes(world)
    a_minute_later(world)
    store = storing(world, long_term)
    store.run(KEPT)
    rows, stored = _rows(using), packs(long_term)
    world.pass_time(60_000)
    world.worker("c", stored=Away(using)).tick(0)
    again = _of(world.partials(KEPT[0]), stored)
    assert again.panes and same(_unnumbered(again), _unnumbered(_of(stored, again)))
    store.run(KEPT)
    assert _rows(using) == rows
    assert not _of(world.partials(KEPT[0]), stored).panes


def test_a_worker_that_begins_asks_a_database_that_is_away_once(world: World, using: str) -> None:
    away = Away(using)
    assert len(KEPT) > 1 and world.worker("c", stored=away).tick(0) == "done"
    assert away.asked == 1


def test_a_worker_that_begins_makes_nothing_again_that_is_stored(world: World, long_term: DatabaseStore) -> None:
    with_final_panes(world)
    a_minute_later(world)
    storing(world, long_term).run(KEPT)
    world.pass_time(60_000)
    world.worker("c", stored=long_term).tick(0)
    assert not _of(world.partials(KEPT[0]), packs(long_term)).panes


def test_one_whose_clock_is_ahead_forgets_nothing_that_is_to_be_kept(world: World, long_term: DatabaseStore) -> None:
    with_final_panes(world)
    a_minute_later(world)
    storing(world, long_term).run(KEPT)
    stored, partials = packs(long_term), world.partials(KEPT[0])
    ahead = World(world.shards, ManualClock(world.clock.now_ms() + 400 * 24 * HOUR_MS), world.log, world.table)
    storing(ahead, long_term).run(KEPT)
    storing(ahead, long_term).run(())
    assert same(packs(long_term), stored)
    world.pass_time(60_000)
    assert ahead.worker("c", stored=long_term).tick(0) == "done"
    assert same(_of(world.partials(KEPT[0]), partials), partials)


class Slow(DatabaseStore):
    """Each pack takes all the time that a run of storing has."""

    def __init__(self, using: str, clock: ManualClock) -> None:
        super().__init__(using)
        self.clock, self.inserted = clock, list[str]()

    def insert(self, aggregation_id: str, pack: Summary) -> None:
        super().insert(aggregation_id, pack)
        self.inserted.append(aggregation_id)
        self.clock.advance(WIDTH_MS)


def test_storing_ends_in_time_and_goes_on_with_the_next_aggregation(world: World, using: str) -> None:
    SummaryPack.objects.using(using).all().delete()
    with_final_panes(world)
    a_minute_later(world)
    slow, first, other = Slow(using, world.clock), KEPT[0].id, KEPT[1].id
    store = storing(world, slow)
    for runs in range(1, 5):
        store.run(KEPT)
        assert store.counts.packs == runs
    assert slow.inserted == [first, other, first, other]


def test_nothing_is_dropped_while_storing_makes_room_or_goes_on(world: World, using: str) -> None:
    SummaryPack.objects.using(using).all().delete()
    with_final_panes(world)
    a_minute_later(world)
    store, stored = storing(world, Slow(using, world.clock), max_bytes=1), -1
    while store.counts.packs > stored:
        assert not store.counts.dropped
        stored = store.counts.packs
        store.run(KEPT)
    state = world.shard.state()
    assert state is not None and stored >= 4
    assert store.counts.dropped, "once nothing is left that can be stored"
    assert world.partials(KEPT[0]).ends_ms[0] > state.final_ms


def test_room_is_judged_by_what_is_left_after_storing(world: World, long_term: DatabaseStore) -> None:
    with_final_panes(world)
    a_minute_later(world)
    state = world.shard.state()
    assert state is not None
    store = storing(world, long_term, max_bytes=state.summary_bytes - 1)
    store.run(KEPT)
    assert store.counts.packs and not store.counts.dropped


def test_packs_of_what_was_found_wrong_go_at_once_and_do_not_come_back(world: World, long_term: DatabaseStore) -> None:
    with_final_panes(world)
    a_minute_later(world)
    store = storing(world, long_term)
    store.run(KEPT)
    assert packs(long_term).panes and packs(long_term, KEPT[1]).panes
    store.run(KEPT[1:], wrong=[KEPT[0].id])
    store.run(KEPT)
    assert not packs(long_term).panes and packs(long_term, KEPT[1]).panes


def test_without_memory_in_redis_workers_are_placed_and_store(
    world: World, long_term: DatabaseStore, redis: RedisServer
) -> None:
    with_final_panes(world)
    a_minute_later(world)
    world.pass_time(60_000)
    workers = world.worker("c", storing=storing(world, long_term))
    crew = Crew(world.shards.first, world.clock.now_ms)
    kicks = Kicks(workers, world.shards, crew, WIDTH_MS, world.clock)
    with without_memory(redis):
        kicks.beat()
        placed, made_ms = kicks.place()
        assert [(kick.shard, kick.worker) for kick in placed] == [(0, "c")]
        assert kicks.tick(0, made_ms, False) == "done"
        kicks.store()
    assert packs(long_term).panes >= 2 * PANES
    assert not _of(world.partials(KEPT[0]), packs(long_term)).panes


def _rows(using: str) -> list[int]:
    return list(SummaryPack.objects.using(using).order_by("pk").values_list("pk", flat=True))


def _unnumbered(summary: Summary) -> Summary:
    return replace(summary, seen=np.zeros(summary.panes, np.int64))
