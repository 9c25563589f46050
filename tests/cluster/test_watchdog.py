"""A worker that nobody kicks ticks on; one that is connected and hears nothing ends, and only that one."""

import threading

import pytest

from precompute.clock import ManualClock
from precompute.cluster.crew import Crew
from precompute.cluster.kicks import Kicks
from precompute.cluster.server import ServerDown, ServerFull
from precompute.cluster.shards import Shards
from precompute.cluster.watchdog import STUCK_PERIODS, UNANSWERED, UNKICKED_PERIODS, Watchdog
from tests.cluster.standin_worker import LIMITS, StandinWorkers
from tests.running import poll_until
from tests.servers import RedisServer

PERIOD_S = 15


class Watched:
    """A watchdog whose seconds pass when a test says so."""

    def __init__(self, redis: RedisServer) -> None:
        self.clock = ManualClock(1_000_000)
        shards = Shards([redis.url], 2, LIMITS)
        shards.create(True)
        self.workers = StandinWorkers("a", shards)
        self.kicks = Kicks(self.workers, shards, Crew(shards.first, self.clock.now_ms), PERIOD_S * 1000, self.clock)
        self.redis, self.knocks, self.ended = redis, 0, list[str]()
        self.broker_takes, self.comes_back = True, False
        self.dog = Watchdog(self.kicks, self._knock, self.ended.append)

    def _knock(self) -> bool:
        self.knocks += 1
        if self.broker_takes and self.comes_back:
            self.kicks.heard()
        return self.broker_takes

    def kick(self, shard: int) -> None:
        self.kicks.tick(shard, self.kicks.crew.now_ms(), False)

    def pass_periods(self, periods: float) -> None:
        """Looks once a second."""
        for _ in range(int(periods * PERIOD_S)):
            self.clock.advance(1000)
            self.dog.look()
            self.dog.store()

    def stores(self) -> int:
        return int(self.redis.cli("llen", "stores"))

    def ticks(self) -> int:
        return int(self.redis.cli("llen", "ticks"))


@pytest.fixture
def watched(redis: RedisServer) -> Watched:
    return Watched(redis)


def test_a_worker_that_is_kicked_is_left_alone(watched: Watched) -> None:
    for _ in range(10):
        watched.kick(0)
        watched.pass_periods(1)
    assert (watched.ticks(), watched.stores(), watched.knocks, watched.ended) == (10, 0, 0, [])


def test_without_kicks_what_is_held_is_ticked_every_other_period(watched: Watched) -> None:
    watched.comes_back = True
    watched.kick(1)
    watched.pass_periods(UNKICKED_PERIODS)
    assert watched.ticks() == 1
    watched.pass_periods(4 * UNKICKED_PERIODS)
    assert watched.ticks() == 1 + 4
    assert watched.ended == []


def test_without_kicks_it_stores_every_other_period_where_it_is_its_turn(watched: Watched) -> None:
    watched.comes_back = True
    watched.kick(1)
    watched.pass_periods(UNKICKED_PERIODS)
    assert watched.stores() == 0
    watched.pass_periods(0.5)
    assert watched.stores() == 1
    for stores in (2, 3):
        assert not watched.kicks.crew.take_turn("store", 1), "it was just done"
        watched.redis.cli("del", "{crew}turn:store")
        watched.pass_periods(UNKICKED_PERIODS)
        assert watched.stores() == stores


def test_storing_unasked_hides_neither_a_deaf_consumer_nor_that_it_is_stuck(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(watched.workers, "store", lambda: ended.wait(120))
    watched.clock.advance(UNKICKED_PERIODS * PERIOD_S * 1000 + 1)
    stuck = threading.Thread(target=watched.dog.store)
    stuck.start()
    poll_until(lambda: watched.kicks._unasked, 30, "it stores")
    watched.pass_periods(UNANSWERED + 0.5)
    assert watched.ended == ["4 messages for this worker were taken, and none has come"]
    watched.comes_back = True
    watched.pass_periods(STUCK_PERIODS)
    assert "a task has been running for" in watched.ended[-1]
    ended.set()
    stuck.join()


def test_a_worker_whose_messages_are_taken_and_never_come_ends(watched: Watched) -> None:
    watched.pass_periods(UNKICKED_PERIODS + UNANSWERED)
    assert (watched.knocks, watched.ended) == (UNANSWERED, [])
    watched.pass_periods(0.5)
    assert watched.ended == ["4 messages for this worker were taken, and none has come"]


def test_a_worker_that_was_stopped_for_an_hour_is_not_deaf(watched: Watched) -> None:
    watched.pass_periods(UNKICKED_PERIODS + 0.5)
    watched.clock.advance(3_600_000)
    watched.dog.look()
    watched.comes_back = True
    watched.pass_periods(20)
    assert watched.ended == []


def test_a_worker_does_not_end_for_a_broker_that_is_away(watched: Watched) -> None:
    watched.broker_takes = False
    watched.pass_periods(100)
    assert watched.knocks > 50
    assert watched.ended == []


def test_a_message_that_a_broker_lost_in_a_crash_ends_nobody(watched: Watched) -> None:
    watched.pass_periods(4)
    watched.broker_takes = False
    watched.pass_periods(2)
    watched.broker_takes = watched.comes_back = True
    watched.pass_periods(20)
    assert watched.ended == []


@pytest.mark.parametrize("what", ["tick", "store"])
def test_what_runs_for_long_is_waited_for_and_what_never_ends_ends_the_process(
    watched: Watched, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(watched.workers, what, lambda *_: ended.wait(120) and "done")
    stuck = threading.Thread(target=watched.kicks.store if what == "store" else lambda: watched.kick(0))
    stuck.start()
    poll_until(lambda: watched.kicks._running, 30, f"the {what} runs")
    watched.pass_periods(STUCK_PERIODS)
    assert watched.ended == []
    watched.pass_periods(0.5)
    assert "a task has been running for 601 s" in watched.ended[0]
    ended.set()
    stuck.join()


def test_a_worker_says_that_it_lives_whatever_else_it_does(watched: Watched) -> None:
    watched.kick(1)
    watched.dog.beat()
    (member,) = watched.kicks.crew.live().members
    assert (member.name, member.held) == ("a", (1,))


@pytest.mark.parametrize("error", [ServerDown("away"), ServerFull("full")])
def test_one_that_cannot_say_so_says_that_once(
    watched: Watched, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(watched.kicks.crew, "beat", refuse)
    for _ in range(3):
        watched.dog.beat()
    assert caplog.messages == [f"{error}; this worker gets no shards until it can"]
