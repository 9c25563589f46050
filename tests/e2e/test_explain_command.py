"""`manage.py explain` asks the running ASAP and prints what it is told."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.running import ROOT, Program, poll_until

Start = Callable[..., AbstractContextManager[Program]]
EXPLAIN = [sys.executable, str(ROOT / "manage.py"), "explain"]


def explained(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [*EXPLAIN, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_a_query_is_explained_as_a_tree_and_as_json(asap_process: Start, tmp_path: Path) -> None:
    with asap_process({"ingest": {"self_scrape": True}}) as asap:
        poll_until(lambda: asap.get("/api/v1/query", query="up").json()["data"]["result"], 30, "it scrapes itself")
        shown = explained(tmp_path, "sum(up) / count(up)", "--url", asap.url)
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.splitlines()[0] == "sum(up) / count(up)"
        assert "├─ sum(up)" in shown.stdout and "not from a summary: no aggregation is of up" in shown.stdout
        told = json.loads(explained(tmp_path, "up", "--url", asap.url, "--json").stdout)
        assert told["plan"]["served"] == [{"tier": "head", "steps": 1}]
        wrong = explained(tmp_path, "sum(", "--url", asap.url)
        assert wrong.returncode != 0 and "parse error" in wrong.stderr


def test_where_nobody_listens_the_remedy_is_named(tmp_path: Path) -> None:
    done = explained(tmp_path, "up", "--url", "http://127.0.0.1:9")
    assert done.returncode != 0
    assert "cannot be asked" in done.stderr and "make run" in done.stderr
