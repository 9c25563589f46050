"""Databases for tests: files of SQLite, and a PostgreSQL server of our own."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

from asap_project.config import Config
from asap_project.database import database
from tests.running import free_port, poll_until

POSTGRESQL_HOMES = Path("/usr/lib/postgresql")
START_S = 30.0


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
    home, account = postgresql_home(), postgresql_account()
    folder = Path(tempfile.mkdtemp(prefix="asap-postgresql-"))
    os.chown(folder, account["user"], account["group"])
    port = free_port()
    try:
        initdb = [home / "initdb", "-D", folder / "data", "-U", "asap", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder, **account)
        settings = [f"-c{s}" for s in ("fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}")]
        command = [home / "postgres", "-D", folder / "data", "-p", str(port), *settings]
        with open(folder / "log", "wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **account)
        try:
            ready = [home / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "asap"]
            poll_until(lambda: subprocess.run(ready, check=False).returncode == 0, START_S, "PostgreSQL is ready")
            yield database(Config(database={"url": f"postgresql://asap@127.0.0.1:{port}/postgres"}))
        finally:
            server.terminate()
            server.wait(START_S)
    finally:
        shutil.rmtree(folder)


def postgresql_home() -> Path:
    """Where the newest server's programs are; skips, or fails under CI=1, when there is none."""
    homes = sorted(POSTGRESQL_HOMES.glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if homes:
        return homes[-1].parent
    sentence = "needs a PostgreSQL server (Debian package postgresql)"
    if os.environ.get("CI") == "1":
        pytest.fail(sentence)
    pytest.skip(sentence)


def postgresql_account() -> dict[str, int]:
    """Whom the server runs as: it refuses to be root."""
    if os.geteuid():
        return {"user": os.geteuid(), "group": os.getegid()}
    account = pwd.getpwnam("postgres")
    return {"user": account.pw_uid, "group": account.pw_gid}
