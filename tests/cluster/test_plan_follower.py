"""A worker goes on by the plan that it knows while the server that holds the plan is away."""

import logging
from collections.abc import Sequence

import pytest

from precompute.clock import ManualClock
from precompute.cluster.crew import Crew
from precompute.cluster.kicks import Kicks
from precompute.cluster.plan import PlanFollower, PlanUnknown, SharedPlan
from precompute.cluster.replies import ShardLimits
from precompute.cluster.server import Server, ServerDown
from precompute.cluster.shards import Shards
from precompute.cluster.watchdog import UNKICKED_PERIODS, Watchdog
from precompute.cluster.worker import ShardWorkers, WorkerSettings
from precompute.definitions import Definition, Kept, definition_of
from precompute.engines.minibatch import EngineLimits
from precompute.stores.memory import MemoryStore
from query.promql.parse import parse
from tests.precompute.made_node import HOUR_MS, LATENESS_MS, START_MS, WIDTH_MS, aggregation
from tests.servers import RedisServer, redis_server

X, Y = (Kept(aggregation(name), "api", True) for name in "xy")


def kept_of(definitions: Sequence[Definition]) -> list[Kept]:
    return [one.kept(parse) for one in definitions]


def test_what_was_known_last_stays_until_the_server_is_back(caplog: pytest.LogCaptureFixture) -> None:
    with redis_server() as redis:
        plan, clock = SharedPlan(Server(redis.url)), ManualClock(START_MS)
        follower = PlanFollower(plan, kept_of, clock)
        plan.publish([definition_of(X)])
        assert follower.kept() == (X,)
        redis.kill()
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert follower.kept() == (X,)
                clock.advance(60_000)
        assert len(caplog.records) == 1
        redis.start()
        plan.publish([definition_of(X), definition_of(Y)])
        assert set(follower.kept()) == {X, Y}


def test_one_that_lost_the_plan_leaves_it_as_it_was_until_it_is_published_again(redis: RedisServer) -> None:
    plan, clock = SharedPlan(Server(redis.url)), ManualClock(START_MS)
    follower = PlanFollower(plan, kept_of, clock)
    plan.publish([definition_of(X)])
    assert follower.kept() == (X,)
    redis.cli("flushall")
    assert follower.kept() == (X,)
    plan.publish([definition_of(Y)])
    clock.advance(60_000)
    assert follower.kept() == (Y,)


def test_a_server_that_is_away_is_not_asked_at_each_tick(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, clock, asked = SharedPlan(Server(redis.url)), ManualClock(START_MS), list[int]()
    follower = PlanFollower(plan, kept_of, clock)
    plan.publish([definition_of(X)])
    follower.kept()

    def away() -> int:
        asked.append(1)
        raise ServerDown("away")

    monkeypatch.setattr(plan, "revision", away)
    for _ in range(10):
        assert follower.kept() == (X,)
    assert len(asked) == 1


def test_a_plan_that_was_never_known_fails_with_its_reason() -> None:
    with redis_server() as redis:
        follower = PlanFollower(SharedPlan(Server(redis.url)), kept_of, ManualClock(START_MS))
        for _ in range(2):
            with pytest.raises(PlanUnknown, match="no role has published"):
                follower.kept()
        redis.kill()
        for _ in range(2):
            with pytest.raises(ServerDown):
                follower.kept()


def test_with_the_first_server_away_only_its_own_shards_are_not_ticked() -> None:
    with redis_server() as first, redis_server() as second:
        clock = ManualClock(START_MS)
        limits = ShardLimits(HOUR_MS, 60_000, LATENESS_MS, HOUR_MS, 600_000, 30_000, 1 << 26, 1 << 26)
        shards = Shards([first.url, second.url], 4, limits, clock.now_ms)
        shards.create(True)
        plan = SharedPlan(shards.first)
        plan.publish([definition_of(X)])
        follower = PlanFollower(plan, kept_of, clock)
        engine = EngineLimits(HOUR_MS, LATENESS_MS, HOUR_MS, HOUR_MS, tick_ms=WIDTH_MS)
        worker = ShardWorkers(
            shards, WorkerSettings("a", WIDTH_MS, 0, 1 << 26, 100, engine), follower.kept,
            MemoryStore(), clock,
        )  # fmt: skip
        assert {worker.tick(number) for number in (0, 3)} == {"done"}
        first.kill()
        assert [worker.tick(number) for number in range(4)] == ["failed", "done", "failed", "done"], "1 was cold"
        kicks, ended = Kicks(worker, shards, Crew(shards.first), WIDTH_MS, clock), list[str]()
        clock.advance((UNKICKED_PERIODS + 1) * WIDTH_MS)
        before = [held.counts.ticks for held in worker.held_by_number]
        Watchdog(kicks, lambda: False, ended.append).look()
        ticked = [held.counts.ticks - was for held, was in zip(worker.held_by_number, before, strict=True)]
        assert (ticked, ended) == ([0, 1, 0, 1], []), "nobody can place: what is held is ticked all the same"
        shards.close()
