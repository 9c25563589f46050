"""The commands a user types, run as a user runs them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from django.conf import settings

from asap_project.management.commands.options import as_markdown, as_text
from tests.running import ROOT

MANAGE = [sys.executable, str(ROOT / "manage.py")]
CELERY = [sys.executable, "-m", "celery", "-A", "asap_project"]


def run(command: list[str], folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    whole: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(command, cwd=folder, env=whole, capture_output=True, text=True, timeout=60, check=False)


def test_the_options_page_is_fresh() -> None:
    page = (ROOT / "docs" / "options.md").read_text("utf-8")
    assert page == as_markdown(settings.ASAP), "run `make docs`"


def test_the_metrics_page_is_fresh(tmp_path: Path) -> None:
    done = run([*MANAGE, "metrics"], tmp_path)
    assert done.stdout == (ROOT / "docs" / "metrics.md").read_text("utf-8"), "run `make docs`"


def test_options_prints_every_option_with_value_source_and_default() -> None:
    text = as_text(settings.ASAP)
    assert all(f"{item.option.key} = " in text for item in settings.ASAP.settings)


def test_options_says_where_a_value_was_set_and_masks_credentials(tmp_path: Path) -> None:
    url = "http://me:secret@upstream:9090"
    done = run([*MANAGE, "options", "--head.retention", "3h"], tmp_path, ASAP_QUERY_ENGINE_PROMETHEUS_SERVER=url)
    assert done.returncode == 0, done.stderr
    assert "head.retention = 3h  [flag --head.retention; default 2h]" in done.stdout
    assert "http://me:***@upstream:9090  [env ASAP_QUERY_ENGINE_PROMETHEUS_SERVER; " in done.stdout
    assert "secret" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--query-engine.http-port", "no"], "asap: query_engine.http_port = no (flag --query-engine.http-port): "),
        (["--query-engine.htp-port", "1"],
         "asap: --query-engine.htp-port: is no option; did you mean --query-engine.http-port?"),
        (["--dta-dir=x"], "asap: --dta-dir: is no option; did you mean --data-dir?"),
        (["--mode", "cluster"], "asap: redis.log_urls = [] (default): a cluster keeps its log in Redis; name a server"),
        (["--component", "ingest"], "asap: --component ingest: roles belong to a cluster; set mode: cluster"),
    ],
)  # fmt: skip
def test_a_wrong_start_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], line: str) -> None:
    done = run([*MANAGE, "runasap", *arguments], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_mode_cluster_and_eager_tasks_are_a_contradiction(tmp_path: Path) -> None:
    done = run([*MANAGE, "runasap", "--mode", "cluster"], tmp_path, CELERY_TASK_ALWAYS_EAGER="true")
    assert done.returncode == 2
    assert "mode = cluster" in done.stderr
    assert "CELERY_TASK_ALWAYS_EAGER='true'" in done.stderr


@pytest.mark.parametrize("role", ["worker", "beat"])
def test_celery_has_nothing_to_do_for_a_single_node(tmp_path: Path, role: str) -> None:
    done = run([*CELERY, role], tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("asap: mode = single-node: everything runs inside `python manage.py runasap`")
    assert done.stderr.count("\n") == 1


def test_a_data_dir_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run([*MANAGE, "runasap", "--data-dir", "file/data", "--query-engine.http-port", "1"], tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
