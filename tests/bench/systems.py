"""The systems that are measured: how each is started, written to and known to have caught up.

All keep their defaults except for limits that the queries here would pass, and caches of whole answers.
"""

import importlib.metadata
import platform
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from precompute.clock import SystemClock
from tests import running
from tests.bench.client import Client
from tests.bench.data import METRIC
from tests.bench.usage import SETTLE_S, wait_until_idle

LATENESS_MS = 15_000

ASAP_CONFIG: dict[str, Any] = {
    "engine": {"minibatch": {"window_size": "15s", "allowed_lateness": "15s", "acceptance_age": "4h"}},
    "head": {"retention": "5h", "max_bytes": "8GiB"},
    "log": {"max_bytes": "16GiB", "max_backlog": "16GiB"},
    "query_engine": {"timeout": "10m", "max_samples": 1_000_000_000, "cache_bytes": 0},
    "aggregations": [
        {"expr": METRIC, "by": ["pattern"], "accumulators": ["sum", "count", "min", "max", "quantile"]},
    ],
}

PROMETHEUS_FLAGS = (
    "--web.enable-remote-write-receiver", "--query.timeout=10m", "--query.max-samples=1000000000",
    "--storage.tsdb.retention.time=1d",
)  # fmt: skip

VICTORIA_METRICS_FLAGS = (
    "-retentionPeriod=1", "-search.latencyOffset=0s", "-search.disableCache", "-search.maxQueryDuration=10m",
    "-search.maxUniqueTimeseries=1000000",
)  # fmt: skip


class System(Protocol):
    """One system; `title` is its name in the report."""

    @property
    def title(self) -> str: ...

    @property
    def write_path(self) -> str: ...

    def missing(self) -> str:
        """What must be installed first; "" when it can run."""

    def version(self) -> str: ...

    def options(self) -> str:
        """What differs from its defaults, for the report."""

    def run(self, folder: Path) -> AbstractContextManager[running.Program]:
        """A context in which it runs, empty at first, with all that it writes below `folder`."""

    def settle(self, program: running.Program, client: Client) -> None:
        """Returns when nothing that was written waits to be worked on."""

    def tick_cpu_s(self, client: Client) -> float:
        """CPU seconds spent on summaries so far; 0 where there are none."""


@dataclass(frozen=True)
class Asap:
    """`changes` stand in place of parts of `ASAP_CONFIG`."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    title: str = "ASAP"
    write_path: str = "/api/v1/write"

    @property
    def config(self) -> dict[str, Any]:
        return {**ASAP_CONFIG, **self.changes}

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "granian"))
        project = tomllib.loads((running.ROOT / "pyproject.toml").read_text())["project"]
        return f"{project['version']} (Python {platform.python_version()}, {packages})"

    def options(self) -> str:
        parts = (f"{section}: {keys}" for section, keys in self.config.items())
        return "; ".join(parts).translate(str.maketrans("", "", "'{}"))

    @contextmanager
    def run(self, folder: Path) -> Iterator[running.Program]:
        with running.asap(folder, self.config) as program:
            yield program

    def settle(self, program: running.Program, client: Client) -> None:
        """A tick has ended after now, and no sealed pane waits."""
        now_s = SystemClock().now_ms() / 1000

        def caught_up() -> bool:
            return client.metric("asap_last_tick_seconds") > now_s and not client.metric("asap_panes_behind")

        running.poll_until(caught_up, SETTLE_S, "all panes are committed", every_s=0.5)

    def tick_cpu_s(self, client: Client) -> float:
        return client.metric("asap_tick_cpu_seconds_total")


@dataclass(frozen=True)
class _Peer:
    """A program of Debian's."""

    title: str
    binary: str
    flags: tuple[str, ...]
    write_path: str = "/api/v1/write"

    def missing(self) -> str:
        return "" if shutil.which(self.binary) else f"{self.title} (Debian package {self.binary})"

    def options(self) -> str:
        return " ".join(self.flags)

    def tick_cpu_s(self, client: Client) -> float:
        return 0.0

    def _version(self, flag: str) -> str:
        """The program's own word, else its package's: Debian's victoria-metrics says nothing."""
        package = ("dpkg-query", "--show", "--showformat=${Version}", self.binary)
        for command in ((self.binary, flag), package):
            if shutil.which(command[0]):
                said = subprocess.run(command, capture_output=True, text=True, check=False)
                if found := re.search(r"\d+\.\d+\.\d+[^\s,]*", said.stdout + said.stderr):
                    return found[0]
        return "of an unknown version"


class Prometheus(_Peer):
    def __init__(self) -> None:
        super().__init__("Prometheus", "prometheus", PROMETHEUS_FLAGS)

    def version(self) -> str:
        return self._version("--version")

    @contextmanager
    def run(self, folder: Path) -> Iterator[running.Program]:
        with running.prometheus(self.binary, folder, "global: {}\n", *self.flags) as program:
            yield program

    def settle(self, program: running.Program, client: Client) -> None:
        wait_until_idle(program.process.pid)


class VictoriaMetrics(_Peer):
    def __init__(self) -> None:
        super().__init__("VictoriaMetrics", "victoria-metrics", VICTORIA_METRICS_FLAGS)

    def version(self) -> str:
        return self._version("-version")

    @contextmanager
    def run(self, folder: Path) -> Iterator[running.Program]:
        with running.victoria_metrics(self.binary, folder, *self.flags) as program:
            yield program

    def settle(self, program: running.Program, client: Client) -> None:
        """What was written becomes visible to queries by a flush."""
        client.get("/internal/force_flush").checked()
        wait_until_idle(program.process.pid)


def systems(titles: Sequence[str]) -> list[System]:
    """The systems with these titles, in the order of the report."""
    every: list[System] = [Asap(), Prometheus(), VictoriaMetrics()]
    return [system for system in every if system.title in titles]
