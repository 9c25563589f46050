"""What the roles of a cluster show of shards and workers, read when it is scraped; each metric declared once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from precompute.clock import Clock
from precompute.cluster.appender import Appender
from precompute.cluster.follower import Follower
from precompute.cluster.kicks import Kicks
from precompute.cluster.replies import ShardLimits, ShardState, parse_state
from precompute.cluster.server import Server, ServerDown, time_ms
from precompute.cluster.shards import Shards
from precompute.cluster.storing import Stored
from precompute.cluster.traffic import Traffic
from precompute.cluster.worker import Counts, ShardWorkers


@dataclass(frozen=True)
class Shown:
    """One shard as it stands, its limits, and its server's clock, by which its times are judged."""

    state: ShardState
    holes: int
    limits: ShardLimits
    now_ms: int


@dataclass(frozen=True)
class Asked:
    """One server of the log, and those of its shards that are there; ahead_ms: our clock against its."""

    server: Server
    ahead_ms: float
    shards: Mapping[int, Shown]


SERVER_GAUGES: tuple[tuple[str, str, Callable[[Asked], float]], ...] = (
    ("asap_clock_ahead_seconds", "How far this process' clock is ahead of that of a Redis of the log.",
     lambda a: a.ahead_ms / 1000),
)
"""Of each Redis of the log, by its URL without the password."""


SHARD_GAUGES: tuple[tuple[str, str, Callable[[Shown], float]], ...] = (
    ("asap_shard_log_bytes", "Bytes of the shard's log that are retained.", lambda s: s.state.bytes - s.state.cut),
    ("asap_shard_log_max_bytes", "Their bound, the shard's share of log.max_bytes.", lambda s: s.limits.log_max_bytes),
    ("asap_shard_backlog_bytes", "Bytes of the shard's log that no tick has read.",
     lambda s: s.state.bytes - s.state.read),
    ("asap_shard_backlog_max_bytes", "Their bound, the shard's share of log.max_backlog.",
     lambda s: s.limits.max_backlog_bytes),
    ("asap_shard_summary_bytes", "Bytes of the shard's partial summaries in Redis.", lambda s: s.state.summary_bytes),
    ("asap_shard_silent_seconds", "How long nobody has listened for samples of the shard.",
     lambda s: (s.now_ms - s.state.alive_ms) / 1000),
    ("asap_shard_final_lag_seconds", "How far the shard's last final pane lies behind the acceptance age.",
     lambda s: (s.now_ms - s.limits.acceptance_ms - s.state.final_ms) / 1000),
    ("asap_shard_held", "1 where a worker holds the shard now, else 0.",
     lambda s: float(bool(s.state.holder) and s.state.until_ms >= s.now_ms)),
    ("asap_shard_holes", "Intervals in which samples of the shard are known to be missing.", lambda s: s.holes),
)
"""Of each shard; shown by ingest, query engines and workers alike, all of them see the same."""

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

WORKER_SHARD_GAUGES: tuple[tuple[str, str, Callable[[Counts], float]], ...] = (
    ("asap_shard_last_tick_seconds", "When this worker's last tick of the shard ended well; 0 before the first.",
     lambda c: c.completed_ms / 1000),
)

WORKER_GAUGES: tuple[tuple[str, str, Callable[[ShardWorkers], float]], ...] = (
    ("asap_worker_shards", "Shards that this worker holds.", lambda w: len(w.held())),
    ("asap_worker_head_bytes", "Memory of all heads of this worker.", lambda w: w.head_bytes()),
    ("asap_worker_last_tick_seconds", "When this worker's last tick ended well.",
     lambda w: w.completed_ms() / 1000),
)

