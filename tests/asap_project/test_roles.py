"""The roles of a cluster, alone and side by side, with stand-ins for what they do."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from asap_project.roles import roles_of, server_of
from asap_project.side_by_side import Pauses
from tests.ports import free_port, free_ports
from tests.running import ROOT, Program, http, poll_until, program
from tests.servers import postgresql_server

STOPS_WITHIN_S = 30
WORKERS = 2


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    with postgresql_server() as server:
        yield server.url()


def command(database_url: str, port: int, *flags: str) -> list[str]:
    cluster = {
        "mode": "cluster",
        "database.url": database_url,
        "redis.log-urls": '["redis://127.0.0.1:1/0"]',
        "redis.broker-url": "redis://127.0.0.1:1/1",
        "cluster.streaming-workers.replicas": str(WORKERS),
        "query-engine.http-port": str(port),
        "data-dir": "data",
    }
    words = [word for name, text in cluster.items() for word in (f"--{name}", text)]
    return [sys.executable, "-m", "tests.asap_project.standin", *words, *flags]


@contextmanager
def started(folder: Path, database_url: str, *flags: str, behaviour: str = "") -> Iterator[Program]:
    port = free_port()
    env = {"PYTHONPATH": str(ROOT), "STANDIN": behaviour}
    with program(command(database_url, port, *flags), f"http://127.0.0.1:{port}", folder, env=env) as running:
        yield running


@contextmanager
def side_by_side(folder: Path, database_url: str, behaviour: str = "") -> Iterator[tuple[Program, list[str]]]:
    """All roles, and the addresses of the workers' and the scheduler's health pages."""
    ports = free_ports(WORKERS + 1)
    flags = ("--cluster.health-port", str(ports[0]), "--cluster.worker-name", "w")
    with started(folder, database_url, *flags, behaviour=behaviour) as running:
        yield running, [f"http://127.0.0.1:{port}" for port in ports]


def pid(url: str) -> int:
    """Of the stand-in that answers there."""
    return int(poll_until(lambda: pid_or_none(url), 60, f"{url} answers"))


def pid_or_none(url: str) -> int | None:
    try:
        return int(http(f"{url}/-/ready", timeout_s=5).body)
    except OSError:
        return None


def is_alive(process: int) -> bool:
    return os.path.exists(f"/proc/{process}") and "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()


def test_it_works(tmp_path: Path, database_url: str) -> None:
    with side_by_side(tmp_path, database_url) as (asap, others):
        assert asap.post("/api/v1/write", b"12345").body == b"5"
        assert asap.get("/api/v1/query").status == 200
        assert len({pid(url) for url in [asap.url, *others]}) == WORKERS + 2
        assert asap.stop(STOPS_WITHIN_S) == 0
    log = asap.log()
    assert f"ASAP (ingest, query-engine) listens on {asap.url}\n" in log
    assert log.index("standin: committed and closed") < log.index("standin: worker w-1 ended")
    assert "standin: worker w-2 ended" in log
    assert "standin: scheduler" in log


@pytest.mark.parametrize(("asked", "lines"), [((), 0), (("--cluster.query-engine.replicas", "2"), 1)])
def test_side_by_side_says_that_it_starts_one_query_engine_where_more_are_asked_for(
    tmp_path: Path, database_url: str, asked: tuple[str, ...], lines: int
) -> None:
    flags = ("--cluster.health-port", "0", *asked)
    done = once(command(database_url, free_port(), *flags), tmp_path, STANDIN="refuse-worker")
    assert done.stderr.count("asap: warning: cluster.query_engine.replicas is ") == lines


@pytest.mark.parametrize("place", range(WORKERS + 1))
def test_a_killed_worker_or_scheduler_is_started_again(tmp_path: Path, database_url: str, place: int) -> None:
    with side_by_side(tmp_path, database_url) as (asap, others):
        first = pid(others[place])
        os.kill(first, signal.SIGKILL)
        poll_until(lambda: pid_or_none(others[place]) not in (None, first), 60, "another process answers")
        assert re.search(r"(worker \d|scheduler) was killed by signal 9; it is started again in 1 s", asap.log())
        assert asap.stop(STOPS_WITHIN_S) == 0


def test_a_killed_http_process_is_started_again_on_the_same_port(tmp_path: Path, database_url: str) -> None:
    with side_by_side(tmp_path, database_url) as (asap, _):
        first = pid(asap.url)
        os.kill(first, signal.SIGKILL)
        poll_until(lambda: pid_or_none(asap.url) not in (None, first), 60, "another process answers")
        assert "ingest and query-engine ended by itself with exit code 1; it is started again" in asap.log()
        assert asap.stop(STOPS_WITHIN_S) == 0


def test_a_killed_parent_leaves_no_orphan(tmp_path: Path, database_url: str) -> None:
    with side_by_side(tmp_path, database_url) as (asap, others):
        processes = [pid(url) for url in [asap.url, *others]]
        asap.kill()
        poll_until(lambda: not any(map(is_alive, processes)), STOPS_WITHIN_S, "all have ended")


def test_a_role_that_cannot_start_with_the_config_ends_all(tmp_path: Path, database_url: str) -> None:
    done = once(command(database_url, free_port(), "--cluster.health-port", "0"), tmp_path, STANDIN="refuse-worker")
    assert done.returncode == 2
    assert re.search(r"streaming-worker \d ended by itself with exit code 2; all are stopped", done.stderr)


def test_a_role_that_does_not_stop_is_killed(tmp_path: Path, database_url: str) -> None:
    with side_by_side(tmp_path, database_url, "deaf-worker") as (asap, others):
        assert pid(others[0])
        assert asap.stop(60) == 1
    assert "streaming-worker 1 did not stop within 11 s and is killed" in asap.log()


def test_ingest_alone_takes_samples_and_says_how_it_is(tmp_path: Path, database_url: str) -> None:
    with started(tmp_path, database_url, "--component", "ingest") as asap:
        assert asap.post("/api/v1/write", b"12345").body == b"5"
        pages = ("/-/healthy", "/-/ready", "/metrics", "/api/v1/status/config", "/api/v1/status/flags")
        assert [asap.get(page).status for page in pages] == [200] * 5
        assert asap.post("/metrics", b"").status == 405
        assert "mode: cluster" in asap.get("/api/v1/status/config").json()["data"]["yaml"]
        refused = asap.get("/api/v1/query", query="up")
        assert refused.status == 404
        assert refused.json()["error"].startswith("/api/v1/query is served by the role query-engine; ")
    assert "Grafana reads from" not in asap.log()


def test_a_query_engine_alone_takes_no_samples(tmp_path: Path, database_url: str) -> None:
    with started(tmp_path, database_url, "--component", "query-engine") as asap:
        assert asap.get("/api/v1/query").status == 200
        refused = asap.post("/api/v1/write", b"")
        assert (refused.status, refused.json()["errorType"]) == (404, "not_found")
        assert "served by the role ingest" in refused.json()["error"]
    assert "Prometheus writes to" not in asap.log()


@pytest.mark.parametrize(("role", "said"), [("streaming-worker", "worker"), ("scheduler", "scheduler")])
def test_a_role_without_an_api_runs_until_sigterm(tmp_path: Path, database_url: str, role: str, said: str) -> None:
    port = free_port()
    running = command(database_url, free_port(), "--component", role, "--cluster.health-port", str(port))
    env = {"PYTHONPATH": str(ROOT)}
    with program(running, f"http://127.0.0.1:{port}", tmp_path, "/-/healthy", env) as asap:
        assert asap.stop(STOPS_WITHIN_S) == 0
    assert f"standin: {said}" in asap.log()


@pytest.mark.parametrize(
    ("component", "line"),
    [
        ("worker", "worker is no role; the roles are ingest, query-engine, scheduler, streaming-worker"),
        ("ingest,", "an empty name is no role"),
        ("ingest,scheduler", "only ingest and query-engine share a process"),
    ],
)
def test_what_is_no_role_is_one_line(tmp_path: Path, component: str, line: str) -> None:
    done = once(command("postgresql://asap@127.0.0.1:1/asap", free_port(), "--component", component), tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"asap: --component {component}: {line}")
    assert done.stderr.count("\n") == 1


def test_one_process_may_have_both_apis() -> None:
    assert roles_of("query-engine,ingest") == {"ingest", "query-engine"}


def test_writes_are_ingests_and_all_else_is_the_query_engines() -> None:
    assert [server_of(path) for path in ("/api/v1/write", "/receive")] == ["ingest"] * 2
    assert [server_of(path) for path in ("/api/v1/query", "/", "/api/v1/writes")] == ["query-engine"] * 3


def test_pauses_grow_to_a_bound_and_begin_anew_after_a_long_life() -> None:
    pauses = Pauses()
    assert [pauses.after(0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [pauses.after(31), pauses.after(0)] == [1, 2]


def once(words: list[str], folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    whole: dict[str, Any] = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(words, cwd=folder, env=whole, capture_output=True, text=True, timeout=60, check=False)
