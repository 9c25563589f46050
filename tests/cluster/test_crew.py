"""Who is heard lives; who falls silent, or says so, is gone; one of many takes a turn."""

import pytest

from precompute.clock import ManualClock, SystemClock
from precompute.cluster.crew import SILENT_MS, Crew, Member
from precompute.cluster.server import Server, ServerDown
from tests.ports import free_port
from tests.running import poll_until
from tests.servers import RedisServer, without_memory

A, B = Member("a", (0, 3), 1_000, 20), Member("b", (), 2_000, 0)


def test_those_that_were_heard_live_with_what_they_last_said(redis: RedisServer) -> None:
    crew = Crew(Server(redis.url), ManualClock(1_000_000).now_ms)
    for member in (Member("b", (7,), 2_000, 5), A, B):
        crew.beat(member)
    assert crew.live().members == (A, B)


def test_a_worker_that_falls_silent_is_forgotten(redis: RedisServer) -> None:
    clock = ManualClock(1_000_000)
    crew = Crew(Server(redis.url), clock.now_ms)
    crew.beat(A)
    clock.advance(1)
    crew.beat(B)
    clock.advance(SILENT_MS)
    live = crew.live()
    assert (live.members, live.now_ms) == ((B,), clock.now_ms())
    assert redis.cli("hlen", "{crew}said") == "1"


def test_a_worker_that_ends_is_gone_at_once(redis: RedisServer) -> None:
    crew = Crew(Server(redis.url))
    crew.beat(A)
    crew.leave("a")
    assert crew.live().members == ()


def test_time_is_the_servers(redis: RedisServer) -> None:
    clock, crew = SystemClock(), Crew(Server(redis.url))
    before_ms, now_ms, after_ms = clock.now_ms(), crew.now_ms(), clock.now_ms()
    assert before_ms - 1000 <= now_ms <= after_ms + 1000


def test_one_takes_a_turn_and_then_nobody_for_a_while(redis: RedisServer) -> None:
    one, other = Crew(Server(redis.url)), Crew(Server(redis.url))
    assert one.take_turn("place", 600_000)
    assert not other.take_turn("place", 600_000)
    assert other.take_turn("store", 200)
    poll_until(lambda: one.take_turn("store", 600_000), 30, "the turn comes round again")


def test_without_memory_workers_are_heard_and_take_turns(redis: RedisServer) -> None:
    crew = Crew(Server(redis.url), ManualClock(1_000_000).now_ms)
    with without_memory(redis):
        for member in (A, B):
            crew.beat(member)
        assert crew.live().members == (A, B)
        assert [crew.take_turn("place", 600_000) for _ in range(2)] == [True, False]
        crew.leave("a")
        assert crew.live().members == (B,)


def test_a_server_that_is_away_is_told() -> None:
    crew = Crew(Server(f"redis://127.0.0.1:{free_port()}/0"))
    with pytest.raises(ServerDown):
        crew.live()
