"""A streaming worker put together: settings in, the kicks that Celery's tasks follow out."""

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from asap_project.cluster_parts import agree_on, kept_ms, look_at_logs, plan_follower, shards_of
from asap_project.config import Config
from asap_project.health import Condition, serve_health
from asap_project.warm import warm
from precompute.clock import SystemClock
from precompute.cluster.crew import Crew
from precompute.cluster.kicks import Kicks
from precompute.cluster.metrics import ShardCollector, WorkerCollector
from precompute.cluster.plan import SharedPlan
from precompute.cluster.storing import Storing
from precompute.cluster.worker import ShardWorkers, WorkerSettings
from precompute.engines.minibatch import EngineLimits
from precompute.stores.database import DatabaseStore

_UNHEALTHY_WINDOWS = 4


def streaming_worker(config: Config, name: str) -> Kicks:
    """Build a worker and serve its health. Raises PrecomputeError where the install does not allow it."""
    warm()
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library left it unannotated
    clock, shards, database = SystemClock(), shards_of(config), DatabaseStore()
    look_at_logs(config, shards)
    agree_on(config, shards)
    plan = plan_follower(config, SharedPlan(shards.first), clock)
    window_ms = config.engine.minibatch.window_size
    storing = Storing(shards, database, config.redis.max_summary_bytes, window_ms, clock)
    workers = ShardWorkers(shards, _settings(config, name), plan.kept, database, clock, storing)
    kicks = Kicks(workers, shards, Crew(shards.first), window_ms, clock)
    registry = CollectorRegistry()
    for collector in (ShardCollector(shards, clock), WorkerCollector(workers, kicks), ProcessCollector(registry=None)):
        registry.register(collector)

    def unhealthy() -> str | None:
        return _why_unhealthy(workers, window_ms)

    serve_health(config.cluster, Condition(unhealthy, kicks.why_not_ready, registry))
    return kicks


def _settings(config: Config, name: str) -> WorkerSettings:
    batch = config.engine.minibatch
    limits = EngineLimits(
        batch.acceptance_age, batch.allowed_lateness, kept_ms(config), batch.max_reach, tick_ms=batch.window_size
    )  # fmt: skip
    return WorkerSettings(
        name, batch.window_size, batch.hash_seed, config.head.max_bytes, batch.batch_size, limits
    )  # fmt: skip


def _why_unhealthy(workers: ShardWorkers, window_ms: int) -> str | None:
    """None while a tick of what is held ended lately, or nothing is held for that long."""
    late_ms = workers.late_ms()
    return f"no tick has ended for {late_ms / 1000:.0f} s" if late_ms > _UNHEALTHY_WINDOWS * window_ms else None
