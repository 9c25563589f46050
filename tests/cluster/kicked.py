"""Celery's two roles as processes, on a broker and a log server of their own, with shards of a few lines
(standin_worker.py)."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.ports import free_port
from tests.running import ROOT, Program, end, launched, poll_until
from tests.servers import RedisServer, redis_server

CELERY = ("-m", "celery", "-A", "asap_project")
NEIGHBOUR = """
import sys, django
django.setup()
from django.conf import settings
from asap_project.celery_roles import run_worker
cluster = settings.ASAP.config.cluster.model_copy(update={"worker_name": sys.argv[1]})
run_worker(settings.ASAP.config.model_copy(update={"cluster": cluster}))
"""
SHARDS, WINDOW_S = 4, 1
STARTED_S = 60.0


@dataclass
class Kicked:
    """What runs, and what ticks it has noted."""

    folder: Path
    broker: RedisServer
    log: RedisServer
    programs: list[Program] = field(default_factory=list)

    def worker(self, name: str, behaviour: str = "") -> Program:
        """`celery -A asap_project worker`, without any flag; returns when it has started."""
        program = self._run(name, [*CELERY, "worker"], {"STANDIN": behaviour, "ASAP_CLUSTER_WORKER_NAME": name})
        return self._started(program, name)

    def scheduler(self, name: str = "scheduler") -> Program:
        """`celery -A asap_project beat`; returns at once."""
        return self._run(name, [*CELERY, "beat"], {})

    def neighbour(self, name: str) -> Program:
        """A worker as one of several that a parent starts, with a config of its own; returns when it has started."""
        return self._started(self._run(name, ["-c", NEIGHBOUR, name], {}), name)

    def _started(self, worker: Program, name: str) -> Program:
        def started() -> bool:
            assert worker.process.poll() is None, f"ended with {worker.process.returncode}"
            return f"worker {name} is started" in worker.log()

        poll_until(started, STARTED_S, f"worker {name} has started")
        return worker

    def _run(self, name: str, words: Sequence[str], env: dict[str, str]) -> Program:
        port = free_port()
        env |= {
            "ASAP_CONFIG": str(self.folder / "config.yaml"),
            "ASAP_CLUSTER_HEALTH_PORT": str(port),
            "DJANGO_SETTINGS_MODULE": "tests.cluster.standin_worker",
            "PYTHONPATH": str(ROOT),
        }
        program = launched([sys.executable, *words], f"http://127.0.0.1:{port}", self.folder / name, env)
        self.programs.append(program)
        return program

    def ticks(self) -> Counter[tuple[str, int, str]]:
        """How often (worker, shard, outcome) was."""
        lines = self.log.cli("lrange", "ticks", "0", "-1").splitlines()
        return Counter((name, int(shard), outcome) for name, shard, outcome in map(str.split, lines))

    def by(self, name: str, outcome: str = "ticked") -> set[int]:
        """The shards that this worker has ticked with this outcome since `forget`."""
        return {shard for worker, shard, how in self.ticks() if (worker, how) == (name, outcome)}

    def forget(self) -> None:
        self.log.cli("del", "ticks")

    def await_ticks(self, name: str, shards: set[int], timeout_s: float = 30) -> None:
        """Until this worker has ticked these shards from now on, and within a few windows no others."""

        def ticks_them() -> bool:
            self.forget()
            poll_until(lambda: self.by(name) >= shards, timeout_s, f"{name} ticks {shards}")
            return self.by(name) == shards

        poll_until(ticks_them, timeout_s, f"{name} ticks {shards} alone")

    def holders(self) -> list[str]:
        """Who has the lease of each shard."""
        return [self.log.cli("hget", f"{{{shard}}}m", "holder") for shard in range(SHARDS)]


@contextmanager
def kicked(folder: Path) -> Iterator[Kicked]:
    """Servers and a config; processes are started by the test, and ended and shown by this."""
    with redis_server() as broker, redis_server() as log:
        whole = Kicked(folder, broker, log)
        config = {
            "mode": "cluster",
            "data_dir": str(folder / "data"),
            "redis": {"log_urls": [log.url], "broker_url": broker.url},
            "database": {"url": "postgresql://nobody@127.0.0.1:1/none"},
            "engine": {"minibatch": {"window_size": f"{WINDOW_S}s", "allowed_lateness": "0s", "shards": SHARDS}},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        try:
            yield whole
        except BaseException:
            for program in whole.programs:
                print(f"--- {program.folder.name}\n{program.log()[-8000:]}", file=sys.stderr)
            raise
        finally:
            for program in whole.programs:
                end(program.process)


@contextmanager
def paused(server: RedisServer) -> Iterator[None]:
    """It keeps its connections and answers nothing, as behind a broken network."""
    os.kill(server.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.server.pid, signal.SIGCONT)
