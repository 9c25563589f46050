"""What a Redis server answers means the same for plain commands and for scripts."""

import pytest

from precompute.cluster.scripts import PUBLISH
from precompute.cluster.server import Call, Server, ServerDown
from tests.ports import free_port
from tests.servers import redis_server


def test_a_server_that_has_become_a_replica_is_down_for_writes() -> None:
    with redis_server() as redis:
        redis.cli("replicaof", "127.0.0.1", str(free_port()))
        server = Server(redis.url)
        with pytest.raises(ServerDown, match="read only replica"):
            server.ask("SET", "x", "1")
        with pytest.raises(ServerDown, match="read only replica"):
            server.run(Call(PUBLISH, ("plan",), ("{}",)))
        assert server.ask("GET", "x") is None
        redis.cli("config", "set", "replica-serve-stale-data", "no")
        with pytest.raises(ServerDown, match="MASTER"):
            server.ask("GET", "x")
        server.close()


def test_a_server_that_lacks_replicas_is_down_for_writes_and_takes_them_again_later() -> None:
    with redis_server() as redis:
        server, call = Server(redis.url), Call(PUBLISH, ("plan",), ("{}",))
        redis.cli("config", "set", "min-replicas-to-write", "1")
        with pytest.raises(ServerDown, match="Not enough good replicas"):
            server.ask("SET", "x", "1")
        with pytest.raises(ServerDown, match="Not enough good replicas"):
            server.run(call)
        redis.cli("config", "set", "min-replicas-to-write", "0")
        assert server.run(call) > 0
        server.close()
