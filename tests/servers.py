"""Redis and PostgreSQL of a test's own, which can be killed and come back with their data.

    with redis_server(appendfsync="always") as redis, postgresql_server() as database:
        redis.url          redis://127.0.0.1:21034/0
        redis.kill()       as a crash; redis.start() reads its append-only file again
        database.stop()    clients are thrown out; database.start()
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.bench.usage import tree
from tests.ports import free_port
from tests.running import poll_until

START_S = 30.0
POSTGRESQL_HOMES = Path("/usr/lib/postgresql")

Fsync = Literal["everysec", "always", "no"]


@dataclass
class Server:
    """A server's process, which can end and be started again on the same folder and port."""

    command: Sequence[str]
    ping: Sequence[str]
    """A command that prints `pong` once the server answers."""
    pong: str
    folder: Path
    account: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers; AssertionError with its log when it does not."""
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=self.folder, **self.account)
        poll_until(self._answers, START_S, f"{self.command[0]} answers; see {self.folder / 'log'}")

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.folder / "log").read_text()[-5000:]
        asked = subprocess.run(self.ping, capture_output=True, text=True, check=False)
        return self.pong in asked.stdout

    def end(self, by: signal.Signals) -> None:
        """Sends the signal and returns when the process is gone; nothing where none runs."""
        if self.process is not None:
            self.process.send_signal(by)
            self.process.wait(START_S)
            self.process = None

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.command[0]} does not run"
        return self.process.pid


@dataclass
class RedisServer:
    """One Redis with an append-only file, which refuses writes rather than forgets (noeviction)."""

    port: int
    server: Server

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        """As an operator does: the file is synced, then it ends."""
        self.server.end(signal.SIGTERM)

    def kill(self) -> None:
        """As a crash of the process: what was written to the file but not synced is still the kernel's."""
        self.server.end(signal.SIGKILL)

    def cli(self, *words: str) -> str:
        """What redis-cli prints for one command; AssertionError where it is an error."""
        command = [*_redis_cli(self.port), *words]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert asked.returncode == 0, f"{words}: {asked.stdout}{asked.stderr}"
        return asked.stdout.strip()


def _redis_cli(port: int) -> list[str]:
    return ["redis-cli", "-e", "-h", "127.0.0.1", "-p", str(port)]


@contextmanager
def redis_server(appendfsync: Fsync = "everysec", *settings: str) -> Iterator[RedisServer]:
    """A running, empty Redis; `settings` are further words of its command line."""
    needs("redis-server", "redis-server")
    needs("redis-cli", "redis-tools")
    port = free_port()
    with _folder("redis") as folder:
        command = [
            "redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "",
            "--appendonly", "yes", "--appendfsync", appendfsync, "--maxmemory-policy", "noeviction", *settings,
        ]  # fmt: skip
        redis = RedisServer(port, Server(command, [*_redis_cli(port), "ping"], "PONG", folder))
        redis.start()
        try:
            yield redis
        finally:
            redis.kill()


@contextmanager
def without_memory(redis: RedisServer) -> Iterator[None]:
    """It takes nothing that needs more memory."""
    redis.cli("config", "set", "maxmemory", "1")
    try:
        yield
    finally:
        redis.cli("config", "set", "maxmemory", "0")


@dataclass
class PostgreSQLServer:
    """One PostgreSQL, without fsync: its processes may be killed, the machine may not."""

    port: int
    home: Path
    server: Server

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://asap@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        """Clients' transactions are rolled back and their connections closed."""
        self.server.end(signal.SIGINT)

    def kill(self) -> None:
        """All its processes end at once, without a checkpoint, as after a crash."""
        self.server.end(signal.SIGQUIT)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It is silent: connections stay, and new ones are taken by the kernel, but nobody answers."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        for pid in tree(self.server.pid):
            with suppress(ProcessLookupError):  # of a client that has just gone
                os.kill(pid, which)

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """The URL of an empty database that is dropped at the end, whoever is still connected."""
        self._run("createdb", name)
        try:
            yield self.url(name)
        finally:
            self._run("dropdb", "--force", name)

    def _run(self, program: str, *words: str) -> None:
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "asap"]
        subprocess.run([self.home / program, *place, *words], check=True)


@contextmanager
def postgresql_server() -> Iterator[PostgreSQLServer]:
    """A running server with an empty database `postgres`."""
    home, account = _postgresql_home(), _postgresql_account()
    port = free_port()
    with _folder("postgresql") as folder:
        os.chown(folder, account["user"], account["group"])
        initdb = [home / "initdb", "-D", folder / "data", "-U", "asap", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder, **account)
        settings = [f"-c{s}" for s in ("fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}")]
        command = [str(home / "postgres"), "-D", str(folder / "data"), "-p", str(port), *settings]
        ping = [str(home / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-U", "asap"]
        server = PostgreSQLServer(port, home, Server(command, ping, "accepting connections", folder, account))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"asap-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def needs(program: str, package: str) -> str:
    """The program's path; skips, or fails under CI=1, where it is not installed."""
    path = shutil.which(program)
    return path or _missing(f"needs the program {program} (Debian package {package})")


def _missing(sentence: str) -> str:
    if os.environ.get("CI") == "1":
        pytest.fail(sentence)
    pytest.skip(sentence)


def _postgresql_home() -> Path:
    """Where the newest server's programs are."""
    homes = sorted(POSTGRESQL_HOMES.glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    return homes[-1].parent if homes else Path(_missing("needs a PostgreSQL server (Debian package postgresql)"))


def _postgresql_account() -> dict[str, int]:
    """Whom the server runs as: it refuses to be root."""
    if os.geteuid():
        return {"user": os.geteuid(), "group": os.getegid()}
    account = pwd.getpwnam("postgres")
    return {"user": account.pw_uid, "group": account.pw_gid}
