"""Databases for tests, as Django knows them: files of SQLite, and a PostgreSQL server of our own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connections

from asap_project.config import Config
from asap_project.database import database
from tests.servers import postgresql_server


@contextmanager
def migrated(alias: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """The alias of a database that Django knows until the end, with the core's tables in it."""
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: dict(entry)})[alias]
    try:
        call_command("migrate", "precompute", database=alias, verbosity=0)
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def sqlite(folder: Path) -> dict[str, Any]:
    """The entry that a config without a database URL gets."""
    return database(Config(data_dir=str(folder)))


@contextmanager
def postgresql() -> Iterator[dict[str, Any]]:
    """The entry of an empty database on a server that lives as long as this."""
    with postgresql_server() as server:
        yield database(Config(database={"url": server.url()}))
