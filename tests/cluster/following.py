"""The same samples in one process and in a cluster's shards with a worker, and query engines that follow these."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import ManualClock
from precompute.cluster.follower import Follower, FollowerSettings, Notes
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.pack_reader import PackReader
from precompute.cluster.packs import Packs
from precompute.cluster.replies import ShardLimits, appended
from precompute.cluster.shards import Shards
from precompute.cluster.worker import ShardWorkers, WorkerSettings
from precompute.engines.minibatch import EngineLimits
from precompute.evaluate.limits import Limits
from precompute.labels import Labels, SeriesTable
from precompute.query_node import QueryNode
from precompute.samples import Block
from precompute.stores.database import DatabaseStore
from precompute.stores.memory import MemoryStore
from precompute.summaries import Summary
from query.answers import Answer
from query.cache import ResultCache
from query.engine import EngineOptions, QueryEngine
from query.mixed import MixedTiers
from query.recall import Memory
from query.tiers.head import HeadTier
from query.tiers.summary import SummaryTier
from tests.precompute.made_node import HOUR_MS, LATENESS_MS, LOOKBACK_MS, WIDTH_MS, Core, in_config
from tests.running import poll_until

FOLLOW_S = 30.0
SHARDS = 16
LIMITS = ShardLimits(HOUR_MS, 60_000, LATENESS_MS, HOUR_MS, 600_000, 30_000, 1 << 26, 1 << 26)


class MovedClock(ManualClock):
    """The time of samples and panes is moved by the test; threads that wait for each other use the machine's."""

    def monotonic_s(self) -> float:
        return time.monotonic()


class Cluster:
    """See the module's text. Begins now, on the pane grid."""

    def __init__(self, urls: Sequence[str], folder: Path, kept: Sequence[Aggregation], now_ms: int) -> None:
        self.kept = list(kept)
        self.start_ms = now_ms // WIDTH_MS * WIDTH_MS
        self.clock = MovedClock(self.start_ms)
        self.core = Core(folder, kept, clock=self.clock)
        self.shards = Shards(urls, SHARDS, LIMITS, self.clock.now_ms)
        self.shards.create(complete=True)
        self.table = SeriesTable(shards=SHARDS)
        self.logs = [RedisSampleLog(shard, self.table) for shard in self.shards.all]
        limits = EngineLimits(HOUR_MS, LATENESS_MS, HOUR_MS, HOUR_MS, tick_ms=60_000)
        self.worker = ShardWorkers(
            self.shards, WorkerSettings("a", WIDTH_MS, 0, 1 << 26, 100, limits), lambda: in_config(self.kept),
            MemoryStore(), self.clock,
        )  # fmt: skip

    def write(self, rows: Sequence[tuple[Labels, int, float]]) -> None:
        self.core.write(rows)
        sid = np.array([self.table.intern(labels) for labels, _, _ in rows], np.int32)
        t_ms, value = (np.array([row[k] for row in rows], dtype) for k, dtype in ((1, np.int64), (2, np.float64)))
        block, shard = Block(sid, t_ms, value), self.table.shard_of(sid)
        for number in np.unique(shard):
            self.logs[number].append(block.take(shard == number))

    def pass_time(self, ms: int) -> None:
        until_ms = self.clock.now_ms() + ms
        while self.clock.now_ms() < until_ms:
            self.clock.advance(min(5000, until_ms - self.clock.now_ms()))
            self.core.intake.heartbeat()
            replies = self.shards.run_all([(shard, shard.beat_call()) for shard in self.shards.all])
            assert {appended(reply).outcome for reply in replies} == {"ok"}

    def tick(self, but: Sequence[int] = ()) -> None:
        """Of the one process, and of all shards but some."""
        self.core.tick()
        for number in range(SHARDS):
            if number not in but:
                assert self.worker.tick(number) == "done"

    def caught_up(self, follower: Follower) -> None:
        """Waits until the follower knows of all that was written and committed."""
        states = [state for state in self.shards.states() if state is not None]
        told = [shard.last_told() for shard in self.shards.all]

        def whole() -> bool:
            known = [copy.state for copy in follower.copies if copy.state is not None]
            return (
                follower.why_not_ready() is None
                and [state.last for state in known] == [state.last for state in states]
                and follower.progress().alive_ms == min(state.alive_ms for state in states)
                and all(copy.in_touch and copy.told >= last for copy, last in zip(follower.copies, told, strict=True))
            )

        poll_until(whole, FOLLOW_S, "the follower has caught up")

    @contextmanager
    def follower(self, using: str, head_ms: int = 2 * HOUR_MS, head_bytes: int = 1 << 26) -> Iterator[Follower]:
        """A query engine's node, which has caught up. using: the alias of its database."""
        made = self.made_follower(using, head_ms, head_bytes)
        made.start()
        try:
            self.caught_up(made)
            yield made
        finally:
            made.shutdown()

    def made_follower(self, using: str, head_ms: int = 2 * HOUR_MS, head_bytes: int = 1 << 26) -> Follower:
        packs = Packs(PackReader(DatabaseStore(using), 1 << 24), self.clock)
        settings = FollowerSettings(WIDTH_MS, 0, head_ms, head_bytes, 1 << 24, 1)
        return Follower(settings, self.shards, packs, self.kept, Notes, self.clock)


def queries(node: QueryNode) -> QueryEngine:
    """Answers from a node, without an upstream."""
    summary = SummaryTier(node.engine, node.progress, False)
    head = HeadTier(node.head, node.progress, node.clock, 2 * HOUR_MS, False)
    memory = Memory(ResultCache(1 << 24), node.engine, node.head)
    return QueryEngine(
        MixedTiers(summary, head, None, False, memory, node.clock), head, None, node.source(1),
        lambda: node.engine.aggregations, node.engine.sealed_ms,
        EngineOptions(LOOKBACK_MS, 120_000, 100, Limits(), WIDTH_MS, nearest=False), node.clock,
    )  # fmt: skip


def instant(asked: QueryEngine, text: str, time_ms: int) -> Answer:
    answer = asked.instant(text, time_ms)
    assert isinstance(answer, Answer)
    return answer


def unnumbered(summary: Summary) -> Summary:
    """Without what numbers of log entries say, which are each log's own."""
    return replace(summary, seen=np.zeros(summary.panes, np.int64))
