"""The Django application of the query side; the project's wiring puts the running parts on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

if TYPE_CHECKING:  # commands that answer no queries start without the kernels
    from prometheus_client import CollectorRegistry

    from precompute.aggregations import Aggregation
    from precompute.clock import Clock
    from precompute.in_force import PlanInForce
    from query.engine import QueryEngine
    from query.metrics import QueryMetrics
    from query.origins import Origins
    from query.query_log import QueryLog
    from query.replanner import Replanner
    from query.series import SeriesQueries
    from query.slots import Slots
    from query.status import NodeStatus
    from query.tiers.labelled import LabelledUpstream
    from query.usage import Usage
    from query.watch import AccuracyWatch


@dataclass(frozen=True)
class QueryParts:
    """What the views answer from."""

    engine: QueryEngine
    series: SeriesQueries
    upstream: LabelledUpstream | None
    registry: CollectorRegistry
    """What /metrics shows."""
    metrics: QueryMetrics
    slots: Slots
    ready: Callable[[], str | None]
    """None when queries can be answered, else why not."""
    healthy: Callable[[], str | None]
    """None when all is well, else what is not."""
    clock: Clock
    timeout_ms: int
    """query_engine.timeout."""
    max_points: int
    """query_engine.max_points."""
    max_samples: int
    """query_engine.max_samples."""
    lookback_ms: int
    """query_engine.lookback_delta."""
    version: str
    """ASAP's own."""
    status: NodeStatus
    origins: Origins
    query_log: QueryLog | None
    """query_engine.query_log_file; None where there is none."""
    plan: PlanInForce
    aggregation: Callable[[Mapping[str, Any]], Aggregation]
    """From an item as in the config's list. Raises BadExpression."""
    usage: Usage
    replanner: Replanner | None
    """None where planner.enabled is off."""
    watch: AccuracyWatch | None
    """None where planner.watch_share is 0."""


class QueryConfig(AppConfig):
    """`parts` is None until the node has started."""

    name = "query"
    parts: QueryParts | None = None
