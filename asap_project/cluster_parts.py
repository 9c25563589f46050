"""What every role of a cluster is made of: its shards on servers that are fit for them, and the plan in force."""

from functools import partial

from asap_project.config import Config
from asap_project.keeping import kept_again
from asap_project.redis_setup import look_at
from precompute.clock import Clock
from precompute.cluster.fitness import judge_log
from precompute.cluster.plan import PlanFollower, SharedPlan
from precompute.cluster.replies import ShardLimits
from precompute.cluster.shards import Shards
from precompute.cluster.shared import agree, take_places


def kept_ms(config: Config) -> int:
    """R: how far before `final` samples are kept."""
    batch = config.engine.minibatch
    return max(batch.max_reach, config.head.retention - batch.acceptance_age)


def shards_of(config: Config) -> Shards:
    """All shards, each with its share of the log's bytes."""
    batch, count = config.engine.minibatch, config.engine.minibatch.shards
    limits = ShardLimits(
        acceptance_ms=batch.acceptance_age, future_ms=config.ingest.max_future, lateness_ms=batch.allowed_lateness,
        kept_ms=kept_ms(config), segment_ms=config.cluster.segment, lease_ms=config.cluster.lease,
        log_max_bytes=config.log.max_bytes // count, max_backlog_bytes=config.log.max_backlog // count,
    )  # fmt: skip
    return Shards(config.redis.log_urls, count, limits)


def plan_follower(config: Config, plan: SharedPlan, clock: Clock) -> PlanFollower:
    """The aggregations in force, as far as this config allows them."""
    return PlanFollower(plan, partial(kept_again, config=config), clock)


def agree_on(config: Config, shards: Shards) -> None:
    """Fix, or find fixed alike, what all roles must take for the same. Raises InstallMismatch, ServerDown."""
    batch = config.engine.minibatch
    take_places(shards)
    agree(
        shards,
        {
            "engine.minibatch.shards": batch.shards,
            "engine.minibatch.hash_seed": batch.hash_seed,
            "engine.minibatch.window_size": batch.window_size,
            "engine.minibatch.allowed_lateness": batch.allowed_lateness,
            "engine.minibatch.acceptance_age": batch.acceptance_age,
            "engine.minibatch.max_reach": batch.max_reach,
            "ingest.max_future": config.ingest.max_future,
            "cluster.segment": config.cluster.segment,
            "redis.log_urls (how many)": len(config.redis.log_urls),
        },
    )


def look_at_logs(config: Config, shards: Shards) -> None:
    """Warn of servers of the log that would lose something. Raises UnfitServer for one that may not hold samples."""
    held_bytes = config.log.max_bytes + config.redis.max_summary_bytes
    for server in shards.servers:
        mine = sum(shard.server is server for shard in shards.all)
        look_at(server, partial(judge_log, held_bytes=held_bytes * mine // len(shards)))
