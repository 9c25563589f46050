"""Django's DATABASES entry for `database.url`."""

from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from asap_project.config import Config
from asap_project.config.derived import data_dir

SQLITE_FILE = "asap.sqlite3"

_LIMITS: dict[str, Any] = {
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
"""libpq's own: in s, and the last one in ms. What they do not see: postgresql/base.py."""

_BESIDE_QUERIES = 4
"""Connections beside those for queries: who looks for packs, and for the plan, who plans, who stores."""

_DJANGO_NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def database(config: Config) -> dict[str, Any]:
    """SQLite in data_dir, or PostgreSQL when a URL is set; libpq's own options in the URL go first."""
    if config.database.url:
        return _postgresql(config.database.url, config.query_engine.threads + _BESIDE_QUERIES)
    return _sqlite(data_dir(config) / SQLITE_FILE)


def _sqlite(path: Path) -> dict[str, Any]:
    """WAL lets readers run beside the writer; IMMEDIATE waits for the lock at the start, where waiting is possible.

    FULL syncs each commit: in WAL mode anything less lets a power cut take panes that `state.json` calls final.
    """
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
    }


def _postgresql(url: str, most_connections: int) -> dict[str, Any]:
    parts = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    return {
        "ENGINE": "asap_project.postgresql",
        **{django: str(parts.pop(name)) for name, django in _DJANGO_NAMES.items() if name in parts},
        "OPTIONS": {**_LIMITS, **parts},
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "MOST_CONNECTIONS": most_connections,
    }
