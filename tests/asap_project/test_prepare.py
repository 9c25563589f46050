"""What is there before a role starts."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg

from asap_project.prepare import MIGRATING
from tests.running import ROOT, poll_until
from tests.servers import postgresql_server

PREPARE = """
import django, sys
from pathlib import Path
django.setup()
from asap_project.postgresql import base
base.READ_S = 1.0
from asap_project.prepare import prepare
prepare(Path(sys.argv[1]))
"""


def test_roles_that_start_at_the_same_time_make_the_tables_once(tmp_path: Path) -> None:
    with postgresql_server() as server:
        url = server.url()
        env = {
            **os.environ, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "asap_project.settings",
            "ASAP_DATABASE_URL": url,
        }  # fmt: skip
        command = [sys.executable, "-c", PREPARE, str(tmp_path / "data")]
        with psycopg.connect(url, autocommit=True) as held:
            held.execute("SELECT pg_advisory_lock(%s)", [MIGRATING])
            roles = [
                subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) for _ in range(4)
            ]
            poll_until(lambda: waiting(held) == 4, 60, "all have stood before the lock for long")
        errors = [role.communicate(timeout=60)[1] for role in roles]
    assert ([role.returncode for role in roles], errors) == ([0] * 4, [""] * 4)


def waiting(connection: "psycopg.Connection[tuple[int]]") -> int:
    """How many have waited for a lock for longer than a silent server is waited for."""
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event = 'advisory' AND clock_timestamp() - query_start > interval '2 s'"
    ).fetchone()
    assert row is not None
    return row[0]
