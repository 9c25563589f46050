"""Two processes agree whom to hear and who leads; Redis lets the keys expire by its own clock.

# timeout 400 ms, asked again after 100
#   replica a   heard, then silent
#   replica b   dropped until a's place is free
"""

from collections.abc import Iterator

import pytest

from ingest.ha import HaLabels, ReplicaPairs
from precompute.clock import SystemClock
from precompute.cluster.elections import Leader, SharedElections
from precompute.cluster.server import Server
from precompute.errors import Rejected
from tests.running import poll_until
from tests.servers import RedisServer, redis_server

TIMEOUT_MS = 400


@pytest.fixture
def server(redis: RedisServer) -> Iterator[Server]:
    made = Server(redis.url)
    yield made
    made.close()


def elections(server: Server) -> SharedElections:
    return SharedElections(server, TIMEOUT_MS, SystemClock())


def test_two_processes_hear_the_same_replica(server: Server) -> None:
    one, other = elections(server), elections(server)
    assert one.hear("c", "a")
    assert not other.hear("c", "b")
    assert other.hear("c", "a")
    assert not one.hear("c", "b")
    assert one.hear("d", "b")


def test_another_replica_takes_over_when_the_elected_one_is_silent(server: Server) -> None:
    one, other = elections(server), elections(server)
    assert one.hear("c", "a")
    poll_until(lambda: other.hear("c", "b"), 10, "b is heard", every_s=0.02)
    poll_until(lambda: not one.hear("c", "a"), 10, "a is not", every_s=0.02)


def test_a_replica_that_goes_on_sending_keeps_its_place(server: Server) -> None:
    one, other = elections(server), elections(server)
    one.hear("c", "a")
    clock = SystemClock()
    until_s = clock.monotonic_s() + 1.5

    def is_over() -> bool:
        assert one.hear("c", "a")
        assert not other.hear("c", "b")
        return clock.monotonic_s() > until_s

    poll_until(is_over, 10, "three timeouts have passed", every_s=0.02)


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


def test_one_leads_until_its_lease_ends(server: Server) -> None:
    one, other = Leader(server, "scrape", "p", 300), Leader(server, "scrape", "q", 300)
    assert one.mine()
    assert one.mine()
    assert not other.mine()
    assert Leader(server, "plan", "q", 300).mine()
    poll_until(other.mine, 10, "the lease has ended", every_s=0.02)
    assert not one.mine()
