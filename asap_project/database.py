"""Django's DATABASES entry for `database.url`."""

from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from asap_project.config import Config
from asap_project.config.derived import data_dir

SQLITE_FILE = "asap.sqlite3"

_DJANGO_NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def database(config: Config) -> dict[str, Any]:
    """SQLite in data_dir, or PostgreSQL when a URL is set; libpq's own options in the URL are kept."""
    return _postgresql(config.database.url) if config.database.url else _sqlite(data_dir(config) / SQLITE_FILE)


def _sqlite(path: Path) -> dict[str, Any]:
    """WAL lets readers run beside the writer; IMMEDIATE waits for the lock at the start, where waiting is possible."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def _postgresql(url: str) -> dict[str, Any]:
    parts = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    return {
        "ENGINE": "django.db.backends.postgresql",
        **{django: str(parts.pop(name)) for name, django in _DJANGO_NAMES.items() if name in parts},
        "OPTIONS": parts,
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
    }
