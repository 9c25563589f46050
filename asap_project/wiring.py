"""Everything put together for one process that does it all: settings in, a running node out."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from django.apps import apps
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics, generate_latest

from asap_project import VERSION
from asap_project.apps import AsapProjectConfig
from asap_project.config.derived import data_dir, is_guarded, own_job, scraped
from asap_project.config.schema import Config
from asap_project.config.showing import as_flags, as_yaml
from asap_project.keeping import aggregation_from, kept_again
from asap_project.replanning import Exchanging, Replanning, Watching, features_of, replanner_of, watch_of
from asap_project.security.guard import guard_of
from asap_project.ticker import Ticker
from asap_project.warm import warm
from ingest.apps import IngestConfig
from ingest.ha import Elections, HaLabels, OwnElections, ReplicaPairs
from ingest.limits import LabelLimits
from ingest.metrics import IngestMetrics
from ingest.remote_write import RemoteWrite
from ingest.series import SeriesResolver
from ingest.sources.base import Source
from ingest.sources.demo import DemoSource
from ingest.sources.scrape import ScrapeJob, ScrapeSource
from ingest.writer import Outcome, SeriesColumns, Writer
from precompute.apps import PrecomputeConfig
from precompute.clock import Clock, SystemClock
from precompute.evaluate.expr import duration_text
from precompute.evaluate.limits import Limits
from precompute.in_force import PlanInForce, in_service, suspended_of
from precompute.intake_port import IntakePort
from precompute.metadata import Descriptions, MetricMetadata
from precompute.metrics import COUNTERS, GAUGES, QUERY_GAUGES
from precompute.node import Node, NodeSettings
from precompute.numbers import Numbers
from precompute.query_node import QueryNode
from precompute.sinks import DirectSink
from precompute.stores.cached import CachedStore
from precompute.stores.database import DatabaseStore
from precompute.stores.definitions import DatabaseDefinitions, DatabaseInstall
from query.answers import Told
from query.apps import QueryConfig, QueryParts
from query.cache import ResultCache
from query.elsewhere import Board, Elsewhere
from query.engine import EngineOptions, QueryEngine
from query.metrics import CACHE_COUNTERS, CACHE_GAUGES, PLANNER_COUNTERS, PLANNER_GAUGES, QueryMetrics
from query.mixed import MixedTiers
from query.origins import Origins
from query.query_log import QueryLog
from query.recall import Memory
from query.series import SeriesQueries
from query.slots import Slots
from query.status import NodeStatus, Setup
from query.tiers.head import HeadTier
from query.tiers.labelled import LabelledUpstream
from query.tiers.recognition import LabelLookup
from query.tiers.summary import SummaryTier
from query.tiers.upstream import Upstream
from query.tiers.upstream_parts import UpstreamParts
from query.usage import Usage

SUMMARY_CACHE_BYTES = 512 << 20
Background = Replanning | Exchanging | Watching
_SOURCES_END_S = 3.0
"""How long a stop waits for all sources together."""


class RunningSources:
    """Sources, each in a thread of its own."""

    def __init__(
        self, sources: Sequence[Source], writer: Writer, clock: Clock, leads: Callable[[], bool] = lambda: True
    ) -> None:
        """leads: whether what this process has just fetched is the one to be kept, of all that fetch the same."""
        self._sources, self._writer, self._clock, self._leads = sources, writer, clock, leads
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for source in self._sources:
            thread = threading.Thread(target=source.run, args=(self._write,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """They end; returns at once."""
        for source in self._sources:
            source.stop()

    def join(self) -> None:
        """Waits for all, not for long."""
        until_s = self._clock.monotonic_s() + _SOURCES_END_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - self._clock.monotonic_s()))

    def _write(self, columns: SeriesColumns) -> Outcome:
        return self._writer.write("scrape", columns) if self._leads() else Outcome(0, 0, {}, "")


class QuerySide:
    """What runs beside the answering of queries, and what is closed after it."""

    def __init__(self, parts: QueryParts, background: Sequence[Background]) -> None:
        self._parts, self._background = parts, background

    def start(self) -> None:
        for background in self._background:
            background.start()

    def stop(self) -> None:
        """Waits for what is being planned or compared."""
        for background in self._background:
            background.stop()

    def close(self) -> None:
        for asked in (self._parts.upstream, self._parts.query_log):
            if asked is not None:
                asked.close()


class Running:
    """A node with its sources and its ticker."""

    def __init__(self, node: Node, sources: RunningSources, ticker: Ticker, queries: QuerySide) -> None:
        self._node, self._sources, self._ticker, self._queries = node, sources, ticker, queries
        self._starting = threading.Thread(target=self._begin, name="asap-start")

    def start(self) -> None:
        """Returns at once; sources and ticks begin when the head is rebuilt."""
        self._node.start()
        self._starting.start()

    def ready(self) -> bool:
        return self._node.why_not_ready() is None

    def stop_accepting(self) -> None:
        """Refuse writes; sources end."""
        self._node.stop_accepting()
        self._sources.stop()

    def shutdown(self) -> None:
        """Commit the batch in hand, then close everything."""
        self.stop_accepting()
        self._node.engine.shutdown()
        self._starting.join()
        self._sources.join()
        self._queries.stop()
        self._ticker.stop()
        self._node.shutdown()
        self._queries.close()

    def _begin(self) -> None:
        if not self._node.wait_until_rebuilt():
            return
        self._ticker.start()
        self._queries.start()
        self._sources.start()


def start(config: Config) -> Running:
    """Build a node from the config, put its parts where views and tasks find them, and start it.

    Raises PrecomputeError where the data on disk or an aggregation does not allow it.
    """
    clock, registry, metadata = begin(), CollectorRegistry(), MetricMetadata()
    store, definitions = CachedStore(DatabaseStore(), SUMMARY_CACHE_BYTES), DatabaseDefinitions()
    kept = kept_again(definitions.definitions(), config)
    claim = DatabaseInstall().claim if config.database.url else None
    node = Node(node_settings(config), store, in_service(kept), clock, suspended_of(kept), claim)
    minibatch = config.engine.minibatch
    ticker = Ticker(node.intake, minibatch.window_size, minibatch.allowed_lateness, clock)
    plan = PlanInForce(node.engine, definitions, kept, ticker.kick)
    core = cast(PrecomputeConfig, apps.get_app_config("precompute"))
    core.engine, core.sink = node.engine, DirectSink(store)
    sources = ingest_side(config, node.intake, OwnElections(config.ingest.ha.timeout, clock), metadata, clock, registry)
    registry.register(Numbers(node, GAUGES, COUNTERS))
    guard(config, clock, registry)
    running = Running(node, sources, ticker, query_side(config, node, plan, metadata, registry))
    running.start()
    return running


def begin() -> Clock:
    """What every process with an HTTP API does first."""
    warm()
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library left it unannotated
    return SystemClock()


def guard(config: Config, clock: Clock, registry: CollectorRegistry) -> None:
    """The process' own metrics, and the port's guard where the config asks for one."""
    registry.register(ProcessCollector(registry=None))
    if is_guarded(config):
        own = cast(AsapProjectConfig, apps.get_app_config("asap_project"))
        own.guard = guard_of(config.security, clock, registry)


def ingest_side(
    config: Config, intake: IntakePort, elections: Elections, metadata: Descriptions, clock: Clock,
    registry: CollectorRegistry, leads: Callable[[], bool] = lambda: True,
) -> RunningSources:  # fmt: skip
    """Writes by HTTP, put where their view finds them; and the sources, not yet started.

    leads: as in RunningSources.
    """
    ha, ingest, metrics = config.ingest.ha, config.ingest, IngestMetrics(registry)
    pairs = ReplicaPairs(HaLabels(ha.cluster_label, ha.replica_label), elections)
    limits = LabelLimits(ingest.max_labels, ingest.max_label_name_length, ingest.max_label_value_length)
    writer = Writer(intake, SeriesResolver(intake, limits, pairs), metrics)
    receiver = RemoteWrite(intake, writer, metrics, metadata.note, ingest.max_body)
    cast(IngestConfig, apps.get_app_config("ingest")).remote_write = receiver
    return RunningSources(_sources(config, clock, metadata, metrics, registry), writer, clock, leads)


def query_side(
    config: Config, node: QueryNode, plan: PlanInForce, metadata: Descriptions, registry: CollectorRegistry,
    leads: Callable[[], bool] = lambda: True, board: Board | None = None,
) -> QuerySide:  # fmt: skip
    """Answers by HTTP, put where their views find them.

    leads: whether this process plans, of all that could. board: where those tell each other what they are asked.
    """
    registry.register(Numbers(node, QUERY_GAUGES))
    elsewhere = Elsewhere(board) if board is not None and config.planner.enabled else None
    parts = query_parts(config, node, plan, metadata, registry, elsewhere)
    cast(QueryConfig, apps.get_app_config("query")).parts = parts
    batch, replanner, background = config.engine.minibatch, parts.replanner, list[Background]()
    if replanner is not None:
        background.append(Replanning(replanner, batch.window_size, batch.allowed_lateness, node.clock, leads))
    if replanner is not None and elsewhere is not None:
        background.append(Exchanging(elsewhere, parts.engine, replanner.tracker))
    if parts.watch is not None:
        background.append(Watching(parts.watch))
    return QuerySide(parts, background)


def node_settings(config: Config) -> NodeSettings:
    """The core's settings, from the config."""
    batch, log = config.engine.minibatch, config.log
    return NodeSettings(
        data_dir=data_dir(config), window_ms=batch.window_size, lateness_ms=batch.allowed_lateness,
        acceptance_ms=batch.acceptance_age, max_reach_ms=batch.max_reach,
        kept_ms=max(batch.max_reach, config.head.retention - batch.acceptance_age),
        max_future_ms=config.ingest.max_future, hash_seed=batch.hash_seed, shards=batch.shards,
        engine_threads=batch.threads, query_threads=config.query_engine.threads,
        head_max_bytes=config.head.max_bytes, log_max_bytes=log.max_bytes, max_backlog_bytes=log.max_backlog,
        min_free_disk_bytes=log.min_free_disk, fsync_ms=log.fsync,
        has_upstream=bool(config.query_engine.prometheus_server),
    )  # fmt: skip


