"""A worker's shard on a real Redis: what it commits is what one process makes, whoever else held it meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from precompute.aggregations import Aggregation
from precompute.clock import ManualClock
from precompute.cluster.ground import Lost
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.partial_store import Stored
from precompute.cluster.replies import ShardLimits, appended, stream_id
from precompute.cluster.shard import Shard
from precompute.cluster.shards import Shards
from precompute.cluster.storing import Storing
from precompute.cluster.worker import ShardWorkers, WorkerSettings
from precompute.engines.minibatch import EngineLimits, MiniBatchEngine
from precompute.labels import Labels, SeriesTable
from precompute.samples import Block
from precompute.stores.blob import from_bytes
from precompute.stores.memory import MemoryStore
from precompute.stores.pieces import joined
from precompute.summaries import Summary
from tests.precompute.made_node import HOUR_MS, LATENESS_MS, START_MS, WIDTH_MS, Core, aggregation, in_config, series
from tests.precompute.made_summaries import same
from tests.servers import RedisServer

LEASE_MS = 30_000
KEPT = (aggregation("x", ("job",)), aggregation("rate(c[1m])", ("job",), accumulators=("sum", "max")))
ROWS = tuple((series("x", job=job, pod=f"p{pod}"), pod) for job in "ab" for pod in range(5))


@dataclass
class World:
    """One shard with a clock that tests move, what was written to it, and its workers."""

    shards: Shards
    clock: ManualClock
    log: RedisSampleLog
    table: SeriesTable

    def worker(
        self, name: str, kept: Sequence[Aggregation] = KEPT, stored: Stored | None = None,
        storing: Storing | None = None, wrong: Sequence[Aggregation] = (),
    ) -> ShardWorkers:  # fmt: skip
        limits = EngineLimits(HOUR_MS, LATENESS_MS, HOUR_MS, HOUR_MS, tick_ms=WIDTH_MS)
        settings = WorkerSettings(name, WIDTH_MS, 0, 1 << 26, 100, limits)
        return ShardWorkers(
            self.shards, settings, lambda: in_config(kept, wrong), stored or MemoryStore(), self.clock, storing
        )

    @property
    def shard(self) -> Shard:
        return self.shards.all[0]

    def write(self, rows: Sequence[tuple[Labels, int, float]]) -> None:
        sid = np.array([self.table.intern(labels) for labels, _, _ in rows], np.int32)
        t_ms, value = (np.array([row[k] for row in rows], dtype) for k, dtype in ((1, np.int64), (2, np.float64)))
        self.log.append(Block(sid, t_ms, value))

    def scrape(self, value: float = 1.0) -> None:
        """A sample of everything, now."""
        now_ms = self.clock.now_ms()
        self.write([(labels, now_ms, value + k) for labels, k in ROWS])
        self.write([(series("c", job="a"), now_ms, (now_ms - START_MS) / 1000 * value)])

    def pass_time(self, ms: int) -> None:
        until_ms = self.clock.now_ms() + ms
        while self.clock.now_ms() < until_ms:
            self.clock.advance(min(5000, until_ms - self.clock.now_ms()))
            assert appended(self.shard.server.run(self.shard.beat_call())).outcome == "ok"

    def partials(self, kept: Aggregation) -> Summary:
        """All panes of an aggregation that are in Redis."""
        ends, _, _ = self.shard.index([kept.id])[0]
        blobs = self.shard.blobs(kept.id, ends)
        return joined([from_bytes(blob) for blob in blobs if blob is not None], 0, 1 << 62)


@pytest.fixture
def world(redis: RedisServer) -> Iterator[World]:
    clock = ManualClock(START_MS)
    limits = ShardLimits(HOUR_MS, 60_000, LATENESS_MS, HOUR_MS, 600_000, LEASE_MS, 1 << 26, 1 << 26)
    shards, table = Shards([redis.url], 1, limits, clock.now_ms), SeriesTable(shards=1)
    shards.create(complete=True)
    yield World(shards, clock, RedisSampleLog(shards.all[0], table), table)
    shards.close()


def test_it_is_late_by_what_it_holds_alone(world: World) -> None:
    worker = world.worker("a")
    world.pass_time(HOUR_MS)
    assert worker.late_ms() == 0, "nothing is held"
    assert worker.tick(0) == "done"
    world.clock.advance(7000)
    assert worker.late_ms() == 7000


def test_in_its_first_tick_it_is_not_late(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, late_ms = world.worker("a"), list[int]()
    monkeypatch.setattr(MiniBatchEngine, "run", lambda *_: late_ms.append(worker.late_ms()))
    world.pass_time(HOUR_MS)
    assert worker.tick(0) == "done"
    assert late_ms == [0]


def test_its_panes_are_those_of_one_process(world: World, tmp_path: Path) -> None:
    core, worker = Core(tmp_path, KEPT), world.worker("a")
    for _ in range(8):
        for write in (world.write, core.write):
            now_ms = world.clock.now_ms()
            write([(labels, now_ms - 4000, float(k) + now_ms % 7) for labels, k in ROWS])
            write([(series("c", job="a"), now_ms, now_ms / 1000)])
        world.pass_time(WIDTH_MS)
        core.pass_time(WIDTH_MS)
        assert worker.tick(0) == "done"
        core.tick()
    for kept in KEPT:
        ours, theirs = world.partials(kept), core.store.get(kept.id, 0, 1 << 62)
        first_ms = int(theirs.ends_ms[0])
        assert same(_from(ours, first_ms), _from(theirs, first_ms))
        assert not ours.row_off[np.searchsorted(ours.ends_ms, first_ms)], "nothing was there before"


def _from(summary: Summary, first_ms: int) -> Summary:
    """Without what numbers of entries say, which are each log's own."""
    from precompute.summaries import between

    part = between(summary, first_ms - 1, 1 << 62)
    return replace(part, seen=np.zeros(part.panes, np.int64))


