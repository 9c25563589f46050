"""A whole cluster of processes in a folder: what it stands on, and its roles, each of which can end and come back.

    with ground("always") as below, cluster(folder, below, {…config…}, Counts(ingest=2, workers=3)) as whole:
        whole.ingests[0].url        a role is talked to like any program
        whole.workers[1].kill()     and started again with start(); pause() and resume() are SIGSTOP and SIGCONT
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.bench.usage import tree
from tests.ports import free_port
from tests.running import ROOT, STOP_S, Program, end, launched, merged, poll_until
from tests.servers import Fsync, PostgreSQLServer, RedisServer, postgresql_server, redis_server

READY_S = 120.0
"""How long all roles together may take: each loads its kernels, on cores that they share."""

INGEST, QUERY_ENGINE, SCHEDULER, WORKER = "ingest", "query-engine", "scheduler", "streaming-worker"
HTTP_ROLES = (INGEST, QUERY_ENGINE)


@dataclass(frozen=True)
class Ground:
    """What the roles stand on."""

    logs: tuple[RedisServer, ...]
    broker: RedisServer
    database: PostgreSQLServer

    def config(self) -> dict[str, Any]:
        """The part of the config that says where it is."""
        return {
            "redis": {"log_urls": [log.url for log in self.logs], "broker_url": self.broker.url},
            "database": {"url": self.database.url()},
        }


@contextmanager
def ground(*logs: Fsync) -> Iterator[Ground]:
    """Empty servers: a Redis for each part of the sample log, which syncs as told, one for Celery, and a PostgreSQL."""
    with ExitStack() as stack:
        yield Ground(
            tuple(stack.enter_context(redis_server(appendfsync)) for appendfsync in logs),
            stack.enter_context(redis_server()),
            stack.enter_context(postgresql_server()),
        )


@dataclass
class Role:
    """One process of a cluster, its children included."""

    name: str
    component: str
    command: tuple[str, ...]
    url: str
    folder: Path
    program: Program | None = field(default=None, repr=False)

    @property
    def running(self) -> Program:
        """To talk to. AssertionError where it was ended and not started again."""
        assert self.program is not None, f"{self.name} does not run"
        return self.program

    @property
    def log(self) -> str:
        """All that it has printed, in all its lives."""
        path = self.folder / "output.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Returns at once."""
        self.program = launched(self.command, self.url, self.folder)

    def is_ready(self) -> bool:
        """AssertionError where it has ended by itself."""
        return self.running.is_ready("/-/ready")

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        code = self.running.stop(STOP_S)
        self.program = None
        return code

    def kill(self) -> None:
        """All its processes end in the middle of whatever they do."""
        self._signal(signal.SIGKILL)
        self.running.process.wait(STOP_S)
        self.program = None

    def pause(self) -> None:
        """It stands still, with its connections open, and knows nothing of it."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, sent: signal.Signals) -> None:
        for pid in _family(self.running.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, sent)

    def end(self) -> None:
        """Stopped as gently as it lets itself be."""
        if self.program is not None:
            self.resume()
            end(self.program.process)
            self.program = None


def _family(pid: int) -> list[int]:
    """A process and its children; itself alone where some of these are just ending, as they do when it is gone."""
    try:
        return tree(pid)
    except (FileNotFoundError, ProcessLookupError):
        return [pid]


@dataclass(frozen=True)
class Counts:
    """How many of each."""

    ingest: int = 2
    query_engines: int = 2
    schedulers: int = 1
    workers: int = 3

    def named(self) -> Iterator[tuple[str, str]]:
        """(name, component) of each role."""
        counted = {
            SCHEDULER: self.schedulers, WORKER: self.workers, INGEST: self.ingest, QUERY_ENGINE: self.query_engines
        }  # fmt: skip
        return ((f"{component}-{k}", component) for component, n in counted.items() for k in range(n))


@dataclass(frozen=True)
class Cluster:
    """Everything that runs."""

    ground: Ground
    roles: tuple[Role, ...]

    def of(self, component: str) -> list[Role]:
        return [role for role in self.roles if role.component == component]

    @property
    def ingests(self) -> list[Role]:
        return self.of(INGEST)

    @property
    def query_engines(self) -> list[Role]:
        return self.of(QUERY_ENGINE)

    @property
    def workers(self) -> list[Role]:
        return self.of(WORKER)

    @property
    def schedulers(self) -> list[Role]:
        return self.of(SCHEDULER)

    def finals_ms(self, shards: int) -> list[int]:
        """Up to which pane end nothing changes any more, by shard."""
        return [int(self._of_shard(shard, "hget", f"{{{shard}}}m", "final")) for shard in range(shards)]

    def open_ends_ms(self, shards: int) -> set[int]:
        """Ends of panes that some shard still has, of any aggregation: they have not left for the database."""
        return {
            int(end)
            for shard in range(shards)
            for kept in self._of_shard(shard, "smembers", f"{{{shard}}}aggs").split()
            for end in self._of_shard(shard, "hkeys", f"{{{shard}}}i:{kept}").split()
        }

    def _of_shard(self, shard: int, *words: str) -> str:
        """What the Redis that has the shard says."""
        logs = self.ground.logs
        return logs[shard % len(logs)].cli(*words)

    def await_ready(self, timeout_s: float = READY_S) -> None:
        """AssertionError as soon as one of them has ended instead."""
        poll_until(lambda: not self._waiting(), timeout_s, "all roles are ready", every_s=0.2)

    def _waiting(self) -> list[str]:
        """Who is not ready; each is asked, so that one that has ended is noticed at once."""
        return [role.name for role in self.roles if not role.is_ready()]


@contextmanager
def cluster(folder: Path, below: Ground, config: Mapping[str, Any], counts: Counts = Counts()) -> Iterator[Cluster]:
    """All roles from one config file, ready; stopped at the end, their logs printed if the block fails."""
    path = config_file(folder, below, config)
    running = Cluster(below, tuple(_role(name, component, path, folder) for name, component in counts.named()))
    try:
        for role in running.roles:
            role.start()
        running.await_ready()
        yield running
    except BaseException:
        print_logs(running.roles)
        raise
    finally:
        for role in running.roles:
            role.end()


def config_file(folder: Path, below: Ground, config: Mapping[str, Any]) -> Path:
    """The file that all roles read; no planner that changes who answers, unless `config` says otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    base = {
        "mode": "cluster",
        "log": {"min_free_disk": 0},
        "ingest": {"self_scrape": False},
        "planner": {"enabled": False},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(merged(merged(base, below.config()), config)))
    return path


def _role(name: str, component: str, config: Path, folder: Path) -> Role:
    port, home = free_port(), folder / name
    port_flag = "--query-engine.http-port" if component in HTTP_ROLES else "--cluster.health-port"
    command = (
        sys.executable, str(ROOT / "manage.py"), "runasap", "--mode", "cluster", "--component", component,
        "--config", str(config), "--data-dir", str(home / "data"), port_flag, str(port),
    )  # fmt: skip
    return Role(name, component, command, f"http://127.0.0.1:{port}", home)


def print_logs(roles: Sequence[Role], characters: int = 6000) -> None:
    """The end of what each has printed."""
    for role in roles:
        print(f"--- {role.name}\n{role.log[-characters:]}", file=sys.stderr)
