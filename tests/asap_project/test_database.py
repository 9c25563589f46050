"""Where summaries are kept: SQLite in data_dir, or PostgreSQL by one key."""

from pathlib import Path
from typing import Any

from django.db.utils import ConnectionHandler

from asap_project.config import Config
from asap_project.database import database


def pragma(connection: Any, name: str) -> Any:
    with connection.cursor() as cursor:
        return cursor.execute(f"PRAGMA {name}").fetchone()[0]


def test_sqlite_in_data_dir_lets_readers_run_beside_the_writer(tmp_path: Path, django_db_blocker: Any) -> None:
    connection = ConnectionHandler({"default": database(Config(data_dir=str(tmp_path)))})["default"]
    with django_db_blocker.unblock():
        assert pragma(connection, "journal_mode") == "wal"
        assert pragma(connection, "busy_timeout") == 20_000
        connection.close()
    assert (tmp_path / "asap.sqlite3").is_file()


def test_a_url_is_postgresql_and_keeps_libpqs_own_options() -> None:
    url = "postgresql://me:pa%20ss@db:5433/asap?sslmode=require"
    entry = database(Config(database={"url": url}))
    assert entry["ENGINE"] == "django.db.backends.postgresql"
    assert [entry[name] for name in ("USER", "PASSWORD", "HOST", "PORT", "NAME")] == [
        "me",
        "pa ss",
        "db",
        "5433",
        "asap",
    ]
    assert entry["OPTIONS"] == {"sslmode": "require"}
