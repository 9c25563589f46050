"""`--demo.enabled true`: within a minute the line that the start prints is answered from summaries."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingest.sources.demo import PATTERNS
from tests.ports import free_port
from tests.running import ROOT, Program, poll_until, program

pytestmark = pytest.mark.e2e

WITHIN_S = 60.0


def test_summaries_serve_the_printed_query_within_a_minute(tmp_path: Path) -> None:
    port = free_port()
    flags = ["--demo.enabled", "true", "--query-engine.http-port", str(port), "--data-dir", str(tmp_path / "data")]
    command = [sys.executable, str(ROOT / "manage.py"), "runasap", *flags, "--log.min-free-disk", "0"]
    begun_s = time.monotonic()
    with program(command, f"http://127.0.0.1:{port}", tmp_path) as asap:
        left_s = WITHIN_S - (time.monotonic() - begun_s)
        body = poll_until(lambda: from_summaries(asap), left_s, "the printed query, from summaries", every_s=1)
    assert all(f'"pattern":"{pattern}"' in body for pattern in PATTERNS)


def from_summaries(asap: Program) -> str:
    """The answer to the printed command, once it holds values and comes from summaries alone; else ""."""
    printed = re.search(r"in a minute +(curl .*)", asap.log())
    assert printed is not None
    done = subprocess.run(["bash", "-c", f"{printed[1]} -sS -i"], capture_output=True, text=True, check=True)
    assert " 200 OK" in done.stdout, done.stdout
    return done.stdout if "x-asap-tier: summary\n" in done.stdout.lower() and '"pattern"' in done.stdout else ""
