"""`make bench-plan`: what 200 aggregations over 100,000 series cost, 20 of them joins: CPU for each pane, and bytes.

A whole node in this process, on a log on disk: a scrape of all series, then a tick, again and again. The CPU is that of
all threads of the process while ticks run, and beside it while samples come in.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import ManualClock, SystemClock
from precompute.node import Node, NodeSettings
from precompute.samples import Block
from precompute.sinks import DirectSink
from precompute.stores.memory import MemoryStore
from query.promql.parse import parse
from tests.bench import usage

PATH = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-plan.md"
WIDTH_MS, LATENESS_MS, HOUR_MS = 15_000, 15_000, 3_600_000
METRICS = 19
"""Of samples; one more tells which node a pod is on."""
_GIB = 1 << 30
_HISTORY = 24
"""Scrapes of the history."""

INTRODUCTION = """# What is kept, measured

Written by `make bench-plan` (`tests/bench/plan.py`); not edited by hand. A node in one process, its log on disk, panes
of 15 s: one scrape of all series, one tick, again and again, after a first tick that fills the history.

- {aggregations} aggregations over {series:,} series of {metrics} metrics, {joins} of them joins. All keep sums and
  counts, one in seven quantiles too. Most metrics have nine: the rates over 1 m, 2 m and 5 m, or the metric itself,
  what of it is above 0 and its largest values in a minute; each by job, by job and namespace, and by job, namespace
  and node. Then come the joins, which add what the pods' nodes are.
- CPU is user + system of the whole process while a tick runs; the share is of one core, at a tick each 15 s.
- Bytes are those of all summaries of one pane.
- A family is `rate(m[$__rate_interval])` at three zooms, of half of the metrics: 1 m at each pane, 75 s at each minute,
  315 s at each five minutes. Its cost is that of {period} panes, beside that of the first range alone.
"""
FAMILY = (("1m", 15_000), ("75s", 60_000), ("315s", 300_000))
"""Range and width."""
_PERIOD = 20
"""Panes in which each of the family is due as often as it is."""


@dataclass(frozen=True)
class Figures:
    """Of one run; seconds are CPU."""

    series: int
    aggregations: int
    joins: int
    panes: int
    tick_s: Sequence[float]
    write_s: Sequence[float]
    bytes_per_pane: float
    groups: int
    finest_s: float
    family_s: float


def family(members: int) -> list[Aggregation]:
    """So many ranges of each second metric, the finest first."""
    return [
        _aggregation(f"rate(m{k}[{span}])", ("job", "namespace"), ("sum", "count"), width_ms)
        for k in range(0, METRICS, 2) for span, width_ms in FAMILY[:members]
    ]  # fmt: skip


def aggregations() -> Iterator[Aggregation]:
    """Ten for each metric but one, which has eleven, one of them a join; and nine over the pods' nodes."""
    for k in range(METRICS):
        for expr in _expressions(k):
            for labels in (("job",), ("job", "namespace"), ("job", "namespace", "node")):
                quantile = ("quantile",) if labels == ("job",) and k % 2 else ()
                yield _aggregation(expr, labels, ("sum", "count", *quantile))
        yield _join(f"m{k}" if k % 2 else f"rate(m{k}[1m])", ("role",))
    yield _join("m1", ("role", "job"))
    for labels in _NODE_LABELS:
        yield _aggregation("on_node", labels, ("sum", "count"))


_NODE_LABELS = (
    (), ("job",), ("namespace",), ("node",), ("role",), ("job", "namespace"), ("job", "role"), ("job", "node"),
    ("node", "role"),
)  # fmt: skip


def _expressions(k: int) -> tuple[str, str, str]:
    name = f"m{k}"
    if k % 2:
        return name, f"{name} > 0", f"max_over_time({name}[1m])"
    return f"rate({name}[1m])", f"rate({name}[2m])", f"rate({name}[5m])"


def _join(expr: str, labels: tuple[str, ...]) -> Aggregation:
    return _aggregation(f"{expr} * on (pod) group_left (role) on_node", labels, ("sum", "count"))


def _aggregation(
    expr: str, labels: tuple[str, ...], accumulators: tuple[str, ...], width_ms: int = WIDTH_MS
) -> Aggregation:
    return Aggregation(parse(expr), tuple(sorted(labels)), False, accumulators, width_ms, 300_000, 24 * HOUR_MS)


