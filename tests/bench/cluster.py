"""`make bench-cluster`: what a cluster's roles cost, and how the work of summaries divides among workers.

For each shape of data, shards and workers: ingest fills an empty log while no worker runs and a query engine follows;
then workers, each kept on a core of its own, make all summaries of it. And how long after its seal a pane is served, by
one process and by a cluster.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from precompute.clock import SystemClock
from precompute.cluster.server import Server
from precompute.panes import last_end
from tests.bench import cluster_report, usage
from tests.bench.bodies import ONE, Encoder
from tests.bench.client import Client
from tests.bench.data import METRIC, STEP_MS, Dataset
from tests.bench.live import seconds_to_summary
from tests.bench.systems import LATENESS_MS
from tests.cluster.roles import Cluster, Counts, Ground, Role, cluster, ground
from tests.running import asap, merged, poll_until

WRITE = "/api/v1/write"
SUMMARISED_S = 1200.0
EVERY_S = 0.1
STEPS_OF_SCALE = {"small": ((11, 240),), "medium": ((11, 240), (24, 240)), "full": ((11, 240), (24, 240), (52, 20))}
"""Spread of the dataset (7 · spread³ series) and scrapes, of which it has no more than 240."""
ROUNDS = 3
SHARDS, MOST_SHARDS = 16, (1, 4, 16, 64)
SPARE_S = 1800
"""How much longer than the data is, samples are accepted."""
AGGREGATIONS: list[dict[str, Any]] = [
    {"expr": METRIC, "by": ["pattern"], "accumulators": ["sum", "count", "min", "max", "quantile"]},
    {"expr": f"rate({METRIC}[1m])", "by": ["region", "service"], "accumulators": ["sum", "count"]},
]


@dataclass(frozen=True)
class Shape:
    """What is measured on."""

    spread: int
    steps: int
    shards: int
    workers: int
    threads: int = 1
    """Of each worker; with several it is not kept on one core."""

    @property
    def series(self) -> int:
        return 7 * self.spread**3

    @property
    def samples(self) -> int:
        return self.series * self.steps

    def _batch(self) -> dict[str, int]:
        return {"shards": self.shards, "threads": self.threads}

    def config(self) -> dict[str, Any]:
        """Defaults, but for limits that the data would pass, and for how long samples are accepted."""
        accepted = f"{self.steps * STEP_MS // 1000 + SPARE_S}s"
        return {
            "engine": {"minibatch": {"acceptance_age": accepted, "max_reach": "10m", **self._batch()}},
            "head": {"retention": accepted, "max_bytes": "8GiB"},
            "log": {"max_bytes": "16GiB", "max_backlog": "16GiB"},
            "query_engine": {"cache_bytes": 0},
            "aggregations": AGGREGATIONS,
        }


@dataclass(frozen=True)
class Figures:
    """Of one shape; CPU is user + system of a role's processes, seconds.

    fill_*: while the log is filled. work_*: from the first lease to the last summary; `worker_cpu_s` by worker.
    """

    shape: Shape
    fill_s: float
    ingest_cpu_s: float
    fill_redis_cpu_s: float
    query_engine_cpu_s: float
    work_s: float
    worker_cpu_s: tuple[float, ...]
    work_redis_cpu_s: float

    @property
    def per_s(self) -> float:
        """Samples summarised per second of wall time."""
        return self.shape.samples / self.work_s

    def cost_us(self, cpu_s: float) -> float:
        """Microseconds of CPU per sample."""
        return 1e6 * cpu_s / self.shape.samples


@dataclass(frozen=True)
class Results:
    """Of a run; seconds from a pane's seal to its summary, of one process and of a cluster."""

    begun: str
    figures: tuple[Figures, ...]
    single_s: tuple[float, ...]
    cluster_s: tuple[float, ...]


def measured(shape: Shape, folder: Path) -> Figures:
    """One shape, from empty servers on."""
    config, data = shape.config(), Dataset(shape.spread, last_end(SystemClock().now_ms() - LATENESS_MS, STEP_MS))
    with ground("everysec") as below, cluster(folder, below, config, Counts(1, 1, 0, 0)) as written:
        before = _cpu(written.roles), _redis_cpu(below)
        fill_s = _filled(written.ingests[0], data, shape.steps)
        usage.wait_until_idle(written.query_engines[0].running.process.pid)
        ingest_cpu_s, follow_cpu_s = (after - b for after, b in zip(_cpu(written.roles), before[0], strict=True))
        fill_redis_cpu_s = _redis_cpu(below) - before[1]
        with cluster(folder, below, config, Counts(0, 0, 0, shape.workers)) as working:
            work_s, worker_cpu_s, redis_cpu_s = _worked(working, folder, config, data, shape)
    return Figures(
        shape, fill_s, ingest_cpu_s, fill_redis_cpu_s, follow_cpu_s, work_s, tuple(worker_cpu_s), redis_cpu_s
    )  # fmt: skip


def _cpu(roles: Sequence[Role]) -> list[float]:
    return [usage.cpu_s(role.running.process.pid) for role in roles]


def _redis_cpu(below: Ground) -> float:
    return sum(usage.cpu_s(log.server.pid) for log in below.logs)