KICK_COUNTERS: tuple[tuple[str, str, Callable[[Kicks], float]], ...] = (
    ("asap_kicks_stale", "Kicks that were left out: too old, or done already.", lambda k: k.stale),
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


APPENDS = ("asap_appends", "Entries sent to shards, by the shard's answer, or by why there is none or too few have it.")
"""By outcome: those of `shard.Appended`, and of `traffic`."""

TRAFFIC_COUNTERS: tuple[tuple[str, str, Callable[[Traffic], float]], ...] = (
    ("asap_append_rounds", "Round trips to a log's Redis, each with entries of all its shards.", lambda t: t.rounds),
    ("asap_append_sending_seconds", "Time that these round trips took.", lambda t: t.sending_s),
    ("asap_append_writes", "Writes that were sent.", lambda t: t.writes),
    ("asap_append_waiting_seconds",
     "Time that these writes waited for others, or for those before, until they were sent.", lambda t: t.waiting_s),
)
APPENDER_GAUGES: tuple[tuple[str, str, Callable[[Appender], float]], ...] = (
    ("asap_silent_servers", "Log servers that did not take this process' last heartbeat.",
     lambda a: a.beats.silent_servers()),
)


class AppenderCollector(Collector):
    """An ingest process' own."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    def collect(self) -> Iterator[Metric]:
        traffic = self._appender.traffic
        appends = CounterMetricFamily(*APPENDS, labels=("outcome",))
        for outcome, count in traffic.outcomes.copy().items():
            appends.add_metric((outcome,), count)
        yield appends
        for name, meaning, read in TRAFFIC_COUNTERS:
            yield CounterMetricFamily(name, meaning, value=read(traffic))
        for name, meaning, gauge in APPENDER_GAUGES:
            yield GaugeMetricFamily(name, meaning, value=gauge(self._appender))


class ShardCollector(Collector):
    """The state of every shard and of its server's clock; nothing of those whose Redis cannot be asked."""

    def __init__(self, shards: Shards, clock: Clock) -> None:
        self._shards, self._clock = shards, clock

    def collect(self) -> Iterator[Metric]:
        asked = [one for server in self._shards.servers if (one := self._asked(server))]
        for name, meaning, read in SHARD_GAUGES:
            family = GaugeMetricFamily(name, meaning, labels=("shard",))
            for number, shown in (pair for one in asked for pair in one.shards.items()):
                family.add_metric((str(number),), read(shown))
            yield family
        for name, meaning, of in SERVER_GAUGES:
            family = GaugeMetricFamily(name, meaning, labels=("server",))
            for one in asked:
                family.add_metric((one.server.name,), of(one))
            yield family

    def _asked(self, server: Server) -> Asked | None:
        """In one round trip; its clock is read first. None where it cannot be asked."""
        mine = [shard for shard in self._shards.all if shard.server is server]
        states = [ask for shard in mine for ask in (shard.ask_state(), shard.ask_hole_count())]
        before_ms = self._clock.now_ms()
        try:
            time, *replies = server.ask_all([("TIME",), *states])
        except ServerDown:
            return None
        own_ms, now_ms = (before_ms + self._clock.now_ms()) / 2, time_ms(time)
        read = zip(mine, map(parse_state, replies[::2]), replies[1::2], strict=True)
        shown = {
            shard.number: Shown(state, holes, self._shards.limits, now_ms)
            for shard, state, holes in read if state is not None
        }  # fmt: skip
        return Asked(server, own_ms - now_ms, shown)


class WorkerCollector(Collector):
    """What one worker did."""

    def __init__(self, workers: ShardWorkers, kicks: Kicks) -> None:
        self._workers, self._kicks = workers, kicks

    def collect(self) -> Iterator[Metric]:
        for name, meaning, read in WORKER_GAUGES:
            yield GaugeMetricFamily(name, meaning, value=read(self._workers))
        for name, meaning, stale in KICK_COUNTERS:
            yield CounterMetricFamily(name, meaning, value=stale(self._kicks))
        yield from self._of_shards()
        if self._workers.storing is not None:
            for name, meaning, of in STORING_COUNTERS:
                yield CounterMetricFamily(name, meaning, value=of(self._workers.storing.counts))

    def _of_shards(self) -> Iterator[Metric]:
        for declared, family in ((WORKER_COUNTERS, CounterMetricFamily), (WORKER_SHARD_GAUGES, GaugeMetricFamily)):
            for name, meaning, count in declared:
                metric = family(name, meaning, labels=("shard",))
                for held in self._workers.held_by_number:
                    metric.add_metric((str(held.shard.number),), count(held.counts))
                yield metric
