"""Whole programs under test: start, wait until ready, talk to, stop, show the log when a test fails."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.ports import free_port, is_free

ROOT = Path(__file__).resolve().parent.parent
READY_S = 60.0
STOP_S = 15.0
SEED_OF_CI = 7


def drawn_seed() -> int:
    """Of a test's random data, printed. CI judges a change, not a draw: its seed is always the same."""
    seed = SEED_OF_CI if "CI" in os.environ else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return seed


def port_is_free(url: str) -> bool:
    """Whether a program could listen there now."""
    return is_free(urllib.parse.urlsplit(url).port or 0)


def poll_until(holds: Callable[[], Any], timeout_s: float, what: str, every_s: float = 0.05) -> Any:
    """The first true value of `holds()`; AssertionError naming `what` when the deadline passes."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := holds()):
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        threading.Event().wait(every_s)
    return value


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, of any status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def http(
    url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, timeout_s: float = 30,
    method: str | None = None,
) -> Answer:  # fmt: skip
    """GET, or POST when there is a body, unless `method` says otherwise; a status of 400 and above is an answer too.

    OSError where nobody answers.
    """
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            return Answer(reply.status, dict(reply.headers), reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


@dataclass(frozen=True)
class Program:
    """A program that was started in a folder of its own and serves HTTP."""

    url: str
    process: subprocess.Popen[bytes]
    log_path: Path
    folder: Path

    def get(self, path: str, **params: Any) -> Answer:
        """GET path with its query parameters; a list is repeated."""
        query = f"?{urllib.parse.urlencode(params, doseq=True)}" if params else ""
        return http(f"{self.url}{path}{query}")

    def post(self, path: str, body: bytes, **headers: str) -> Answer:
        """POST raw bytes; `content_type="…"` becomes the header Content-Type."""
        return http(f"{self.url}{path}", body, {name.replace("_", "-"): text for name, text in headers.items()})

    def log(self) -> str:
        """All that it has printed."""
        return self.log_path.read_text(errors="replace")

    def stop(self, timeout_s: float = STOP_S) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL, as a crash; returns when nobody listens any more."""
        self.process.kill()
        self.process.wait(STOP_S)
        poll_until(lambda: port_is_free(self.url), STOP_S, f"{self.url} is free")

    def is_ready(self, path: str) -> bool:
        """Whether `path` answers 200; AssertionError when the program has ended."""
        assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.log()}"
        try:
            return http(f"{self.url}{path}", timeout_s=5).status == 200
        except OSError:
            return False


def connection(running: Program, sent: bytes) -> "closing[socket.socket]":
    """A connection on which something was sent and which stays open."""
    address = urllib.parse.urlsplit(running.url)
    talking = socket.create_connection((str(address.hostname), address.port or 0))
    talking.sendall(sent)
    return closing(talking)


@contextmanager
def program(
    command: Sequence[str], url: str, folder: Path, ready: str = "/-/ready", env: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """A running program that has answered `ready` with 200; stopped at the end, its log printed if the block fails."""
    running = launched(command, url, folder, env)
    try:
        poll_until(lambda: running.is_ready(ready), READY_S, f"{command[0]} is ready")
        yield running
    except BaseException:
        print(f"--- {' '.join(command)}\n{running.log()[-20_000:]}", file=sys.stderr)
        raise
    finally:
        end(running.process)


def launched(command: Sequence[str], url: str, folder: Path, env: Mapping[str, str] | None = None) -> Program:
    """A program that has just been started, and that whoever asked for it ends; its output is added to the folder's."""
    folder.mkdir(parents=True, exist_ok=True)
    log_path = folder / "output.log"
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}
        )
    return Program(url, process, log_path, folder)


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL to one that does not heed it; returns when it is gone."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


def asap_config(folder: Path, config: Mapping[str, Any]) -> tuple[str, Path]:
    """Writes a config file for a test: data in `folder`, a free port, no own scrape, no planner that changes who
    answers, unless `config` says otherwise.

    Returns the base URL and the file's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    base = {
        "data_dir": str(folder / "data"),
        "log": {"min_free_disk": 0},
        "ingest": {"self_scrape": False},
        "planner": {"enabled": False},
        "query_engine": {"http_port": free_port()},
    }
    whole = merged(base, config)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(whole))
    scheme = "https" if "tls" in whole.get("security", {}) else "http"
    return f"{scheme}://127.0.0.1:{whole['query_engine']['http_port']}", path


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` in its place, section by section."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merged(out[key], value) if both else value
    return out


@contextmanager
def asap(
    folder: Path, config: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """`python manage.py runasap --config FILE` in `folder`, ready; twice in one folder is a restart."""
    url, path = asap_config(folder, config or {})
    command = [sys.executable, str(ROOT / "manage.py"), "runasap", "--config", str(path)]
    with program(command, url, folder, env=env) as running:
        yield running


@contextmanager
def prometheus(binary: str, folder: Path, config: str, *flags: str) -> Iterator[Program]:
    """A Prometheus with this config text; `__PORT__` in it stands for its own port."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(config.replace("__PORT__", str(port)))
    command = [
        binary,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    with program(command, f"http://127.0.0.1:{port}", folder) as running:
        yield running


@contextmanager
def victoria_metrics(binary: str, folder: Path, *flags: str) -> Iterator[Program]:
    """A VictoriaMetrics with its data in `folder`."""
    port = free_port()
    command = [binary, f"-storageDataPath={folder / 'vm'}", f"-httpListenAddr=127.0.0.1:{port}", *flags]
    with program(command, f"http://127.0.0.1:{port}", folder, ready="/health") as running:
        yield running
