"""Two processes agree whom to hear and who leads; Redis lets the keys expire by its own clock.

Where a place or a lease is to be kept it is long, so that a process that stands still for a while loses none; where it
is to end it is short, and what comes after it is long.
"""

from collections.abc import Iterator

import pytest

from ingest.ha import HaLabels, ReplicaPairs
from precompute.clock import Clock, ManualClock, SystemClock
from precompute.cluster.elections import Leader, SharedElections
from precompute.cluster.server import Server
from precompute.errors import Rejected
from tests.running import poll_until
from tests.servers import RedisServer, redis_server

LONG_MS, SHORT_MS = 600_000, 400


@pytest.fixture
def server(redis: RedisServer) -> Iterator[Server]:
    made = Server(redis.url)
    yield made
    made.close()


def elections(server: Server, timeout_ms: int = LONG_MS, clock: Clock | None = None) -> SharedElections:
    return SharedElections(server, timeout_ms, clock or SystemClock())


def test_two_processes_hear_the_same_replica(server: Server) -> None:
    one, other = elections(server), elections(server)
    assert one.hear("c", "a")
    assert not other.hear("c", "b")
    assert other.hear("c", "a")
    assert not one.hear("c", "b")
    assert one.hear("d", "b")


def test_another_replica_takes_over_when_the_elected_one_is_silent(server: Server) -> None:
    one = elections(server, SHORT_MS)
    assert one.hear("c", "a")
    poll_until(lambda: elections(server).hear("c", "b"), 30, "b is heard", every_s=0.02)
    poll_until(lambda: not one.hear("c", "a"), 30, "a is not", every_s=0.02)


def test_a_replica_that_goes_on_sending_keeps_its_place(server: Server) -> None:
    clock = ManualClock(1_000_000)
    one, other = elections(server, clock=clock), elections(server)
    for _ in range(3):
        assert one.hear("c", "a")
        server.ask("PEXPIRE", "elected:c", LONG_MS // 2)  # as if that time had passed
        clock.advance(LONG_MS // 2)
    assert one.hear("c", "a")
    assert server.ask("PTTL", "elected:c") > LONG_MS // 2
    assert not other.hear("c", "b")


def test_a_pairs_series_are_dropped_by_what_the_processes_agreed(server: Server) -> None:
    pairs = [ReplicaPairs(HaLabels("cluster", "replica"), elections(server)) for _ in range(2)]
    (a, b) = (own.split((("cluster", "c"), ("replica", name)))[1] for own, name in zip(pairs, "ab", strict=True))
    assert pairs[0].dropped([0, a]) == []
    assert pairs[1].dropped([0, b]) == [b]


def test_where_nobody_can_tell_the_sender_comes_again_and_nobody_leads() -> None:
    with redis_server() as redis:
        server = Server(redis.url)
        leader = Leader(server, "scrape", "p", 1000)
        assert leader.mine()
        redis.kill()
        assert not leader.mine()
        with pytest.raises(Rejected):
            elections(server).hear("c", "a")
        server.close()


def test_one_leads_and_renews_its_lease(server: Server) -> None:
    one, other = Leader(server, "scrape", "p", LONG_MS), Leader(server, "scrape", "q", LONG_MS)
    assert one.mine()
    server.ask("PEXPIRE", "leader:scrape", LONG_MS // 2)
    assert one.mine()
    assert server.ask("PTTL", "leader:scrape") > LONG_MS // 2
    assert not other.mine()
    assert Leader(server, "plan", "q", LONG_MS).mine()


def test_another_leads_when_the_lease_has_ended(server: Server) -> None:
    one, other = Leader(server, "scrape", "p", SHORT_MS), Leader(server, "scrape", "q", LONG_MS)
    assert one.mine()
    poll_until(other.mine, 30, "the lease has ended", every_s=0.02)
    assert not one.mine()
