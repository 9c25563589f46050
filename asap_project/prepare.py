"""What must be there before the worker starts: the data folder and the database's tables."""

import sys
from pathlib import Path

from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

MIGRATING = 0x61736170
"""Number of the lock that whoever changes the tables holds."""
_MIGRATING_S = 86_400.0
"""A change of a large table says nothing until it is done."""


def prepare(folder: Path, may_be_away: bool = False) -> None:
    """Create the folder and bring the database up to date. Exits with 1 and a line where that fails.

    may_be_away: a database that cannot be used is only warned of; a role of a cluster can do without for a while.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _migrate()
    except OSError as error:
        _give_up(f"data_dir {folder}: {error.strerror}; choose another with --data-dir", error)
    except DatabaseError as error:
        line = f"the database cannot be used: {' '.join(str(error).split())}; see database.url and data_dir"
        if not may_be_away:
            _give_up(line, error)
        print(f"asap: warning: {line}", file=sys.stderr)
    finally:
        connection.close()  # the worker is forked next and must not share it


def _migrate() -> None:
    """Roles of a cluster may start at the same time; PostgreSQL keeps the lock until the connection is closed."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.connection.silent_s = _MIGRATING_S
            cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATING])
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)


def _give_up(line: str, cause: Exception) -> None:
    print(f"asap: {line}", file=sys.stderr)
    raise SystemExit(1) from cause