def test_a_second_tick_finds_nothing_to_do(world: World) -> None:
    worker = world.worker("a")
    world.scrape()
    world.pass_time(45_000)
    worker.tick(0)
    before = world.shard.last_told()
    assert worker.tick(0) == "done"
    assert world.shard.last_told() == before


def test_a_late_sample_replaces_the_panes_that_it_touches(world: World) -> None:
    worker = world.worker("a")
    world.scrape()
    world.pass_time(60_000)
    worker.tick(0)
    before = world.partials(KEPT[0])
    world.write([(series("x", job="a", pod="late"), START_MS + 1000, 100.0)])
    worker.tick(0)
    after = world.partials(KEPT[0])
    assert (after.seen >= before.seen).all()
    changed = after.ends_ms[after.seen > before.seen]
    assert changed[0] == START_MS + WIDTH_MS
    assert after.states["max"]["max"].max() == 100.0


def test_another_worker_is_told_that_the_shard_is_taken_until_the_lease_ends(world: World) -> None:
    one, other = world.worker("a"), world.worker("b")
    world.scrape()
    assert one.tick(0) == "done"
    assert other.tick(0) == "taken"
    assert other.held() == ()
    world.pass_time(LEASE_MS + 5000)
    assert other.tick(0) == "done"
    assert one.tick(0) == "taken"
    assert (one.held(), other.held()) == ((), (0,))


def test_one_that_stalls_past_its_lease_cannot_commit(world: World) -> None:
    one, other = world.worker("a"), world.worker("b")
    world.scrape()
    world.pass_time(45_000)
    one.tick(0)
    warm = one.held_by_number[0].warm
    assert warm is not None
    warm.ground.begin(HOUR_MS)
    world.pass_time(LEASE_MS + 5000)
    other.tick(0)
    world.scrape(50.0)
    before = world.shard.index([KEPT[0].id])[0]
    with pytest.raises(Exception, match="not ours"):
        warm.sink.send([(KEPT[0].id, world.partials(KEPT[0]))])
    with pytest.raises(Exception, match="not ours"):
        warm.ground.trim(0)
    assert all((a == b).all() for a, b in zip(before, world.shard.index([KEPT[0].id])[0], strict=True))


def lose_newest(world: World) -> None:
    """The server has lost the newest entry and what it noted of it, as after a crash."""
    entries = [number for number, _ in world.shard.read(0, 1000)]
    world.shard.server.ask("XDEL", world.shard.log_key, stream_id(entries[-1]))
    world.shard.server.ask("HSET", "{0}m", "last", stream_id(entries[-2]))


