"""Kicks reach who holds the shard, the longest-waiting first; what is stale or done already is left out."""

from collections.abc import Callable, Sequence

import pytest

from precompute import tasks
from precompute.clock import Clock, ManualClock, SystemClock
from precompute.cluster.crew import Crew
from precompute.cluster.kicks import STALE_PERIODS, Kicks
from precompute.cluster.server import ServerDown, ServerFull
from precompute.cluster.shards import Shards
from tests.cluster.standin_worker import LIMITS, StandinWorkers
from tests.ports import free_port
from tests.running import poll_until
from tests.servers import RedisServer

PERIOD_MS, COUNT = 1_000, 4


@pytest.fixture
def server_clock() -> ManualClock:
    """By which leases, kicks and who lives are judged: a test that stands still for a while loses none."""
    return ManualClock(SystemClock().now_ms())


def shards_on(clock: Clock, *urls: str) -> Shards:
    shards = Shards(urls, COUNT, LIMITS, clock.now_ms)
    for shard in shards.all:
        if shard.server is shards.first:
            shard.create(True)
    return shards


def made(
    name: str, shards: Shards, server_clock: Clock, clock: Clock | None = None, period_ms: int = PERIOD_MS
) -> Kicks:
    crew = Crew(shards.first, server_clock.now_ms)
    kicks = Kicks(StandinWorkers(name, shards), shards, crew, period_ms, clock or SystemClock())
    kicks.beat()
    return kicks


@pytest.fixture
def worker(redis: RedisServer, server_clock: ManualClock) -> Callable[..., Kicks]:
    shards = shards_on(server_clock, redis.url)
    return lambda name, **given: made(name, shards, server_clock, **given)


def round_of(kicks: Kicks) -> Sequence[tuple[int, str, str]]:
    """The next round's kicks."""
    found: list[tuple[int, str, str]] = []

    def place() -> bool:
        found.extend((kick.shard, kick.worker, kick.give_to) for kick in kicks.place()[0])
        return bool(found)

    poll_until(place, 30, "a turn to place")
    return found


def test_a_shard_is_kicked_at_who_has_its_lease(worker: Callable[..., Kicks]) -> None:
    a, b = worker("a"), worker("b")
    now_ms = a.crew.now_ms()
    for kicks, shards in ((b, (0, 1)), (a, (2, 3))):
        for shard in shards:
            assert kicks.tick(shard, now_ms, False) == "ticked"
    assert sorted(round_of(a)) == [(0, "b", ""), (1, "b", ""), (2, "a", ""), (3, "a", "")]


def test_the_shard_that_waits_longest_is_kicked_first(
    worker: Callable[..., Kicks], server_clock: ManualClock
) -> None:
    a = worker("a")
    for shard in (2, 0, 3):
        a.tick(shard, a.crew.now_ms(), False)
        server_clock.advance(2)
    assert [shard for shard, _, _ in round_of(a)] == [1, 2, 0, 3]


def test_a_worker_with_too_many_gives_to_one_with_too_few(worker: Callable[..., Kicks]) -> None:
    a, _ = worker("a"), worker("b")
    for shard in range(COUNT):
        a.tick(shard, a.crew.now_ms(), False)
    given = [(shard, give_to) for shard, _, give_to in round_of(a) if give_to]
    assert given == [(3, "b")]
    assert a.tick(3, a.crew.now_ms(), True) == "released"


def test_two_schedulers_place_no_more_than_one(worker: Callable[..., Kicks]) -> None:
    a, b = (worker(name, period_ms=600_000) for name in "ab")
    assert len(a.place()[0]) == COUNT
    assert b.place()[0] == []


def test_a_kick_of_four_periods_ago_is_left_out(worker: Callable[..., Kicks]) -> None:
    a = worker("a")
    now_ms = a.crew.now_ms()
    assert a.tick(0, now_ms - STALE_PERIODS * PERIOD_MS - 1, False) == "stale"
    assert a.tick(0, now_ms - 2 * PERIOD_MS, False) == "ticked"


@pytest.mark.parametrize("off_ms", [-3_600_000, 3_600_000])
def test_the_age_of_a_kick_is_not_judged_by_the_workers_clock(worker: Callable[..., Kicks], off_ms: int) -> None:
    a = worker("a", clock=ManualClock(SystemClock().now_ms() + off_ms))
    assert a.tick(0, a.crew.now_ms(), False) == "ticked"
    assert a.tick(1, a.crew.now_ms() - 2 * STALE_PERIODS * PERIOD_MS, False) == "stale"


def test_a_kick_made_before_the_last_tick_is_done_already(worker: Callable[..., Kicks]) -> None:
    a = worker("a", period_ms=60_000)
    made_ms = a.crew.now_ms()
    assert a.tick(0, made_ms, False) == "ticked"
    assert a.tick(0, made_ms - 1, False) == "stale"
    assert a.tick(1, made_ms - 1, False) == "ticked"
    assert a.stale == 1


def test_a_log_server_that_is_down_stops_only_its_own_shards(redis: RedisServer, server_clock: ManualClock) -> None:
    a = made("a", shards_on(server_clock, redis.url, f"redis://127.0.0.1:{free_port()}/0"), server_clock)
    assert [shard for shard, _, _ in round_of(a)] == [0, 2]


def test_a_worker_that_ends_leaves_shards_and_crew(worker: Callable[..., Kicks]) -> None:
    a, b = worker("a"), worker("b")
    a.tick(0, a.crew.now_ms(), False)
    a.shutdown()
    assert {name for _, name, _ in round_of(b)} == {"b"}
    assert b.tick(0, b.crew.now_ms(), False) == "ticked"


def test_storing_is_asked_of_one_worker_at_a_time(worker: Callable[..., Kicks], redis: RedisServer) -> None:
    a, b = (worker(name, period_ms=600_000) for name in "ab")
    a.store()
    b.store()
    assert redis.cli("lrange", "stores", "0", "-1") == "a"


@pytest.mark.parametrize("error", [ServerDown("away"), ServerFull("full")])
def test_a_task_that_redis_does_not_serve_is_left_out(
    worker: Callable[..., Kicks], error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise error

    kicks = worker("a")
    monkeypatch.setattr(tasks, "_kicks", lambda: kicks)
    for method in ("take_turn", "now_ms", "leave"):
        monkeypatch.setattr(kicks.crew, method, refuse)
    tasks.place()
    tasks.tick_shard(0, 0)
    tasks.store()
    kicks.shutdown()
    assert [message.partition(";")[0] for message in caplog.messages] == [str(error)] * 4


def test_a_worker_is_ready_while_the_others_hear_of_it(redis: RedisServer) -> None:
    clock, shards = ManualClock(1_000_000), shards_on(SystemClock(), redis.url)
    kicks = Kicks(StandinWorkers("a", shards), shards, Crew(shards.first), PERIOD_MS, clock)
    assert kicks.why_not_ready() == "no other worker has heard of this one yet"
    kicks.beat()
    clock.advance(5_000)
    assert kicks.why_not_ready() is None
    clock.advance(1_000)
    assert kicks.why_not_ready() == "this worker was last heard 6 s ago"
