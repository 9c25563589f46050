"""Two query engines tell each other what they are asked, so that either plans for all; the board is Redis'."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from precompute.cluster.board import SharedBoard
from precompute.cluster.server import Server
from query import elsewhere
from query.elsewhere import Elsewhere
from tests.precompute.made_node import WIDTH_MS, series
from tests.query.planned_node import PlannedNode
from tests.servers import RedisServer, redis_server

QUERY = "sum by (job) (rate(c[1m]))"


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as started:
        yield started


@pytest.fixture
def server(redis: RedisServer) -> Iterator[Server]:
    made = Server(redis.url)
    made.ask("FLUSHALL")
    yield made
    made.close()


class Engine:
    """A query engine of several."""

    _numbers = itertools.count()

    def __init__(self, folder: Path, server: Server) -> None:
        name = f"engine-{next(self._numbers)}"
        self.elsewhere = Elsewhere(SharedBoard(server, name))
        self.node = PlannedNode(folder / name, also=[self.elsewhere.note])
        for _ in range(24):
            core = self.node.core
            core.write([(series("c", job=f"j{i % 3}", i=str(i)), core.clock.now_ms(), float(i)) for i in range(24)])
            core.pass_time(WIDTH_MS)
            core.tick()
        self.exchange()

    def ask(self, text: str) -> None:
        self.node.core.range(text, self.node.sealed_ms() - 8 * WIDTH_MS, self.node.sealed_ms())

    def exchange(self) -> None:
        self.elsewhere.exchange(self.node.core.queries.planned, self.node.tracker)

    @property
    def planned(self) -> list[tuple[str, tuple[str, ...]]]:
        self.node.replanner.run()
        return [(str(a.expr), a.labels) for a in self.node.planned]


def test_what_one_is_asked_another_plans_for(tmp_path: Path, server: Server) -> None:
    leader, other = Engine(tmp_path, server), Engine(tmp_path, server)
    for _ in range(2):
        other.ask(QUERY)
        other.exchange()
        leader.exchange()
    assert leader.planned == []
    other.ask(QUERY)
    other.exchange()
    leader.exchange()
    assert leader.planned == [("rate(c[1m])", ("job",))]


def test_a_query_that_is_shared_out_among_them_counts_once_each_time_for_each(tmp_path: Path, server: Server) -> None:
    engines = [Engine(tmp_path, server) for _ in range(3)]
    for engine in engines[:2]:
        engine.ask(QUERY)
    for _ in range(2):
        for engine in engines:
            engine.exchange()
    assert [engine.planned for engine in engines] == [[], [], []]
    engines[2].ask(QUERY)
    for engine in (engines[2], *engines):
        engine.exchange()
    assert [len(engine.planned) for engine in engines] == [1, 1, 1]


def test_steps_lookback_and_times_asked_arrive_as_they_were(tmp_path: Path, server: Server) -> None:
    one, other = Engine(tmp_path, server), Engine(tmp_path, server)
    begin_ms = one.node.sealed_ms() // (4 * WIDTH_MS) * (4 * WIDTH_MS) - 16 * WIDTH_MS
    for _ in range(3):
        one.node.core.range(QUERY, begin_ms, begin_ms + 16 * WIDTH_MS, 4 * WIDTH_MS)
    one.exchange()
    other.exchange()
    (here,), (there,) = one.node.tracker.demands(), other.node.tracker.demands()
    assert there.members == here.members
    assert there.members[0].step_ms == 4 * WIDTH_MS
    assert there.asking.per_hour == pytest.approx(here.asking.per_hour)


def test_what_was_told_before_a_process_listens_is_not_counted(tmp_path: Path, server: Server) -> None:
    one = Engine(tmp_path, server)
    for _ in range(3):
        one.ask(QUERY)
    one.exchange()
    late = Engine(tmp_path, server)
    late.exchange()
    assert late.node.tracker.counts() == (0, 0)


def test_a_flood_is_told_in_part_and_leaves_no_more_behind(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "_MOST_WAITING", 6)
    monkeypatch.setattr(elsewhere, "_MOST_TOLD", 4)
    one, other = Engine(tmp_path, server), Engine(tmp_path, server)
    for i in range(10):
        one.ask(f"sum by (job) (rate(c{{i!='{i}'}}[1m]))")
    for counted in (4, 6, 6):
        one.exchange()
        other.exchange()
        assert other.node.tracker.counts() == (counted, 0)


def test_without_redis_queries_count_where_they_are_asked(tmp_path: Path) -> None:
    with redis_server() as redis:
        server = Server(redis.url)
        one = Engine(tmp_path, server)
    for _ in range(3):
        one.ask(QUERY)
    one.exchange()
    assert len(one.planned) == 1
    server.close()