class Bench:
    """A node and its series."""

    def __init__(self, folder: Path, pods: int, kept: Sequence[Aggregation]) -> None:
        self.clock = ManualClock(1_764_500_010_000)
        self.store, self.kept = MemoryStore(), kept
        self.node = Node(_settings(folder), self.store, self.kept, self.clock)
        self.node.start()
        assert self.node.wait_until_rebuilt(), self.node.why_not_ready()
        table = self.node.head.table
        names = [*(f"m{k}" for k in range(METRICS)), "on_node"]
        self.sids = np.array([table.intern(_labels(name, pod)) for name in names for pod in range(pods)], np.int32)
        self.growth = np.random.default_rng(1).random(len(self.sids)) * 20

    def scrape(self, number: int) -> None:
        """A sample of each series, and the time to the next one."""
        values = self.growth * (number + 1)
        values[-(len(values) // (METRICS + 1)) :] = 1.0
        t_ms = np.full(len(self.sids), self.clock.now_ms(), np.int64)
        admitted = self.node.intake.write(Block(self.sids, t_ms, values), self.node.head.table)
        assert admitted.accepted == len(self.sids), admitted
        self.clock.advance(WIDTH_MS)
        self.node.intake.heartbeat()

    def tick(self) -> None:
        self.node.engine.run(DirectSink(self.store))

    def bytes(self) -> int:
        return sum(self.store.size_bytes(one.id) for one in self.kept)

    def committed(self) -> int:
        return self.node.engine.committed


def _labels(name: str, pod: int) -> tuple[tuple[str, str], ...]:
    more = {"role": f"r{pod % 4}"} if name == "on_node" else {}
    labels = {
        "__name__": name, "pod": f"pod-{pod}", "job": f"job{pod % 10}", "namespace": f"ns{pod % 20}",
        "node": f"node{pod % 50}", **more,
    }  # fmt: skip
    return tuple(sorted(labels.items()))


def _settings(folder: Path) -> NodeSettings:
    return NodeSettings(
        data_dir=folder, window_ms=WIDTH_MS, lateness_ms=LATENESS_MS, acceptance_ms=HOUR_MS, max_reach_ms=HOUR_MS,
        kept_ms=HOUR_MS, max_future_ms=60_000, hash_seed=0, shards=16, engine_threads=1, query_threads=1,
        head_max_bytes=8 * _GIB, log_max_bytes=8 * _GIB, max_backlog_bytes=8 * _GIB, min_free_disk_bytes=0,
        fsync_ms=1000, has_upstream=False,
    )  # fmt: skip


def filled(folder: Path, series: int, kept: Sequence[Aggregation]) -> Bench:
    """With a history of six minutes."""
    bench = Bench(folder, series // (METRICS + 1), kept)
    for number in range(_HISTORY):
        bench.scrape(number)
    while bench.node.engine.health().completed_ms is None or bench.node.engine.health().behind_panes:
        bench.tick()
    return bench


def measured(folder: Path, series: int, panes: int) -> Figures:
    """A history, then so many panes."""
    bench = filled(folder / "all", series, list(aggregations()))
    held, ticks, writes, before = bench.bytes(), list[float](), list[float](), bench.committed()
    for number in range(_HISTORY, _HISTORY + panes):
        writes.append(_cpu(partial(bench.scrape, number)))
        ticks.append(_cpu(bench.tick))
    assert bench.committed() - before == panes * len(bench.kept), "every tick makes one pane of each"
    joins = sum("group_left" in str(one.expr) for one in bench.kept)
    last_ms = bench.node.engine.sealed_ms() - WIDTH_MS
    newest = [bench.store.get(one.id, last_ms, bench.clock.now_ms()) for one in bench.kept]
    groups = sum(summary.rows for summary in newest)
    size = (bench.bytes() - held) / panes
    bench.node.shutdown()
    of_family = [period_s(folder / str(members), series, family(members)) for members in (1, len(FAMILY))]
    return Figures(len(bench.sids), len(bench.kept), joins, panes, ticks, writes, size, groups, *of_family)


def period_s(folder: Path, series: int, kept: Sequence[Aggregation]) -> float:
    """CPU-seconds of the ticks of a period; the least of three."""
    bench, found = filled(folder, series, kept), list[float]()
    for period in range(3):
        found.append(0.0)
        for number in range(_PERIOD):
            bench.scrape(_HISTORY + period * _PERIOD + number)
            found[-1] += _cpu(bench.tick)
    bench.node.shutdown()
    return min(found)


def _cpu(act: Callable[[], None]) -> float:
    began_s = time.process_time()
    act()
    return time.process_time() - began_s


def page(found: Figures) -> str:
    """docs/benchmarks-plan.md."""
    machine = f"{usage.cpu_model()}, {usage.cores()} cores, {usage.memory_gib():.0f} GiB of memory"
    tick_s, write_s = float(np.median(found.tick_s)), float(np.median(found.write_s))
    head = INTRODUCTION.format(
        aggregations=found.aggregations, series=found.series, metrics=METRICS + 1, joins=found.joins,
        period=_PERIOD,
    )
    each = found.bytes_per_pane / found.series
    return f"""{head}
{datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC):%Y-%m-%d}; {machine}; {found.panes} panes.

| what | median | largest |
| --- | --- | --- |
| CPU-seconds for a pane of all aggregations | {tick_s:.2f} | {max(found.tick_s):.2f} |
| share of one core | {tick_s / 15:.1%} | {max(found.tick_s) / 15:.1%} |
| CPU-seconds to take in a scrape of all series | {write_s:.3f} | {max(found.write_s):.3f} |

| {_PERIOD} panes of | CPU-seconds | to the first |
| --- | --- | --- |
| 1 m alone | {found.finest_s:.2f} | 1.00 |
| the family | {found.family_s:.2f} | {found.family_s / found.finest_s:.2f} |

A pane of all aggregations holds {found.groups:,} groups in {found.bytes_per_pane:,.0f} bytes, {each:.1f} a series.
"""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--panes", type=int, default=20)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        text = page(measured(Path(folder), given.series, given.panes))
    PATH.write_text(text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
