"""What every role of a cluster is made of: its shards, and the plan in force."""

from functools import partial

from asap_project.config import Config
from asap_project.keeping import kept_again
from precompute.cluster.plan import PlanFollower, SharedPlan
from precompute.cluster.shard import ShardLimits
from precompute.cluster.shards import Shards


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


def plan_follower(config: Config, plan: SharedPlan) -> PlanFollower:
    """The aggregations in force, as far as this config allows them."""
    return PlanFollower(plan, partial(kept_again, config=config))
