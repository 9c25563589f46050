"""Settings of hypothesis, and fixtures of the tests that start whole programs."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import running
from tests.servers import PostgreSQLServer, RedisServer, needs, postgresql_server, redis_server

# how long an example takes is the machine's matter, and a first one may compile kernels; CI judges a change, not a draw
settings.register_profile("asap", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("asap")


_FIRST = ("test_same_answers.py", "test_chaos.py")
"""They wait for minutes, beside which all others are done."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _FIRST)


@pytest.fixture
def asap_process(tmp_path: Path) -> Callable[..., AbstractContextManager[running.Program]]:
    """`with asap_process({…config…}) as asap:` runs the whole program in the test's folder.

    A second one in the same test is a restart on the same data; `folder="b"` makes it another node.
    """

    def start(
        config: Mapping[str, Any] | None = None, folder: str = "asap", env: Mapping[str, str] | None = None
    ) -> AbstractContextManager[running.Program]:
        return running.asap(tmp_path / folder, config, env)

    return start


@pytest.fixture(scope="session")
def prometheus_binary() -> str:
    """Path of a prometheus binary."""
    return needs("prometheus", "prometheus")


@pytest.fixture(scope="session")
def promtool_binary() -> str:
    """Path of a promtool binary."""
    return needs("promtool", "prometheus")


@pytest.fixture(scope="session")
def victoria_metrics_binary() -> str:
    """Path of a victoria-metrics binary."""
    return needs("victoria-metrics", "victoria-metrics")


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """One server for all tests that only need keys of their own; take `redis`.

    It leaves syncing to the kernel: each second, writes wait for a disk on which a sync takes more than two.
    """
    with redis_server("no") as server:
        yield server


@pytest.fixture
def redis(shared_redis: RedisServer) -> RedisServer:
    """An empty Redis. A test that stops one, or changes its settings, starts its own (tests/servers.py)."""
    shared_redis.cli("flushall")
    shared_redis.cli("script", "flush")
    return shared_redis


@pytest.fixture(scope="module")
def sqlite_alias(django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Django's name of an SQLite file with the core's tables."""
    from tests.precompute.stores import databases

    entry = databases.sqlite(tmp_path_factory.mktemp("store"))
    with django_db_blocker.unblock(), databases.migrated("of_tests_sqlite", entry) as alias:
        yield alias


@pytest.fixture(scope="module")
def postgresql_alias(django_db_blocker: Any) -> Iterator[str]:
    """The same in a PostgreSQL of a module's own."""
    from tests.precompute.stores import databases

    with (
        django_db_blocker.unblock(),
        databases.postgresql() as entry,
        databases.migrated("of_tests_postgresql", entry) as alias,
    ):
        yield alias


@pytest.fixture(scope="session")
def shared_postgresql() -> Iterator[PostgreSQLServer]:
    """One server for all tests that only need a database of their own; take `postgresql_url`."""
    with postgresql_server() as server:
        yield server


@pytest.fixture
def postgresql_url(shared_postgresql: PostgreSQLServer) -> Iterator[str]:
    """The URL of an empty database."""
    with shared_postgresql.database("of_a_test") as url:
        yield url
