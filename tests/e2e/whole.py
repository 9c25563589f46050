"""A whole node in this process, from its HTTP views to its summaries, with a clock that the test moves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from django.apps import apps
from django.test import Client
from prometheus_client import CollectorRegistry

from asap_project.config.schema import Config
from asap_project.keeping import kept_again
from asap_project.wiring import node_settings, query_parts
from ingest.apps import IngestConfig
from ingest.ha import HaLabels, OwnElections, ReplicaPairs
from ingest.limits import LabelLimits
from ingest.metrics import IngestMetrics
from ingest.remote_write import RemoteWrite
from ingest.series import SeriesResolver
from ingest.writer import Writer
from precompute.clock import ManualClock
from precompute.definitions import MemoryDefinitions
from precompute.in_force import PlanInForce
from precompute.metadata import MetricMetadata
from precompute.node import Node
from precompute.sinks import DirectSink
from precompute.stores.memory import MemoryStore
from query.apps import QueryConfig
from tests.e2e.talking import SNAPPY
from tests.ingest.wire import snappy

FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Whole:
    """A node behind its views."""

    clock: ManualClock
    node: Node
    client: Client

    def write(self, request: bytes) -> int:
        """The status of a remote-write request, given unpacked."""
        headers = {"Content-Encoding": SNAPPY["Content-Encoding"]}
        answer = self.client.post("/api/v1/write", snappy(request), SNAPPY["Content-Type"], headers=headers)
        return int(answer.status_code)

    def ask(self, path: str, params: Mapping[str, str]) -> tuple[int, bytes, str, str]:
        """Status, body, tiers and bound of an answer of the query API."""
        answer = self.client.post(path, dict(params))
        return answer.status_code, answer.content, answer.get("X-ASAP-Tier", ""), answer.get("X-ASAP-Bound", "")

    def tick(self) -> None:
        self.node.engine.run(DirectSink(self.node.store))

    def pass_time(self, ms: int) -> None:
        """The clock goes on, and the node is alive."""
        self.clock.advance(ms)
        self.node.intake.heartbeat()


@contextmanager
def whole(folder: Path, now_ms: int, aggregations: Sequence[Mapping[str, Any]], **minibatch: str) -> Iterator[Whole]:
    """A node that is ready and has no samples; `minibatch` are options of engine.minibatch."""
    config = Config.model_validate(
        {
            "data_dir": str(folder),
            "log": {"min_free_disk": 0},
            "engine": {"minibatch": minibatch},
            "aggregations": list(aggregations),
        }
    )
    clock, registry, metadata = ManualClock(now_ms), CollectorRegistry(), MetricMetadata()
    kept = kept_again((), config)
    node = Node(node_settings(config), MemoryStore(), [one.aggregation for one in kept], clock)
    plan = PlanInForce(node.engine, MemoryDefinitions(), kept, lambda: None)
    resolver = SeriesResolver(node.intake, LabelLimits(), ReplicaPairs(HaLabels(), OwnElections(30_000, clock)))
    metrics = IngestMetrics(registry)
    receiver = RemoteWrite(
        node.intake, Writer(node.intake, resolver, metrics), metrics, metadata.note, config.ingest.max_body
    )
    ingest, query = (
        cast(IngestConfig, apps.get_app_config("ingest")),
        cast(QueryConfig, apps.get_app_config("query")),
    )
    node.start()
    assert node.wait_until_rebuilt()
    ingest.remote_write, query.parts = receiver, query_parts(config, node, plan, metadata, registry)
    try:
        yield Whole(clock, node, Client())
    finally:
        ingest.remote_write, query.parts = None, None
        node.shutdown()
