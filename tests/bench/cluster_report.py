"""docs/benchmarks-cluster.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import usage

if TYPE_CHECKING:
    from tests.bench.cluster import Figures, Results, Shape

PATH = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-cluster.md"
TARGET = 1.7
"""Two workers to one."""

_INTRODUCTION = """# A cluster, measured

Written by `make bench-cluster` (`tests/bench/cluster.py`); not edited by hand. All roles and one Redis for the log
(append-only file, synced each second) on one machine, over loopback.

    make bench-cluster                  # 9,000 series
    make bench-cluster SCALE=medium     # and 97,000
    make bench-cluster SCALE=full       # and 984,000

- First ingest fills the log, one sample of 5,000 series a request, while no worker runs and a query engine follows the
  log. Then workers start, each kept on a core of its own, and make every summary: quantiles, sums and extremes by
  pattern, and sums of rates by region and service. Their time is from the first lease to the last summary.
- CPU is user + system of all of a role's processes; Redis' stands apart. It shares the workers' cores where there are
  no others, and so does the one client.
- Summaries are complete when every shard has committed every pane with samples.
- What stands side by side is measured in turn, three times; a row is of the run of median speed.
"""


_THREADS = """## Threads beside processes

The same shards in one process of two threads, and in two of one thread each: a preforked pool would be the latter, each
child with heads of its own and shards placed by child.
"""


def page(results: Results) -> str:
    """The whole page."""
    machine = f"{usage.cpu_model()}, {usage.cores()} cores, {usage.memory_gib():.0f} GiB of memory"
    parts = [_INTRODUCTION, f"{results.begun}; {machine}.\n", *_workers(results), *_threads(results)]
    return "\n".join([*parts, *_costs(results), *_shards(results), *_freshness(results)])


def _workers(results: Results) -> Iterator[str]:
    yield f"## Two workers beside one\n\nThe target is {TARGET} times as many samples per second.\n"
    rows = [
        [f"{one.shape.series:,}", f"{one.shape.samples:,}", f"{one.per_s:,.0f}", f"{two.per_s:,.0f}",
         f"{two.per_s / one.per_s:.2f}", _share(one), _share(two)]
        for one, two in _pairs(results.figures)
    ]  # fmt: skip
    yield _table(
        ["series", "samples", "samples per second, one worker", "two workers", "ratio",
         "Redis beside one, cores", "beside two"], rows,
    )  # fmt: skip


def _threads(results: Results) -> Iterator[str]:
    yield _THREADS
    smallest = min(one.shape.series for one in results.figures)
    chosen = [one for one in results.figures if one.shape.series == smallest and one.shape.shards == _most(results)]
    rows = [
        [str(one.shape.workers), str(one.shape.threads), f"{one.per_s:,.0f}",
         f"{one.cost_us(sum(one.worker_cpu_s)):.3f}"]
        for one in sorted(chosen, key=lambda one: (one.shape.workers, one.shape.threads))
    ]  # fmt: skip
    yield _table(["processes", "threads of each", "samples per second", "microseconds of CPU a sample"], rows)


def _pairs(figures: Sequence[Figures]) -> Iterator[tuple[Figures, Figures]]:
    """One and two workers on the same data and shards."""
    by_shape: dict[Shape, Figures] = {one.shape: one for one in figures}
    for shape, two in by_shape.items():
        one = next((f for s, f in by_shape.items() if s.workers == s.threads == 1 and _same_data(s, shape)), None)
        if shape.workers == 2 and one is not None:
            yield one, two


def _same_data(a: Shape, b: Shape) -> bool:
    return (a.spread, a.steps, a.shards) == (b.spread, b.steps, b.shards)


def _share(one: Figures) -> str:
    return f"{one.work_redis_cpu_s / one.work_s:.2f}"


def _costs(results: Results) -> Iterator[str]:
    yield "## What a sample costs\n\nMicroseconds of CPU, with one worker.\n"
    yield _cost_table([one for one in _ones(results) if one.shape.shards == _most(results)])


def _ones(results: Results) -> list[Figures]:
    """Those of one worker of one thread."""
    return [one for one in results.figures if one.shape.workers == one.shape.threads == 1]


def _most(results: Results) -> int:
    """The shards with which all sizes were measured: those of two workers."""
    return next(one.shape.shards for one in results.figures if one.shape.workers == 2)


def _shards(results: Results) -> Iterator[str]:
    smallest = min(one.shape.series for one in results.figures)
    chosen = [one for one in _ones(results) if one.shape.series == smallest]
    yield "## By number of shards\n\nMicroseconds of CPU for each sample, with one worker.\n"
    yield _cost_table(sorted(chosen, key=lambda one: one.shape.shards))


def _cost_table(chosen: Sequence[Figures]) -> str:
    rows = [
        [f"{one.shape.series:,}", str(one.shape.shards), f"{one.shape.samples / one.fill_s:,.0f}",
         *(f"{one.cost_us(cpu_s):.3f}" for cpu_s in (
             one.ingest_cpu_s, one.fill_redis_cpu_s, one.query_engine_cpu_s, sum(one.worker_cpu_s),
             one.work_redis_cpu_s))]
        for one in chosen
    ]  # fmt: skip
    return _table(
        ["series", "shards", "samples written per second", "ingest", "Redis, written to", "query engine, following",
         "worker", "Redis, read from"], rows,
    )  # fmt: skip


def _freshness(results: Results) -> Iterator[str]:
    yield "## From seal to summary\n\nSeconds until a query at a sealed pane's end is served from its summary, live.\n"
    rows = [
        [title, ", ".join(f"{wait:.2f}" for wait in waits)]
        for title, waits in (("one process", results.single_s), ("cluster", results.cluster_s))
    ]
    yield _table(["", "pane by pane"], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (header, ["---"] * len(header), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