def query_parts(
    config: Config, node: QueryNode, plan: PlanInForce, metadata: Descriptions, registry: CollectorRegistry,
    elsewhere: Elsewhere | None = None,
) -> QueryParts:  # fmt: skip
    """What the query views answer from."""
    options, slots, metrics = config.query_engine, Slots(config.query_engine.threads), QueryMetrics(registry)
    upstream, parts = _upstream(config, node.clock, slots, metrics)
    cache = ResultCache(options.cache_bytes)
    registry.register(Numbers(cache, CACHE_GAUGES, CACHE_COUNTERS))
    log = QueryLog(options.query_log_file, node.clock, metrics.log_lost) if options.query_log_file else None
    usage, replanner = Usage(node.clock), replanner_of(config, node, plan) if config.planner.enabled else None
    if replanner is not None:
        registry.register(Numbers(replanner, PLANNER_GAUGES, PLANNER_COUNTERS))
    tiers = _tiers(config, node, upstream is not None)
    watch = watch_of(config, node, *tiers, plan, registry) if config.planner.watch_share else None
    heard = [usage.note]
    heard += [replanner.tracker.note] if replanner is not None else []
    heard += [elsewhere.note] if elsewhere is not None else []
    heard += [watch.note] if watch is not None else []
    return QueryParts(
        query_engine(config, node, *tiers, upstream, parts, cache, heard),
        SeriesQueries(node.index, node.head, metadata), upstream, registry, metrics, slots,
        node.why_not_ready, node.why_unhealthy, node.clock,
        options.timeout, options.max_points, options.max_samples, options.lookback_delta, VERSION,
        status=NodeStatus(node, _setup(config)), origins=Origins(options.cors_origin), query_log=log,
        plan=plan, aggregation=partial(aggregation_from, config=config), usage=usage, replanner=replanner, watch=watch,
    )  # fmt: skip


