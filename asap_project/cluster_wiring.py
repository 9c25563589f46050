"""A cluster's roles with an HTTP API put together: ingest, query engine, or both in one process."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import cast

from django.apps import apps
from django.db import close_old_connections, connection
from prometheus_client import CollectorRegistry

from asap_project.apps import AsapProjectConfig
from asap_project.cluster_parts import agree_on, look_at_logs, shards_of
from asap_project.config import Config
from asap_project.health import Condition
from asap_project.keeping import kept_again
from asap_project.roles import INGEST, QUERY_ENGINE
from asap_project.wiring import SUMMARY_CACHE_BYTES, QuerySide, RunningSources, begin, guard, ingest_side, query_side
from precompute.clock import Clock
from precompute.cluster.appender import Appender, AppenderLimits
from precompute.cluster.board import SharedBoard
from precompute.cluster.elections import Leader, SharedElections
from precompute.cluster.follower import Follower, FollowerSettings, Notes
from precompute.cluster.metrics import FOLLOWER_COUNTERS, FOLLOWER_GAUGES, AppenderCollector, ShardCollector
from precompute.cluster.pack_reader import PackReader
from precompute.cluster.packs import Packs
from precompute.cluster.plan import SharedPlan
from precompute.cluster.shards import Shards
from precompute.cluster.shared import SharedMetadata, SharedNotes
from precompute.definitions import Kept, definition_of
from precompute.errors import PrecomputeError
from precompute.in_force import PlanInForce, in_service
from precompute.labels import SeriesTable
from precompute.lasting import attempt
from precompute.numbers import Numbers
from precompute.stores.base import StoreError
from precompute.stores.database import DatabaseStore
from precompute.stores.definitions import DatabaseDefinitions, DatabaseInstall

logger = logging.getLogger(__name__)

_HOUSE_S = 2.0
_TABLE_SHARE = 4
"""An ingest process may remember labels of a quarter of head.max_bytes."""


class RunningRoles:
    """The roles of one process."""

    def __init__(self, shards: Shards, ingest: "Ingest | None", queries: "Queries | None") -> None:
        self._shards, self._ingest, self._queries = shards, ingest, queries

    def start(self) -> None:
        """Returns at once."""
        for role in (self._ingest, self._queries):
            if role is not None:
                role.start()

    def ready(self) -> bool:
        return self._queries is None or self._queries.follower.why_not_ready() is None

    def stop_accepting(self) -> None:
        """Refuse writes; sources end."""
        if self._ingest is not None:
            self._ingest.stop()

    def shutdown(self) -> None:
        """Close everything."""
        self.stop_accepting()
        for role in (self._ingest, self._queries):
            if role is not None:
                role.shutdown()
        self._shards.close()


class Ingest:
    """The ingest role: writes and sources, into the logs."""

    def __init__(self, appender: Appender, sources: RunningSources) -> None:
        self.appender, self._sources = appender, sources

    def start(self) -> None:
        self.appender.start()
        self._sources.start()

    def stop(self) -> None:
        self.appender.stop()
        self._sources.stop()

    def shutdown(self) -> None:
        self._sources.join()
        self.appender.close()


class Queries:
    """The query engine: a node that follows the logs, what runs beside it, and the plan as the others change it."""

    def __init__(self, follower: Follower, side: QuerySide, shared: "PlanKeeper") -> None:
        self.follower, self._side, self._shared = follower, side, shared

    def start(self) -> None:
        self.follower.start()
        self._side.start()
        self._shared.start()

    def shutdown(self) -> None:
        self._shared.stop()
        self._side.stop()
        self.follower.shutdown()
        self._side.close()


class PlanKeeper:
    """One thread: takes over the plan when another process has changed it, and publishes what is written down after our
    own changes, and where Redis has lost it."""

    def __init__(self, shared: SharedPlan, read: Callable[[], Sequence[Kept]]) -> None:
        """read: what is kept, from the database. Raises StoreError."""
        self._shared, self._read = shared, read
        self.in_force: PlanInForce | None = None
        self._revision = -1
        """That was adopted; -1: we have changed the plan, and others may have too."""
        self._trouble = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asap-plan")

    def publish(self) -> None:
        """Tell the others what is kept, as it is written down; what fails is told a little later."""
        self._revision = -1
        try:
            self._tell(self._read())
        except PrecomputeError as error:
            logger.warning("the plan is published later: %s", error)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_HOUSE_S):
            close_old_connections()
            attempt(self._look, "looking for a changed plan")
        connection.close()

    def _look(self) -> None:
        try:
            while (revision := self._shared.revision()) != self._revision:
                self._take_over(revision)
            self._trouble = ""
        except PrecomputeError as error:
            if str(error) != self._trouble:
                logger.warning("whether the plan was changed is not known: %s", error)
            self._trouble = str(error)

    def _take_over(self, revision: int) -> None:
        """Keep what is written down, and tell the others where that is ours to do.

        Whoever writes between our two looks at the database may have published before us, and then we do it again;
        whoever writes after them publishes after us.
        """
        assert self.in_force is not None
        try:
            kept = self._read()
        except StoreError:
            if not revision:
                self._tell(self.in_force.kept)
            raise
        self.in_force.adopt(kept)
        if self._revision < 0 or revision < self._revision:  # the latter: its server has lost the newest
            revision = self._tell(kept)
        self._revision = revision if self._read() == kept else -1

    def _tell(self, kept: Sequence[Kept]) -> int:
        return self._shared.publish([definition_of(one) for one in kept])


def start_http(config: Config, roles: frozenset[str]) -> RunningRoles:
    """Build these roles, put their parts where views find them, and start them.

    Raises PrecomputeError where what is there does not allow it.
    """
    clock, registry, shards = begin(), CollectorRegistry(), shards_of(config)
    look_at_logs(config, shards)
    agree_on(config, shards)
    shared = SharedPlan(shards.first)
    kept, is_first = _kept_before(config, shared, clock.now_ms())
    shards.create(complete=is_first and not config.query_engine.prometheus_server)
    if is_first:
        DatabaseInstall().begin(clock.now_ms())
    metadata = SharedMetadata(shards.first, clock)
    registry.register(ShardCollector(shards, clock))
    guard(config, clock, registry)
    ingest = _ingest(config, shards, metadata, clock, registry) if INGEST in roles else None
    queries = _queries(config, shards, shared, kept, metadata, clock, registry) if QUERY_ENGINE in roles else None
    if queries is None and not shared.revision():
        shared.publish([definition_of(one) for one in kept])
    if queries is None and ingest is not None:
        own = cast(AsapProjectConfig, apps.get_app_config("asap_project"))
        own.condition = Condition(ingest.appender.beats.why_unhealthy, ingest.appender.why_not_ready, registry)
    running = RunningRoles(shards, ingest, queries)
    running.start()
    return running


def _kept_before(config: Config, shared: SharedPlan, now_ms: int) -> tuple[list[Kept], bool]:
    """What is kept, and whether this is an install that begins now; while the database is away, as published.

    Raises PlanUnknown where that is not known either.
    """
    try:
        written = DatabaseDefinitions().definitions()
        never_kept = not written and not DatabaseStore().aggregations()
        return kept_again(written, config), never_kept and DatabaseInstall().is_new(now_ms)
    except StoreError as error:
        logger.warning("%s; what is kept is taken from Redis", error)
        return kept_again(shared.read()[1], config), False


def _ingest(
    config: Config, shards: Shards, metadata: SharedMetadata, clock: Clock, registry: CollectorRegistry
) -> Ingest:
    has_upstream = bool(config.query_engine.prometheus_server)
    limits = AppenderLimits(
        config.cluster.linger, config.redis.wait_replicas, has_upstream, config.head.max_bytes // _TABLE_SHARE
    )  # fmt: skip
    table = SeriesTable(config.engine.minibatch.hash_seed, len(shards))
    appender = Appender(shards, table, SharedNotes(shards.first, clock), clock, limits)
    registry.register(AppenderCollector(appender))
    elections = SharedElections(shards.first, config.ingest.ha.timeout, clock)
    scraping = _leader(config, shards, "scraping")
    return Ingest(appender, ingest_side(config, appender, elections, metadata, clock, registry, scraping.mine))


def _queries(
    config: Config, shards: Shards, shared: SharedPlan, kept: Sequence[Kept], metadata: SharedMetadata, clock: Clock,
    registry: CollectorRegistry,
) -> Queries:  # fmt: skip
    batch, definitions = config.engine.minibatch, DatabaseDefinitions()
    settings = FollowerSettings(
        batch.window_size, batch.hash_seed, config.head.retention, config.head.max_bytes, SUMMARY_CACHE_BYTES,
        config.query_engine.threads,
    )  # fmt: skip
    packs = Packs(PackReader(DatabaseStore(), SUMMARY_CACHE_BYTES), clock)
    notes = _notes(config, SharedNotes(shards.first, clock))
    follower = Follower(settings, shards, packs, in_service(kept), notes, clock)
    keeper = PlanKeeper(shared, lambda: kept_again(definitions.definitions(), config))
    plan = keeper.in_force = PlanInForce(follower.engine, definitions, kept, keeper.publish)
    keeper.publish()
    registry.register(Numbers(follower, FOLLOWER_GAUGES, FOLLOWER_COUNTERS))
    leader, board = _leader(config, shards, "planner"), SharedBoard(shards.first, _own_name())
    return Queries(follower, query_side(config, follower, plan, metadata, registry, leader.mine, board), keeper)


def _leader(config: Config, shards: Shards, what: str) -> Leader:
    """What one process of several does."""
    return Leader(shards.first, what, _own_name(), config.cluster.lease)


def _own_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _notes(config: Config, shared: SharedNotes) -> Callable[[], Notes]:
    """What the follower is told of metrics; since when they are received counts only where an upstream has the rest."""
    has_upstream = bool(config.query_engine.prometheus_server)

    def notes() -> Notes:
        received = shared.received_since() if has_upstream else {}
        return Notes(shared.histogram_metrics(), shared.partial_metrics(), received)

    return notes
