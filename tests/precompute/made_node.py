"""A whole core whose clock, heartbeats and ticks a test moves by hand: real log files, head, engine and query tiers."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import ManualClock
from precompute.definitions import Kept
from precompute.engines.minibatch import EngineLimits, MiniBatchEngine
from precompute.evaluate.context import Evaluation
from precompute.evaluate.evaluator import result
from precompute.evaluate.expr import Expr
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Value
from precompute.head import Head
from precompute.intake import Intake, IntakeLimits
from precompute.intake_port import Admission
from precompute.labels import Labels, SeriesTable
from precompute.log.files import FileSampleLog
from precompute.losses import note_losses
from precompute.progress_file import ProgressFile, open_progress
from precompute.samples import I64, Block
from precompute.selection import Index
from precompute.sinks import DirectSink
from precompute.stores.base import SummaryStore
from precompute.stores.memory import MemoryStore
from precompute.touched import Touched
from query.answers import Answer, Told
from query.cache import ResultCache
from query.engine import EngineOptions, QueryEngine, Upstream
from query.mixed import MixedTiers, Parts
from query.promql.parse import parse
from query.recall import Memory
from query.tiers.head import HeadTier
from query.tiers.summary import SummaryTier
from query.usage import Usage

WIDTH_MS = 15_000
LATENESS_MS = 15_000
LOOKBACK_MS = 300_000
HOUR_MS = 3_600_000
START_MS = 1_700_000_010_000
"""On the pane grid."""
EVERY = ("sum", "count", "min", "max", "quantile", "stddev")


def aggregation(
    expr: str, labels: Sequence[str] = (), without: bool = False, accumulators: Sequence[str] = EVERY,
    width_ms: int = WIDTH_MS, retention_ms: int = 24 * HOUR_MS, lookback_ms: int = LOOKBACK_MS,
) -> Aggregation:  # fmt: skip
    return Aggregation(
        parse(expr), tuple(sorted(labels)), without, tuple(accumulators), width_ms, lookback_ms, retention_ms
    )


def in_config(kept: Sequence[Aggregation], wrong: Sequence[Aggregation] = ()) -> tuple[Kept, ...]:
    """As the config would have them; those that are wrong are suspended."""
    named = [(a, False) for a in kept] + [(a, True) for a in wrong]
    return tuple(Kept(a, "config", True, suspended) for a, suspended in named)


class StoppedClock(ManualClock):
    """Of a process that is stopped for an hour whenever it has begun to make something that is kept."""

    stopped_s = 0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.stopped_s

    def cpu_s(self) -> float:
        self.stopped_s += 3600
        return super().cpu_s()


@dataclass
class Core:
    """Everything of one process. `reopened` is the process after a kill: only folder and store are left."""

    folder: Path
    aggregations: Sequence[Aggregation] = ()
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))
    store: SummaryStore = field(default_factory=MemoryStore)
    acceptance_ms: int = HOUR_MS
    kept_ms: int = HOUR_MS
    lateness_ms: int = LATENESS_MS
    max_future_ms: int = 60_000
    segment_ms: int = 600_000
    has_upstream: bool = False
    upstream: Upstream | None = None
    parts: Parts | None = None
    nearest: bool = False
    head_retention_ms: int = 2 * HOUR_MS
    log_max_bytes: int = 1 << 28
    max_backlog_bytes: int = 1 << 28
    new_cache: Callable[[], ResultCache] = lambda: ResultCache(1 << 24)
    heard: Sequence[Callable[[Told], None]] = ()

    def __post_init__(self) -> None:
        self.head = Head(SeriesTable(), 1 << 26)
        self.log = FileSampleLog(
            self.folder / "log", self.head.table, max_bytes=self.log_max_bytes, min_free_disk=0, clock=self.clock,
            floor_ms=lambda: self.intake.progress.floor_ms, max_future_ms=self.max_future_ms,
            segment_ms=self.segment_ms,
        )  # fmt: skip
        file = ProgressFile(self.folder / "log" / "state.json")
        progress = open_progress(
            file, {"shards": 16, "hash_seed": 0}, log_is_empty=not self.log.last_id(), now_ms=self.clock.now_ms(),
            acceptance_ms=self.acceptance_ms, lateness_ms=self.lateness_ms, has_upstream=self.has_upstream,
        )  # fmt: skip
        progress = note_losses(file, progress, self.log)
        limits = IntakeLimits(self.max_future_ms, self.max_backlog_bytes, self.lateness_ms, self.has_upstream)
        self.intake = Intake(self.head, self.log, progress, file, Touched(WIDTH_MS), self.clock, limits)
        self.source = HeadSource(self.head, Index())
        self.engine = MiniBatchEngine(
            self.intake, self.source, self.store, self.aggregations,
            EngineLimits(self.acceptance_ms, self.lateness_ms, self.kept_ms, self.kept_ms, tick_ms=15_000), self.clock,
        )  # fmt: skip
        for entry in self.log.read(0, self.head.table):
            self.intake.replay(entry)
        self.engine.load()
        self.engine.discard_stale()
        self.intake.open()
        self.summary_tier = SummaryTier(self.engine, lambda: self.intake.progress, self.has_upstream)
        self.head_tier = HeadTier(
            self.head, lambda: self.intake.progress, self.clock, self.head_retention_ms, self.has_upstream
        )
        self.cache = self.new_cache()
        memory = Memory(self.cache, self.engine, self.head)
        tiers = MixedTiers(self.summary_tier, self.head_tier, self.parts, self.has_upstream, memory, self.clock)
        self.usage = Usage(self.clock)
        self.queries = QueryEngine(
            tiers, self.head_tier, self.upstream, self.source, lambda: self.engine.aggregations, self.engine.sealed_ms,
            EngineOptions(LOOKBACK_MS, 120_000, 100, Limits(), WIDTH_MS, self.nearest), self.clock,
            [self.usage.note, *self.heard],
        )  # fmt: skip

    def evaluate(self, expr: Expr, times: I64) -> Value:
        """The exact value of an expression over the samples held."""
        budget = Budget(Limits(), self.clock, 60_000)
        return result(expr, Evaluation(self.source, times, LOOKBACK_MS, budget, int(times[0]), int(times[-1])))

    def reopened(self, aggregations: Sequence[Aggregation] | None = None) -> "Core":
        """After a kill: nothing more is written, and the operating system closes the files."""
        os.close(self.log._lock)
        if self.log._writer:
            os.close(self.log._writer._fd)
        return replace(self, aggregations=self.aggregations if aggregations is None else aggregations)

    def write(self, rows: Sequence[tuple[Labels, int, float]]) -> Admission:
        """Samples as (labels, ms, value)."""
        table = self.head.table
        sid = np.array([table.intern(labels) for labels, _, _ in rows], np.int32)
        t_ms, value = (np.array([row[k] for row in rows], dtype) for k, dtype in ((1, np.int64), (2, np.float64)))
        return self.intake.write(Block(sid, t_ms, value), table)

    def pass_time(self, ms: int, beat_ms: int = 5000) -> None:
        """The clock moves on, with heartbeats."""
        until_ms = self.clock.now_ms() + ms
        while self.clock.now_ms() < until_ms:
            self.clock.advance(min(beat_ms, until_ms - self.clock.now_ms()))
            self.intake.heartbeat()
            self.intake.note_alive(self.intake.progress.alive_ms, self.log.last_id())

    def tick(self) -> None:
        self.engine.run(DirectSink(self.store))

    def instant(self, text: str, time_ms: int) -> Answer:
        answer = self.queries.instant(text, time_ms)
        assert isinstance(answer, Answer)
        return answer

    def range(self, text: str, start_ms: int, end_ms: int, step_ms: int = WIDTH_MS) -> Answer:
        answer = self.queries.range(text, start_ms, end_ms, step_ms)
        assert isinstance(answer, Answer)
        return answer


def series(name: str, **labels: str) -> Labels:
    return tuple(sorted((("__name__", name), *labels.items())))
