"""Leases of a worker: kept while it works, lost where it stands still, given back where it has no room or ends."""

import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.cluster import worker as module
from precompute.cluster.crew import Crew
from precompute.cluster.kicks import Kicks
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.replies import ShardLimits
from precompute.cluster.shards import Shards
from precompute.cluster.worker import ShardWorkers, WorkerSettings
from precompute.engines.minibatch import EngineLimits, MiniBatchEngine
from precompute.labels import SeriesTable
from precompute.partials import shard_summaries
from precompute.samples import Block
from precompute.stores.memory import MemoryStore
from tests.cluster.test_worker import KEPT, LEASE_MS, World
from tests.cluster.test_worker import world as world
from tests.precompute.made_node import HOUR_MS, LATENESS_MS, START_MS, WIDTH_MS, aggregation, in_config, series
from tests.running import poll_until
from tests.servers import RedisServer

SHARDS = 4
JOIN_S = 60.0


def summarising(monkeypatch: pytest.MonkeyPatch, first: Callable[[], None]) -> None:
    """Something happens before each batch is summarised."""

    def made(*arguments: Any) -> Any:
        first()
        return shard_summaries(*arguments)

    monkeypatch.setattr(module, "shard_summaries", made)


# -- a batch that takes longer than the lease


def test_a_lease_is_kept_while_a_batch_takes_longer_than_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def working() -> None:
        for _ in range(3 * LEASE_MS // 5000):
            world.pass_time(5000)
            worker.keep()
            assert world.worker("b").tick(0) == "taken"

    summarising(monkeypatch, working)
    worker = world.worker("a", KEPT[:1])
    world.scrape()
    world.pass_time(45_000)
    assert worker.tick(0) == "done"
    assert world.partials(KEPT[0]).rows and not worker.held_by_number[0].counts.lost


def test_who_stands_still_past_the_lease_does_not_get_it_back_by_keeping_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> None:
        world.pass_time(LEASE_MS + 5000)
        worker.keep()

    summarising(monkeypatch, stopped)
    worker = world.worker("a", KEPT[:1])
    world.scrape()
    world.pass_time(45_000)
    assert worker.tick(0) == "taken"
    assert not world.partials(KEPT[0]).panes
    assert worker.held_by_number[0].counts.lost == 1, "also where it was cold when the tick began"


# -- the server has forgotten what was trimmed


def test_a_base_that_falls_back_brings_nothing_back_into_the_head(world: World) -> None:
    counted, kept = aggregation("count_over_time(x[30m])", ("job",), accumulators=("sum",)), list[Any]()
    worker, read_ms = world.worker("a", kept), 60_000
    for _ in range(4 * HOUR_MS // read_ms):
        world.scrape()
        world.pass_time(read_ms)
        worker.tick(0)
    state = world.shard.state()
    assert state is not None and state.base_ms > START_MS + counted.reach_ms
    world.shard.server.ask("HSET", "{0}m", "base", START_MS)
    kept.append(counted)
    world.pass_time(5000)
    assert worker.tick(0) == "done"
    made = world.partials(counted)
    assert made.ends_ms[0] - counted.reach_ms + 1 >= state.base_ms
    assert set(made.states["sum"]["sum"].tolist()) == {150.0}, "five pods, each minute"


# -- clocks


class SetRight(ManualClock):
    """A wall clock that is set right, which moves no other."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self.moved_ms = 0

    def set(self, ms: int) -> None:
        self.moved_ms += ms

    def now_ms(self) -> int:
        return super().now_ms() + self.moved_ms


def test_the_floor_follows_as_soon_as_a_clock_is_set_right(world: World) -> None:
    world.clock = clock = SetRight(world.clock.now_ms() - 8000)
    worker = world.worker("a")
    world.shard._now_ms = lambda: ManualClock.now_ms(clock) + 8000
    for _ in range(10):
        world.pass_time(60_000)
        assert worker.tick(0) == "done"
    state = world.shard.state()
    assert state is not None and state.floor_ms < world.shard._now_ms() - HOUR_MS
    clock.set(8000)
    assert worker.tick(0) == "done"
    state = world.shard.state()
    assert state is not None and state.floor_ms == clock.now_ms() - HOUR_MS


# -- room, and the end of a worker


class Several:
    """Some shards with thousands of series each, and workers that are placed and ticked in rounds."""

    def __init__(self, redis: RedisServer, most_bytes: int) -> None:
        self.clock, self.most_bytes = ManualClock(START_MS), most_bytes
        limits = ShardLimits(HOUR_MS, 60_000, LATENESS_MS, HOUR_MS, 600_000, LEASE_MS, 1 << 26, 1 << 26)
        self.shards = Shards([redis.url], SHARDS, limits, self.clock.now_ms)
        self.shards.create(complete=True)
        self.table = SeriesTable(shards=SHARDS)
        self.sids = np.array([self.table.intern(series("x", job="a", pod=str(i))) for i in range(20_000)], np.int32)
        self.logs = [RedisSampleLog(shard, self.table) for shard in self.shards.all]
        self.kicks = {name: self._kicks(name) for name in "ab"}

    def _kicks(self, name: str) -> Kicks:
        engine = EngineLimits(HOUR_MS, LATENESS_MS, HOUR_MS, HOUR_MS, tick_ms=WIDTH_MS)
        settings = WorkerSettings(name, WIDTH_MS, 0, self.most_bytes, 100, engine)
        workers = ShardWorkers(self.shards, settings, lambda: in_config(KEPT[:1]), MemoryStore(), self.clock)
        return Kicks(workers, self.shards, Crew(self.shards.first, self.clock.now_ms), WIDTH_MS, self.clock)

    def workers(self, name: str) -> ShardWorkers:
        workers = self.kicks[name].workers
        assert isinstance(workers, ShardWorkers)
        return workers

    def scrape(self) -> None:
        of = self.table.shard_of(self.sids)
        for number, log in enumerate(self.logs):
            mine = self.sids[of == number]
            log.append(Block(mine, np.full(len(mine), self.clock.now_ms(), np.int64), np.ones(len(mine))))
        self.clock.advance(WIDTH_MS)
        self.shards.run_all([(shard, shard.beat_call()) for shard in self.shards.all])

    def rounds(self, count: int, names: str) -> list[str]:
        """What the scheduler asks for, followed by these workers; who holds each shard in the end."""
        for _ in range(count):
            self.scrape()
            for name in names:
                self.kicks[name].beat()
                self.kicks[name].workers.keep()
            self.shards.first.ask("DEL", "{crew}turn:place")
            kicks, made_ms = self.kicks[names[0]].place()
            for kick in kicks:
                self.kicks[kick.worker].tick(kick.shard, made_ms, bool(kick.give_to))
        return [state.holder for state in self.shards.states() if state is not None]


@pytest.fixture
def several(redis: RedisServer) -> Iterator[Callable[[int], Several]]:
    made: list[Several] = []

    def build(most_bytes: int) -> Several:
        made.append(Several(redis, most_bytes))
        return made[-1]

    yield build
    for one in made:
        one.shards.close()


def test_a_worker_without_room_gives_shards_to_one_that_has_some(several: Callable[[int], Several]) -> None:
    whole = several(11 << 20)
    whole.rounds(14, "b")
    assert len(whole.workers("b").held()) < SHARDS, "there is no room for all of them"
    assert whole.workers("b").head_bytes() <= 11 << 20
    whole.rounds(10, "ab")
    assert sorted([*whole.workers("a").held(), *whole.workers("b").held()]) == list(range(SHARDS))
    assert all(state is not None and state.read == state.bytes for state in whole.shards.states())


def test_heads_of_shards_that_others_took_are_dropped(several: Callable[[int], Several]) -> None:
    whole = several(1 << 26)
    whole.rounds(4, "ab")
    assert len(whole.workers("a").held()) == SHARDS // 2
    assert set(whole.rounds(5, "b")) == {"b"}
    whole.workers("a").keep()
    assert whole.workers("a").held() == () and whole.workers("a").head_bytes() == 0


def test_a_log_without_room_is_not_read_again_and_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, reads = world.worker("a"), list[int]()
    read = RedisSampleLog.read
    monkeypatch.setattr(RedisSampleLog, "read", lambda *of: (reads.append(1), read(*of))[1])
    monkeypatch.setattr(worker, "settings", WorkerSettings("a", WIDTH_MS, 0, 1 << 10, 100, worker.settings.engine))
    world.scrape()
    for _ in range(5):
        assert worker.tick(0) == "failed"
        state = world.shard.state()
        assert state is not None and state.holder == "", "another may have room"
    assert len(reads) == 1
    world.pass_time(660_000)
    assert worker.tick(0) == "failed" and len(reads) == 2


def test_a_worker_that_ends_while_a_shard_is_cold_begins_nothing(
    several: Callable[[int], Several], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, inside, go, batches = several(1 << 26), threading.Event(), threading.Event(), list[int]()
    worker, load = whole.workers("a"), MiniBatchEngine.load
    whole.scrape()
    assert worker.tick(1) == "done"
    summarising(monkeypatch, lambda: batches.append(1))

    def loading(engine: MiniBatchEngine, wrong: Collection[str] = ()) -> None:
        inside.set()
        assert go.wait(JOIN_S)
        load(engine, wrong)

    monkeypatch.setattr(MiniBatchEngine, "load", loading)
    ended = list[str]()
    tick = threading.Thread(target=lambda: ended.append(worker.tick(0)))
    tick.start()
    assert inside.wait(JOIN_S)
    stop = threading.Thread(target=worker.shutdown)
    stop.start()
    idle = whole.shards.all[1]
    poll_until(lambda: (now := idle.state()) and now.holder == "", JOIN_S, "what is idle is given back at once")
    go.set()
    for thread in (tick, stop):
        thread.join(JOIN_S)
        assert not thread.is_alive()
    assert (ended, batches) == (["stopping"], [])
    assert {state.holder for state in whole.shards.states() if state is not None} == {""}

