"""Where summaries are kept: SQLite in data_dir, or PostgreSQL by one key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.utils import ConnectionHandler, OperationalError

from asap_project.config import Config
from asap_project.database import database
from asap_project.postgresql import base
from tests.servers import PostgreSQLServer, postgresql_server


def pragma(connection: Any, name: str) -> Any:
    with connection.cursor() as cursor:
        return cursor.execute(f"PRAGMA {name}").fetchone()[0]


def test_sqlite_in_data_dir_lets_readers_run_beside_the_writer(tmp_path: Path, django_db_blocker: Any) -> None:
    connection = ConnectionHandler({"default": database(Config(data_dir=str(tmp_path)))})["default"]
    with django_db_blocker.unblock():
        assert pragma(connection, "journal_mode") == "wal"
        assert pragma(connection, "busy_timeout") == 20_000
        assert pragma(connection, "synchronous") == 2, "FULL: what was committed survives a power cut"
        connection.close()
    assert (tmp_path / "asap.sqlite3").is_file()


def test_a_url_is_postgresql_and_keeps_libpqs_own_options() -> None:
    url = "postgresql://me:pa%20ss@db:5433/asap?sslmode=require&connect_timeout=30"
    entry = database(Config(database={"url": url}))
    assert [entry[name] for name in ("USER", "PASSWORD", "HOST", "PORT", "NAME")] == [
        "me",
        "pa ss",
        "db",
        "5433",
        "asap",
    ]
    assert entry["OPTIONS"].items() >= {"sslmode": "require", "connect_timeout": "30", "tcp_user_timeout": 5000}.items()


@pytest.fixture
def served(django_db_blocker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PostgreSQLServer, Any]]:
    """A server of the test's own and a connection to it, which waits for three seconds where it would for five."""
    monkeypatch.setattr(base, "READ_S", 3.0)
    with django_db_blocker.unblock(), postgresql_server() as server:
        connection = ConnectionHandler({"default": database(Config(database={"url": server.url()}))})["default"]
        yield server, connection
        connection.close()


def answered(connection: Any, statement: str) -> list[Any]:
    connection.close_if_unusable_or_obsolete()
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()]


def test_a_silent_server_is_given_up_and_asked_again_when_it_is_back(served: tuple[PostgreSQLServer, Any]) -> None:
    server, connection = served
    assert answered(connection, "SELECT 1") == [1]
    with server.paused():
        for _ in range(2):  # by the connection that there is, and by a new one
            with pytest.raises(OperationalError):
                answered(connection, "SELECT 1")
    assert answered(connection, "SELECT 1") == [1]


def test_a_transaction_is_waited_for_longer_than_a_statement_alone(served: tuple[PostgreSQLServer, Any]) -> None:
    _, connection = served
    with pytest.raises(OperationalError, match="nothing was heard for 3 s"):
        answered(connection, "SELECT 1 FROM pg_sleep(30)")
    connection.close_if_unusable_or_obsolete()
    connection.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_sleep(4)")
    connection.rollback()
    connection.set_autocommit(True)


def test_a_long_answer_is_not_given_up_while_it_comes(served: tuple[PostgreSQLServer, Any]) -> None:
    _, connection = served
    rows = "SELECT k, pg_sleep(0.3), repeat('x', 20000) FROM generate_series(1, 14) AS k"
    assert answered(connection, rows) == [*range(1, 15)]
