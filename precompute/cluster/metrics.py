"""What the roles of a cluster show of shards and workers, read when it is scraped; each metric declared once."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from precompute.clock import Clock
from precompute.cluster.follower import Follower
from precompute.cluster.server import ServerDown
from precompute.cluster.shard import ShardLimits, ShardState
from precompute.cluster.shards import Shards
from precompute.cluster.storing import Stored
from precompute.cluster.worker import Counts, ShardWorkers

ShardGauge = Callable[[ShardState, ShardLimits, int], float]
"""From the shard as it stands, its limits and the time in ms."""

SHARD_GAUGES: tuple[tuple[str, str, ShardGauge], ...] = (
    ("asap_shard_log_bytes", "Bytes of the shard's log that are retained.", lambda s, own, now: s.bytes - s.cut),
    ("asap_shard_log_max_bytes", "Their bound, the shard's share of log.max_bytes.",
     lambda s, own, now: own.log_max_bytes),
    ("asap_shard_backlog_bytes", "Bytes of the shard's log that no tick has read.",
     lambda s, own, now: s.bytes - s.read),
    ("asap_shard_backlog_max_bytes", "Their bound, the shard's share of log.max_backlog.",
     lambda s, own, now: own.max_backlog_bytes),
    ("asap_shard_summary_bytes", "Bytes of the shard's partial summaries in Redis.",
     lambda s, own, now: s.summary_bytes),
    ("asap_shard_silent_seconds", "How long nobody has listened for samples of the shard.",
     lambda s, own, now: (now - s.alive_ms) / 1000),
    ("asap_shard_final_lag_seconds", "How far the shard's last final pane lies behind the acceptance age.",
     lambda s, own, now: (now - own.acceptance_ms - s.final_ms) / 1000),
    ("asap_shard_held", "1 where a worker holds the shard now, else 0.",
     lambda s, own, now: float(bool(s.holder) and s.until_ms >= now)),
)
"""Of each shard; shown by workers and query engines alike, all of them see the same."""

WORKER_COUNTERS: tuple[tuple[str, str, Callable[[Counts], float]], ...] = (
    ("asap_shard_ticks", "Ticks of the shard that ended well here.", lambda c: c.ticks),
    ("asap_shard_ticks_skipped", "Ticks skipped because one of the shard was still running.", lambda c: c.skipped),
    ("asap_shard_ticks_failed", "Ticks that failed, as Redis or room did; the next one goes on.", lambda c: c.failed),
    ("asap_shard_taken", "Times that this worker took the shard and read its log from the beginning.",
     lambda c: c.cold),
    ("asap_shard_lost", "Times that another worker had taken the shard meanwhile.", lambda c: c.lost),
    ("asap_shard_panes_committed", "Panes committed, replaced ones included.", lambda c: c.panes),
    ("asap_shard_damaged_entries", "Log entries that could not be read.", lambda c: c.damaged),
)
"""Of each shard, by this worker."""

WORKER_GAUGES: tuple[tuple[str, str, Callable[[ShardWorkers], float]], ...] = (
    ("asap_worker_shards", "Shards that this worker holds.", lambda w: len(w.held())),
    ("asap_worker_head_bytes", "Memory of all heads of this worker.", lambda w: w.head_bytes()),
    ("asap_worker_last_tick_seconds", "When this worker's last tick ended well.",
     lambda w: w.completed_ms() / 1000),
)

STORING_COUNTERS: tuple[tuple[str, str, Callable[[Stored], float]], ...] = (
    ("asap_stored_packs", "Packs of final panes that this worker put into the long-term store.", lambda s: s.packs),
    ("asap_stored_panes", "Panes of these packs.", lambda s: s.panes),
    ("asap_storing_failed", "Times that the long-term store could not be used; panes wait in Redis.",
     lambda s: s.failed),
    ("asap_dropped_panes", "Final panes dropped because redis.max_summary_bytes was reached; they are gaps.",
     lambda s: s.dropped),
)


FOLLOWER_GAUGES: tuple[tuple[str, str, Callable[[Follower], float]], ...] = (
    ("asap_follower_behind_seconds", "How old is what is known of the shard that is most behind.",
     lambda f: f.behind_ms() / 1000),
    ("asap_merged_cache_bytes", "Memory that merged open panes take.", lambda f: f.store.cache_bytes()),
)
FOLLOWER_COUNTERS: tuple[tuple[str, str, Callable[[Follower], float]], ...] = (
    ("asap_follower_read_anew", "Times that all logs were read anew, because one had lost entries.",
     lambda f: f.read_anew),
    ("asap_merged_failures", "Times that open panes could not be read; other tiers answered.",
     lambda f: f.store.failures),
    ("asap_packs_failures", "Times that stored panes could not be read; other tiers answered.",
     lambda f: f.packs.failures),
)


class FollowerCollector(Collector):
    """A query engine's own."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def collect(self) -> Iterator[Metric]:
        for name, meaning, read in FOLLOWER_GAUGES:
            yield GaugeMetricFamily(name, meaning, value=read(self._follower))
        for name, meaning, read in FOLLOWER_COUNTERS:
            yield CounterMetricFamily(name, meaning, value=read(self._follower))


class ShardCollector(Collector):
    """The state of every shard; nothing of it while Redis cannot be asked."""

    def __init__(self, shards: Shards, clock: Clock) -> None:
        self._shards, self._clock = shards, clock

    def collect(self) -> Iterator[Metric]:
        try:
            states = self._shards.states()
        except ServerDown:
            return
        now_ms = self._clock.now_ms()
        for name, meaning, read in SHARD_GAUGES:
            family = GaugeMetricFamily(name, meaning, labels=("shard",))
            for number, state in enumerate(states):
                if state is not None:
                    family.add_metric((str(number),), read(state, self._shards.limits, now_ms))
            yield family


class WorkerCollector(Collector):
    """What one worker did."""

    def __init__(self, workers: ShardWorkers) -> None:
        self._workers = workers

    def collect(self) -> Iterator[Metric]:
        for name, meaning, read in WORKER_GAUGES:
            yield GaugeMetricFamily(name, meaning, value=read(self._workers))
        for name, meaning, count in WORKER_COUNTERS:
            yield _by_shard(name, meaning, count, [held.counts for held in self._workers.held_by_number])
        if self._workers.storing is not None:
            for name, meaning, of in STORING_COUNTERS:
                yield CounterMetricFamily(name, meaning, value=of(self._workers.storing.counts))


def _by_shard(name: str, meaning: str, count: Callable[[Counts], float], counts: Sequence[Counts]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=("shard",))
    for number, of in enumerate(counts):
        family.add_metric((str(number),), count(of))
    return family
