"""A node's write side in memory, for tests: real head, log and intake, a clock that the test moves."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from ingest.ha import HaLabels, OwnElections, ReplicaPairs
from ingest.limits import LabelLimits
from ingest.metrics import IngestMetrics
from ingest.remote_write import RemoteWrite
from ingest.series import SeriesResolver
from ingest.writer import Outcome, Writer
from precompute.clock import ManualClock
from precompute.head import Head
from precompute.intake import Intake, IntakeLimits
from precompute.labels import Labels, SeriesTable
from precompute.log.memory import MemorySampleLog
from precompute.metadata import Described
from precompute.progress import first_start
from precompute.progress_file import ProgressFile
from precompute.touched import Touched
from tests.ingest.wire import snappy

NOW_MS = 1_764_500_000_000
HOUR_MS = 3_600_000
HA = HaLabels("cluster", "__replica__")


@dataclass(frozen=True)
class Node:
    """The parts of one write side."""

    clock: ManualClock
    registry: CollectorRegistry
    table: SeriesTable
    log: MemorySampleLog
    intake: Intake
    writer: Writer
    remote_write: RemoteWrite
    metadata: dict[str, tuple[str, str, str]]

    def send(self, request: bytes) -> Outcome:
        """One remote-write request, unpacked, as Prometheus would send it."""
        return self.remote_write.write(snappy(request), "application/x-protobuf", "snappy")

    def kept(self) -> dict[Labels, list[tuple[int, float]]]:
        """All samples in the log, by labels, in the order written."""
        out: dict[Labels, list[tuple[int, float]]] = {}
        for entry in self.log.read(0, self.table):
            if entry.block is not None:
                columns = (entry.block.sid.tolist(), entry.block.t_ms.tolist(), entry.block.value.tolist())
                for sid, t_ms, value in zip(*columns, strict=True):
                    out.setdefault(self.table.labels_of(sid), []).append((t_ms, value))
        return out

    def count(self, metric: str, **labels: str) -> float:
        """A metric's value; 0 where it was never counted."""
        return self.registry.get_sample_value(metric, labels) or 0.0


def make_node(
    folder: Path,
    *,
    limits: LabelLimits | None = None,
    ha: HaLabels = HA,
    table: SeriesTable | None = None,
    max_body_bytes: int = 1 << 20,
    log_bytes: int = 1 << 28,
    has_upstream: bool = False,
) -> Node:
    """A node whose acceptance age is an hour."""
    clock, table, registry = ManualClock(NOW_MS), table or SeriesTable(), CollectorRegistry()
    log = MemorySampleLog(table, log_bytes)
    intake = Intake(
        Head(table, 1 << 28), log, first_start(NOW_MS, HOUR_MS, False), ProgressFile(folder / "state.json"),
        Touched(15_000), clock, IntakeLimits(60_000, 1 << 30, 15_000, has_upstream),
    )  # fmt: skip
    intake.open()
    metrics = IngestMetrics(registry)
    pairs = ReplicaPairs(ha, OwnElections(30_000, clock))
    writer = Writer(intake, SeriesResolver(intake, limits or LabelLimits(), pairs), metrics)
    metadata: dict[str, tuple[str, str, str]] = {}

    def note(described: Sequence[Described]) -> None:
        metadata.update((family, astuple(said)) for family, said in described)

    remote_write = RemoteWrite(intake, writer, metrics, note, max_body_bytes)
    return Node(clock, registry, table, log, intake, writer, remote_write, metadata)