@pytest.mark.parametrize("more", [False, True])
def test_a_sample_that_the_log_has_lost_is_in_no_pane(world: World, more: bool) -> None:
    worker = world.worker("a")
    world.scrape()
    world.pass_time(45_000)
    worker.tick(0)
    before = world.partials(KEPT[0])
    world.write([(series("x", job="a", pod="lost"), START_MS + 1000, 1e6)])
    warm = worker.held_by_number[0].warm
    assert warm is not None
    warm.ground.begin(HOUR_MS)
    lose_newest(world)
    if more:
        world.write([(series("x", job="a", pod="p1"), START_MS + 1000, 0.5)])
    with pytest.raises(Lost):
        warm.sink.send([(KEPT[0].id, replace(before, seen=np.full(before.panes, warm.ground.applied)))])
    assert [worker.tick(0), worker.tick(0)] == ["taken", "done"]
    after = world.partials(KEPT[0])
    assert after.states["max"]["max"].max() < 1e6 and (len(after.keys) == len(before.keys))
    assert (after.seen > before.seen).any() == more


def test_a_shard_that_is_given_away_is_taken_at_once(world: World) -> None:
    one, other = world.worker("a"), world.worker("b")
    world.scrape()
    assert one.tick(0, release=True) == "done"
    assert one.held() == ()
    assert other.tick(0) == "done"


def test_a_worker_that_ends_gives_its_shards_back(world: World) -> None:
    one, other = world.worker("a"), world.worker("b")
    world.scrape()
    one.tick(0)
    one.shutdown()
    assert one.tick(0) == "stopping"
    assert other.tick(0) == "done"


@pytest.mark.parametrize("cold", [False, True])
def test_final_follows_the_floor_and_the_log_is_trimmed_behind_it(world: World, cold: bool) -> None:
    worker = world.worker("a")
    for _ in range(16):
        world.scrape()
        world.pass_time(600_000)
        worker = world.worker("b") if cold else worker
        if cold:
            world.pass_time(LEASE_MS + 1000)
        assert worker.tick(0) == "done"
    state = world.shard.state()
    assert state is not None
    assert state.final_ms == state.floor_ms == world.clock.now_ms() - HOUR_MS
    assert START_MS < state.base_ms <= state.final_ms - HOUR_MS
    assert state.cut > 0
    assert len(world.shard.read(0, 1000)) < 32


def test_what_is_no_longer_kept_leaves_open_panes_behind_nowhere(world: World) -> None:
    kept = list(KEPT)
    worker = world.worker("a", kept)
    world.scrape()
    world.pass_time(60_000)
    worker.tick(0)
    gone = kept.pop()
    worker.tick(0)
    state = world.shard.state()
    assert state is not None
    assert (world.partials(gone).ends_ms <= state.final_ms).all()
    assert (world.partials(kept[0]).ends_ms > state.final_ms).any()


@pytest.mark.parametrize("cold", [False, True])
def test_what_was_found_wrong_leaves_no_pane_behind_and_is_made_anew(world: World, cold: bool) -> None:
    kept, wrong = list(KEPT), list[Aggregation]()
    worker = world.worker("a", kept, wrong=wrong)
    for _ in range(6):
        world.scrape()
        world.pass_time(WIDTH_MS)
    world.pass_time(HOUR_MS)
    for _ in range(2):
        worker.tick(0)
    found, right = kept.pop(), world.partials(KEPT[1])
    state = world.shard.state()
    assert state is not None and (right.ends_ms <= state.final_ms).any()
    wrong.append(found)
    if cold:
        worker.shutdown()
        worker = world.worker("b", kept, wrong=wrong)
    worker.tick(0)
    assert not world.partials(found).panes and world.partials(KEPT[0]).panes
    kept.append(wrong.pop())
    worker.tick(0)
    again = world.partials(found)
    assert len(again.ends_ms) and np.isin(right.ends_ms, again.ends_ms).all() and (again.seen >= right.seen[-1]).all()


def test_a_new_aggregation_is_filled_from_the_log_at_once(world: World) -> None:
    kept = [KEPT[0]]
    worker = world.worker("a", kept)
    for _ in range(6):
        world.scrape()
        world.pass_time(WIDTH_MS)
    worker.tick(0)
    kept.append(KEPT[1])
    worker.tick(0)
    assert (world.partials(KEPT[1]).ends_ms == world.partials(KEPT[0]).ends_ms).all()


def test_a_redis_that_is_away_costs_a_tick(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from precompute.cluster.server import Server, ServerDown

    worker = world.worker("a")
    world.scrape()
    world.pass_time(45_000)
    run: Callable[..., object] = Server.run_all

    def away(*_: object) -> object:
        raise ServerDown("away")

    monkeypatch.setattr(Server, "run_all", away)
    assert worker.tick(0) == "failed"
    monkeypatch.setattr(Server, "run_all", run)
    assert worker.tick(0) == "done"
    assert world.partials(KEPT[0]).panes
