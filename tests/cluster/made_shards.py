"""Shards on a real Redis, judged by a clock that the test moves, with limits small enough to be passed."""

from dataclasses import replace

from precompute.clock import ManualClock
from precompute.cluster.replies import Appended, ShardLimits, appended
from precompute.cluster.shard import Shard
from precompute.cluster.shards import Shards
from precompute.cluster.writing import LocalIds, Prepared, ShardWriter
from precompute.labels import SeriesTable
from precompute.samples import Block

NOW_MS = 1_764_500_000_000
LIMITS = ShardLimits(
    acceptance_ms=60_000, future_ms=5_000, lateness_ms=2_000, kept_ms=30_000, segment_ms=20_000, lease_ms=10_000,
    log_max_bytes=1 << 20, max_backlog_bytes=1 << 20,
)  # fmt: skip


def made_shards(url: str, clock: ManualClock, count: int = 1, *, complete: bool = True, **limits: int) -> Shards:
    """New shards; complete: since ever, else from now on."""
    shards = Shards([url], count, replace(LIMITS, **limits), clock.now_ms)
    shards.create(complete)
    return shards


class Sender:
    """One writer of one shard, step by step."""

    def __init__(self, shard: Shard, table: SeriesTable) -> None:
        self.shard, self.table = shard, table
        self.writer = ShardWriter(LocalIds(table))

    def send(self, block: Block) -> Appended:
        """As an ingest process does: again from the beginning where the shard asks for it."""
        reply = self.repeat(prepared := self.writer.prepare(block))
        if reply.outcome == "restart":
            self.writer.begin(reply.number)
            reply = self.repeat(prepared := self.writer.prepare(block))
        if reply.outcome == "ok":
            self.writer.wrote(prepared)
        else:
            self.writer.refused()
        return reply

    def repeat(self, prepared: Prepared) -> Appended:
        """These bytes as they are, perhaps once more."""
        return appended(self.shard.server.run(self.shard.append_call(prepared.samples)))

    def beat(self) -> Appended:
        return appended(self.shard.server.run(self.shard.beat_call()))