def _filled(ingest: Role, data: Dataset, steps: int) -> float:
    """Seconds in which the last `steps` scrapes of the data were written, without the time to encode them."""
    encoder, clock, took_s = Encoder(data, ONE), SystemClock(), 0.0
    with Client(ingest.url) as client:
        for t_ms in data.times_ms[-steps:]:
            bodies = list(encoder.batch([t_ms]))
            begun_s = clock.monotonic_s()
            client.send(WRITE, bodies)
            took_s += clock.monotonic_s() - begun_s
    return took_s


def _worked(
    working: Cluster, folder: Path, config: dict[str, Any], data: Dataset, shape: Shape
) -> tuple[float, list[float], float]:
    """Seconds from the first lease to the last summary, each worker's CPU and Redis'."""
    clock, below = SystemClock(), working.ground
    for number, worker in enumerate(working.workers if shape.threads == 1 else ()):
        pin(worker.running.process.pid, number % usage.cores())
    before, redis_before = _cpu(working.workers), _redis_cpu(below)
    ends = {str(t_ms).encode() for t_ms in data.times_ms[-shape.steps :]}
    with closing(Server(below.logs[0].url)) as log, cluster(folder, below, config, Counts(0, 0, 1, 0)):
        poll_until(lambda: _has_worker(log, shape), SUMMARISED_S, "a worker takes a shard", EVERY_S)
        begun_s = clock.monotonic_s()
        poll_until(lambda: _has_all(log, shape, ends), SUMMARISED_S, "all summaries are there", EVERY_S)
        took_s = clock.monotonic_s() - begun_s
        cpu_s = [after - b for after, b in zip(_cpu(working.workers), before, strict=True)]
        return took_s, cpu_s, _redis_cpu(below) - redis_before


def pin(pid: int, core: int) -> None:
    """All threads of a process and of its children on one core, and those that they will start."""
    for process in usage.tree(pid):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), {core})


def _has_worker(log: Server, shape: Shape) -> bool:
    """Whether any shard is held."""
    return any(log.ask_all([("HGET", f"{{{shard}}}m", "holder") for shard in range(shape.shards)]))


def _has_all(log: Server, shape: Shape, ends: set[bytes]) -> bool:
    """Whether each shard has every pane with samples, of every aggregation."""
    kept = log.ask_all([("SMEMBERS", f"{{{shard}}}aggs") for shard in range(shape.shards)])
    if any(len(some) < len(AGGREGATIONS) for some in kept):
        return False
    panes = [f"{{{shard}}}i:{one.decode()}" for shard, some in enumerate(kept) for one in some]
    return all(ends <= set(found) for found in log.ask_all([("HKEYS", key) for key in panes]))


def _fresh(spread: int, folder: Path) -> tuple[list[float], list[float]]:
    """Seconds from seal to summary: of one process, and of a cluster of two workers."""
    config = merged(Shape(spread, 8, SHARDS, 2).config(), {"engine": {"minibatch": {"acceptance_age": "10m"}}})
    data = Dataset(spread, last_end(SystemClock().now_ms(), STEP_MS))
    with asap(folder / "single", config) as one:
        single_s = seconds_to_summary(WRITE, one.url, one.url, data)
    with ground("everysec") as below, cluster(folder / "cluster", below, config, Counts(1, 1, 1, 2)) as many:
        return single_s, seconds_to_summary(WRITE, many.ingests[0].url, many.query_engines[0].url, data)


def groups(scale: str) -> Iterator[tuple[Shape, ...]]:
    """What is measured in turn: one and two workers on each size, and on the smallest one of two threads, and one on
    each number of shards."""
    first, *others = STEPS_OF_SCALE[scale]
    yield Shape(*first, SHARDS, 1, threads=2), Shape(*first, SHARDS, 1), Shape(*first, SHARDS, 2)
    yield from ((Shape(*size, SHARDS, 1), Shape(*size, SHARDS, 2)) for size in others)
    yield tuple(Shape(*first, shards, 1) for shards in MOST_SHARDS if shards != SHARDS)


def in_turn(shapes: Sequence[Shape]) -> Iterator[Figures]:
    """Of each shape the run of median speed."""
    runs: dict[Shape, list[Figures]] = {shape: [] for shape in shapes}
    for round_ in range(ROUNDS):
        for shape in shapes:
            print(f"bench: round {round_ + 1} of {ROUNDS}, {shape}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                runs[shape].append(measured(shape, Path(folder)))
    return (sorted(some, key=lambda one: one.per_s)[ROUNDS // 2] for some in runs.values())


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=STEPS_OF_SCALE, default="small")
    given = parser.parse_args(arguments)
    begun = f"{datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC):%Y-%m-%d}"
    found = [figures for shapes in groups(given.scale) for figures in in_turn(shapes)]
    with tempfile.TemporaryDirectory() as folder:
        single_s, cluster_s = _fresh(STEPS_OF_SCALE[given.scale][0][0], Path(folder))
    text = cluster_report.page(Results(begun, tuple(found), tuple(single_s), tuple(cluster_s)))
    cluster_report.PATH.write_text(text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
