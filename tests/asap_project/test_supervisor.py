"""Starting, stopping and dying, with a stand-in for the core under the real supervisor."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from asap_project.supervisor import _Server
from tests.ports import free_port
from tests.running import ROOT, Answer, Program, connection, http, poll_until, port_is_free, program

STOPS_WITHIN_S = 30


@contextmanager
def standin(folder: Path, behaviour: str = "") -> Iterator[Program]:
    port = free_port()
    env = {"PYTHONPATH": str(ROOT), "STANDIN": behaviour}
    with program(command(port), f"http://127.0.0.1:{port}", folder, env=env) as running:
        yield running


def command(port: int, host: str = "127.0.0.1") -> list[str]:
    flags = ["--data-dir", "data", "--query-engine.http-port", str(port), "--query-engine.http-host", host]
    return [sys.executable, "-m", "tests.asap_project.standin", *flags]


def half_a_post(running: Program) -> "closing[socket.socket]":
    return connection(running, b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")


def worker_pid(running: Program) -> int:
    return int(running.get("/-/ready").body)


def is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}") and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_it_works(tmp_path: Path) -> None:
    with standin(tmp_path) as running:
        assert running.post("/api/v1/write", b"12345").body == b"5"
        assert running.stop() == 0
    said = [line for line in running.log().splitlines() if line.startswith("standin: ")]
    assert said == ["standin: refuses writes", "standin: committed and closed"]
    assert running.log().endswith("stopped\n")


def test_a_start_says_where_it_listens_what_it_keeps_and_what_to_try(tmp_path: Path) -> None:
    with standin(tmp_path) as running:
        log = running.log()
    assert f"ASAP listens on {running.url}\n" in log
    assert str(tmp_path / "data") in log
    assert f"curl -G {running.url}/api/v1/query -d query=up" in log


@pytest.mark.parametrize("sent", [b"", b"GET /-/ready HTTP/1.1\r\nHost"])
def test_sigterm_does_not_wait_for_idle_and_half_asked_connections(tmp_path: Path, sent: bytes) -> None:
    with standin(tmp_path) as running, connection(running, sent):
        assert running.stop(STOPS_WITHIN_S) == 0
    assert "standin: committed and closed" in running.log()


def test_sigterm_ends_in_time_although_requests_are_half_sent(tmp_path: Path) -> None:
    with standin(tmp_path, "slow-shutdown") as running, ExitStack() as open_requests:
        for _ in range(20):
            open_requests.enter_context(half_a_post(running))
        assert running.get("/-/ready").status == 200
        assert running.stop(STOPS_WITHIN_S) == 0
        assert port_is_free(running.url)
    log = running.log()
    assert log.index("standin: refuses writes") < log.index("standin: committed and closed")


def test_a_query_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    answers: list[Answer] = []
    with standin(tmp_path) as running:
        asking = threading.Thread(target=lambda: answers.append(http(f"{running.url}/slow?s=2")))
        asking.start()
        poll_until(lambda: "standin: slow" in running.log(), 30, "the query has arrived")
        assert running.stop(STOPS_WITHIN_S) == 0
        asking.join()
    assert [answer.body for answer in answers] == [b"done"]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_are_sigterm(tmp_path: Path, sign: signal.Signals) -> None:
    with standin(tmp_path) as running:
        running.process.send_signal(sign)
        assert running.process.wait(STOPS_WITHIN_S) == 0
    assert "standin: committed and closed" in running.log()


def test_a_signal_that_interrupts_whoever_waits_for_one_holds_nobody_up() -> None:
    server = _Server.__new__(_Server)
    interrupt = server.main_loop_interrupt = threading.Event()

    def interrupted() -> None:
        with interrupt._cond:  # type: ignore[attr-defined]
            server.signal_handler_interrupt()

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(STOPS_WITHIN_S)
    assert not thread.is_alive() and interrupt.wait(STOPS_WITHIN_S)


def test_many_signals_to_all_at_once_end_it_as_one_does(tmp_path: Path) -> None:
    with standin(tmp_path) as running:
        pids = running.process.pid, worker_pid(running)
        for pid in 20 * pids:
            os.kill(pid, signal.SIGTERM)
        assert running.process.wait(STOPS_WITHIN_S) == 0


def test_a_killed_supervisor_leaves_no_orphan(tmp_path: Path) -> None:
    with standin(tmp_path) as running, half_a_post(running):
        worker = worker_pid(running)
        running.kill()
        assert port_is_free(running.url)
        poll_until(lambda: not is_alive(worker), STOPS_WITHIN_S, "the worker has ended")


def test_a_crash_of_the_worker_ends_the_supervisor_with_a_sentence(tmp_path: Path) -> None:
    with standin(tmp_path) as running:
        with pytest.raises(OSError):  # noqa: PT011 - the connection breaks, in whatever way
            running.get("/crash")
        assert running.process.wait(STOPS_WITHIN_S) == 1
    assert "asap: the worker ended by itself with exit code 7; " in running.log()


def test_a_killed_worker_ends_the_supervisor_with_a_sentence(tmp_path: Path) -> None:
    with standin(tmp_path) as running:
        os.kill(worker_pid(running), signal.SIGKILL)
        assert running.process.wait(STOPS_WITHIN_S) == 1
    assert "asap: the worker was killed by signal 9; " in running.log()


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with standin(tmp_path) as running:
        done = start_once(urlsplit(running.url).port or 0, tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("asap: cannot listen on 127.0.0.1:")
    assert done.stderr.count("\n") == 1


def test_a_host_that_is_not_ours_is_one_line(tmp_path: Path) -> None:
    done = start_once(free_port(), tmp_path, host="203.0.113.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("asap: cannot listen on 203.0.113.1:")
    assert done.stderr.count("\n") == 1


def test_a_host_may_be_a_name(tmp_path: Path) -> None:
    port = free_port()
    env = {"PYTHONPATH": str(ROOT)}
    with program(command(port, "localhost"), f"http://localhost:{port}", tmp_path, env=env) as running:
        assert running.get("/-/ready").status == 200


def test_a_core_that_refuses_to_start_says_why_and_nothing_else(tmp_path: Path) -> None:
    done = start_once(free_port(), tmp_path, behaviour="refuse")
    assert done.returncode == 2
    assert done.stderr == "asap: engine.minibatch.shards is 16 here and was 8 at install\n"


def start_once(
    port: int, folder: Path, behaviour: str = "", host: str = "127.0.0.1"
) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "PYTHONPATH": str(ROOT), "STANDIN": behaviour}
    return subprocess.run(
        command(port, host), cwd=folder, env=env, capture_output=True, text=True, timeout=30, check=False
    )