def _setup(config: Config) -> Setup:
    return Setup(as_yaml(config), as_flags(config), duration_text(config.head.retention))


def _tiers(config: Config, node: QueryNode, has_upstream: bool) -> tuple[SummaryTier, HeadTier]:
    return (
        SummaryTier(node.engine, node.progress, has_upstream),
        HeadTier(node.head, node.progress, node.clock, config.head.retention, has_upstream),
    )


def query_engine(
    config: Config, node: QueryNode, summary: SummaryTier, head: HeadTier, upstream: LabelledUpstream | None,
    parts: UpstreamParts | None, cache: ResultCache, heard: Sequence[Callable[[Told], None]],
) -> QueryEngine:  # fmt: skip
    """The query side over a node."""
    options, clock = config.query_engine, node.clock
    source = node.source(options.threads)
    engine_options = EngineOptions(
        options.lookback_delta, options.timeout, options.max_depth, Limits(options.max_samples),
        config.engine.minibatch.window_size, options.alignment == "nearest", options.evaluation_interval,
        features_of(config),
    )  # fmt: skip
    memory = Memory(cache, node.engine, node.head) if cache.max_bytes else None
    tiers = MixedTiers(summary, head, parts, upstream is not None, memory, clock)
    return QueryEngine(
        tiers, head, upstream, source, lambda: node.engine.aggregations, node.engine.sealed_ms, engine_options, clock,
        heard,
    )  # fmt: skip


def _upstream(
    config: Config, clock: Clock, slots: Slots, metrics: QueryMetrics
) -> tuple[LabelledUpstream, UpstreamParts] | tuple[None, None]:
    """What asks the upstream for whole queries and lists, and what reads parts of queries from it."""
    options, ha = config.query_engine, config.ingest.ha
    if not options.prometheus_server or not options.forward_unsupported_queries:
        return None, None
    upstream = Upstream(
        options.prometheus_server, options.prometheus_timeout, options.prometheus_ca_file, clock, slots, metrics
    )
    labels = options.prometheus_external_labels
    lookup = LabelLookup(upstream, None if labels == "auto" else labels, (ha.cluster_label, ha.replica_label), clock)
    return (
        LabelledUpstream(upstream, lookup, options.max_depth, clock),
        UpstreamParts(upstream, options.prometheus_parts, lookup, options.evaluation_interval, clock),
    )


def _sources(
    config: Config, clock: Clock, metadata: Descriptions, metrics: IngestMetrics, registry: CollectorRegistry
) -> list[Source]:
    own = own_job(config)
    jobs = tuple(
        ScrapeJob(
            job.job, job.targets, job.interval, job.timeout, job.metrics_path, job.scheme,
            partial(_own_page, registry) if job == own else None,
        )
        for job in scraped(config)
    )  # fmt: skip
    sources: list[Source] = [ScrapeSource(jobs, clock, metadata.note, metrics)] if jobs else []
    if config.demo.enabled:
        sources.append(DemoSource(clock, config.demo.interval, config.demo.cardinality))
    return sources


def _own_page(registry: CollectorRegistry) -> str:
    """What /metrics shows."""
    return generate_latest(registry).decode()
