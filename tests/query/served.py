"""A node and its query side for tests: the real parts, in one process, with a clock that the test moves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from asap_project.config.schema import Config
from asap_project.wiring import node_settings, query_parts
from precompute.clock import ManualClock
from precompute.definitions import MemoryDefinitions
from precompute.in_force import PlanInForce
from precompute.metadata import MetricMetadata
from precompute.node import Node
from precompute.samples import Block
from precompute.stores.memory import MemoryStore
from query.apps import QueryParts

NOW_MS = 1_764_500_000_000
NOW_S = NOW_MS // 1000


@dataclass(frozen=True)
class Served:
    """What a test needs of a running node."""

    clock: ManualClock
    node: Node
    metadata: MetricMetadata
    parts: QueryParts

    def write(self, labels: Mapping[str, str], points: Sequence[tuple[int, float]]) -> None:
        """Samples of one series: times in ms, values."""
        table = self.node.head.table
        sid = table.intern(tuple(sorted(labels.items())))
        t_ms, values = np.array([t for t, _ in points], np.int64), np.array([v for _, v in points], np.float64)
        admitted = self.node.intake.write(Block(np.full(len(points), sid, np.int32), t_ms, values), table)
        assert admitted.accepted == len(points)

    def count(self, metric: str, **labels: str) -> float:
        """A metric's value; 0 where it was never counted."""
        return self.parts.registry.get_sample_value(metric, labels) or 0.0


@contextmanager
def served(folder: Path, **query_engine: Any) -> Iterator[Served]:
    """A node that is ready and has no samples; `query_engine` are options of that name."""
    clock, metadata = ManualClock(NOW_MS), MetricMetadata()
    config = Config.model_validate({"data_dir": str(folder), "log": {"min_free_disk": 0}, "query_engine": query_engine})
    node = Node(node_settings(config), MemoryStore(), (), clock)
    plan = PlanInForce(node.engine, MemoryDefinitions(), (), lambda: None)
    node.start()
    assert node.wait_until_rebuilt()
    try:
        yield Served(clock, node, metadata, query_parts(config, node, plan, metadata, CollectorRegistry()))
    finally:
        node.shutdown()
