"""What is measured of one system: taking in an hour of samples, its size, and answering."""

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.bench.bodies import Bodies
from tests.bench.client import Client, Reply
from tests.bench.data import METRIC, STEP_MS, Dataset
from tests.bench.systems import System
from tests.bench.usage import cpu_s, memory_bytes
from tests.running import Program

QUERY = f"quantile by (pattern) (0.99, {METRIC})"
OFF_GRID_MS = 1

_WARM_UPS = 3
_FEWEST, _MOST = 5, 300
_LONGEST_S = 20.0

Points = dict[tuple[str, int], float]
"""An answer: (pattern, time in ms) to value."""


@dataclass(frozen=True)
class Phase:
    """A part of a load. CPU counts until the server has settled; wall time is that of the requests alone."""

    samples: int
    wall_s: float
    cpu_s: float
    tick_cpu_s: float
    """Spent on summaries; not part of `cpu_s`."""

    @property
    def per_cpu_s(self) -> float:
        return self.samples / max(self.cpu_s, 0.01)

    @property
    def per_wall_s(self) -> float:
        return self.samples / self.wall_s

    def __add__(self, other: "Phase") -> "Phase":
        return Phase(
            self.samples + other.samples, self.wall_s + other.wall_s, self.cpu_s + other.cpu_s,
            self.tick_cpu_s + other.tick_cpu_s,
        )  # fmt: skip


@dataclass(frozen=True)
class Size:
    """Bytes at one moment; `head` is ASAP's own account, labels included."""

    samples: int
    memory: int
    head: int


@dataclass(frozen=True)
class Load:
    """The hour, taken in: the first request of each series, and all later ones."""

    first: Phase
    rest: Phase
    empty: Size
    after_first: Size
    after_all: Size
    panes: int

    @property
    def whole(self) -> Phase:
        return self.first + self.rest


@dataclass(frozen=True)
class Timing:
    """One query, asked again and again."""

    tier: str
    took_s: tuple[float, ...]
    cpu_s: float
    """Per query, ticks left out."""
    points: Points = field(repr=False)

    @property
    def median_s(self) -> float:
        return float(np.median(self.took_s))

    @property
    def p99_s(self) -> float:
        return float(np.percentile(self.took_s, 99))


@dataclass(frozen=True)
class Asked:
    """One query of the report: where it goes, and the tier that must answer where there are tiers."""

    name: str
    path: str
    parameters: dict[str, str]
    tier: str

    @staticmethod
    def instant(at_ms: int, tier: str) -> "Asked":
        return Asked("instant", "/api/v1/query", {"query": QUERY, "time": _seconds(at_ms)}, tier)

    @staticmethod
    def range(start_ms: int, end_ms: int, tier: str) -> "Asked":
        span = {"start": _seconds(start_ms), "end": _seconds(end_ms), "step": _seconds(STEP_MS)}
        return Asked("range", "/api/v1/query_range", {"query": QUERY, **span}, tier)


def queries(data: Dataset, has_tiers: bool) -> list[Asked]:
    """Instant and range; with tiers, on the pane grid for summaries and just off it for the head."""
    first_ms, last_ms, off = data.times_ms[0], data.end_ms, OFF_GRID_MS
    on_grid = [Asked.instant(last_ms, "summary"), Asked.range(first_ms, last_ms, "summary")]
    off_grid = [Asked.instant(last_ms + off, "head"), Asked.range(first_ms + off, last_ms + off, "head")]
    return on_grid + (off_grid if has_tiers else [])


class Meter:
    """Measures a running server."""

    def __init__(self, system: System, program: Program, client: Client) -> None:
        self.system, self.program, self.client = system, program, client
        self.is_asap = system.title == "ASAP"

    def load(self, bodies: Bodies, data: Dataset) -> Load:
        """Write everything, in time order over one connection, as fast as it is taken."""
        batch = data.series * bodies.kind.samples_per_series
        empty = self.size(0)
        panes = self._panes()
        first = self._phase(bodies, 0, 1, batch)
        after_first = self.size(batch)
        rest = self._phase(bodies, 1, len(bodies.batches), data.samples - batch)
        return Load(first, rest, empty, after_first, self.size(data.samples), self._panes() - panes)

    def _phase(self, bodies: Bodies, first: int, last: int, samples: int) -> Phase:
        cpu, ticks = self._cpu()
        wall_s = self.client.send(self.system.write_path, bodies.read(first, last))
        self.system.settle(self.program, self.client)
        cpu_now, ticks_now = self._cpu()
        return Phase(samples, wall_s, cpu_now - cpu - (ticks_now - ticks), ticks_now - ticks)

    def ask(self, asked: Asked) -> Timing:
        """Ask one query until it is known well enough."""
        for _ in range(_WARM_UPS if self._ask(asked).took_s < 1 else 0):
            self._ask(asked)
        took_s: list[float] = []
        cpu, ticks = self._cpu()
        begun_s = time.perf_counter()
        while len(took_s) < _FEWEST or (len(took_s) < _MOST and time.perf_counter() - begun_s < _LONGEST_S):
            reply = self._ask(asked)
            took_s.append(reply.took_s)
        cpu_now, ticks_now = self._cpu()
        spent_s = cpu_now - cpu - (ticks_now - ticks)
        return Timing(asked.tier if self.is_asap else "", tuple(took_s), spent_s / len(took_s), _points(reply))

    def _ask(self, asked: Asked) -> Reply:
        reply = self.client.get(asked.path, **asked.parameters).checked()
        if self.is_asap:
            tier = {name.lower(): text for name, text in reply.headers.items()}.get("x-asap-tier")
            assert tier == asked.tier, f"the {asked.name} query was answered by {tier}, not by {asked.tier}"
        return reply

    def _cpu(self) -> tuple[float, float]:
        return cpu_s(self.program.process.pid), self.system.tick_cpu_s(self.client)

    def _panes(self) -> int:
        return int(self.client.metric("asap_panes_summarised_total")) if self.is_asap else 0

    def size(self, samples: int) -> Size:
        head = int(self.client.metric("asap_head_bytes")) if self.is_asap else 0
        return Size(samples, memory_bytes(self.program.process.pid), head)


def emptied(folder: Path) -> Path:
    """The folder, with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _points(reply: Reply) -> Points:
    points = {}
    for series in reply.json()["data"]["result"]:
        for t_s, text in series.get("values") or [series["value"]]:
            points[series["metric"]["pattern"], round(t_s * 1000)] = float(text)
    return points


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}"
