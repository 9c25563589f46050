"""The servers that tests stand on come back with their data, on the same port."""

import subprocess

import pytest

from tests.servers import Fsync, PostgreSQLServer, RedisServer, postgresql_server, redis_server


@pytest.mark.parametrize("appendfsync", ["everysec", "always"])
def test_a_killed_redis_comes_back_with_its_data(appendfsync: Fsync) -> None:
    with redis_server(appendfsync) as server:
        url = server.url
        server.cli("xadd", "s", "1-0", "b", "x")
        server.kill()
        server.start()
        assert server.url == url
        assert server.cli("xlen", "s") == "1"


def test_an_error_of_redis_is_not_taken_for_an_answer(redis: RedisServer) -> None:
    with pytest.raises(AssertionError, match="WRONGTYPE"):
        redis.cli("set", "s", "1")
        redis.cli("xlen", "s")


@pytest.mark.parametrize("key", ["a", "b"])
def test_each_test_gets_an_empty_redis(redis: RedisServer, key: str) -> None:
    assert redis.cli("dbsize") == "0"
    redis.cli("set", key, "1")


def said(server: PostgreSQLServer, url: str, sql: str) -> str:
    command = [server.home / "psql", "-qtA", "-d", url, "-c", sql]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_postgresql_comes_back_with_its_data(end: str) -> None:
    with postgresql_server() as server:
        said(server, server.url(), "create table t as select 7 as x")
        getattr(server, end)()
        server.start()
        assert said(server, server.url(), "select x from t") == "7"


@pytest.mark.parametrize("value", [1, 2])
def test_each_test_gets_an_empty_database(shared_postgresql: PostgreSQLServer, postgresql_url: str, value: int) -> None:
    said(shared_postgresql, postgresql_url, f"create table t as select {value} as x")
