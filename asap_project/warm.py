"""Every kernel called once on a handful of samples: compiled into the cache at install, loaded from it at start.

It walks the real way, from a remote-write body to answers of both tiers, so that each kernel meets the types
that it will meet later.
"""

import struct
import tempfile
from contextlib import suppress
from pathlib import Path

import cramjam
import numpy as np
from prometheus_client import CollectorRegistry

from ingest.ha import HaLabels, OwnElections, ReplicaPairs
from ingest.kernels.warm import warm as warm_ingest
from ingest.limits import LabelLimits
from ingest.metrics import IngestMetrics
from ingest.remote_write import RemoteWrite
from ingest.series import SeriesResolver
from ingest.writer import Writer
from precompute.aggregations import Aggregation
from precompute.clock import ManualClock
from precompute.compaction import worth_compacting
from precompute.errors import ExecutionError
from precompute.evaluate.aggregate import OPERATORS
from precompute.evaluate.context import Features
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.labels import canonical_bytes
from precompute.metadata import MetricMetadata
from precompute.node import Node, NodeSettings
from precompute.sinks import DirectSink
from precompute.sketches.base import one_pane
from precompute.sketches.registry import accumulator, kept_of_vectors
from precompute.stores.memory import MemoryStore
from query.answers import Answer, Forwarded
from query.api.encode import answer
from query.api.exposition import exposition
from query.cache import ResultCache
from query.engine import EngineOptions, QueryEngine, Request
from query.mixed import MixedTiers
from query.promql.parse import parse, parse_selector
from query.recall import Memory
from query.series import ALWAYS, SeriesQueries
from query.tiers.head import HeadTier
from query.tiers.points import Wanted, read_answer
from query.tiers.summary import SummaryTier

_WIDTH_MS, _SERIES, _PANES = 15_000, 200, 8
_PARAMETERS = {"quantile": "0.9, ", "limit_ratio": "0.5, ", "count_values": '"v", '} | dict.fromkeys(
    ("topk", "bottomk", "limitk"), "2, "
)
_TEXTS = (
    "rate(warm[1m])", "histogram_quantile(0.9, warm)", "histogram_fraction(0, 1, warm)", "timestamp(warm)",
    "warm * on (g) group_left () max by (g) (warm)", "warm and warm", "warm > 20 or warm", "max_over_time(warm[1m:5s])",
    "warm[1m]", "warm / warm > 0", 'sum(warm{k=~"1.*"}) / count(warm)', "-warm", "2 * sum(rate(warm[1m]))",
)  # fmt: skip
_CLASHES = ("warm + on () warm", "warm + on () sum(warm)", 'label_replace(warm, "k", "", "", "")')
"""Queries that fail, by kernels that look for why."""
_NOW_MS = 1_700_000_000_000 // _WIDTH_MS * _WIDTH_MS


def warm() -> None:
    """Takes a minute or two where nothing is compiled yet, else a fraction of a second."""
    warm_ingest()
    _warm_accumulators()
    with tempfile.TemporaryDirectory(prefix="asap-warm-") as folder:
        clock, store = ManualClock(_NOW_MS), MemoryStore()
        node = Node(_settings(Path(folder)), store, _aggregations(), clock)
        node.start()
        node.wait_until_rebuilt()
        write = _remote_write(node, clock)
        for pane in range(_PANES):
            clock.advance(_WIDTH_MS)
            write.write(_body(clock.now_ms() - 1000, pane), "application/x-protobuf", "snappy")
            node.intake.heartbeat()
            node.engine.run(DirectSink(store))
        write.write(_body(clock.now_ms() - 4 * _WIDTH_MS, 0), "application/x-protobuf", "snappy")
        _ask(node, clock)
        worth_compacting(node.intake.head)
        node.head.trim(_NOW_MS)
        node.shutdown()


def _warm_accumulators() -> None:
    """What a query does to a kept accumulator; of those that answer the same, the queries above read only the best."""
    values, zeros = np.arange(200.0), np.zeros(200, np.int32)
    for name in kept_of_vectors():
        kept = accumulator(name)
        state = kept.merge(kept.build(one_pane(values, zeros, zeros, 1)), zeros[:1], 1)
        kept.check(state)
        for statistic in kept.answers:
            kept.estimate(state, statistic, 0.9)


def _settings(folder: Path) -> NodeSettings:
    hour_ms, room = 3_600_000, 1 << 30
    return NodeSettings(
        folder, _WIDTH_MS, _WIDTH_MS, hour_ms, hour_ms, hour_ms, 60_000, 0, 16, 1, 1, room, room, room, 0, 1000, False
    )


def _aggregations() -> tuple[Aggregation, ...]:
    every = kept_of_vectors()
    return tuple(
        Aggregation(parse(text), ("g",), without, every, _WIDTH_MS, 300_000, 3_600_000)
        for text, without in (("warm", False), ("warm", True), ("rate(warm[1m])", False))
    )


def _remote_write(node: Node, clock: ManualClock) -> RemoteWrite:
    metrics = IngestMetrics(CollectorRegistry())
    resolver = SeriesResolver(node.intake, LabelLimits(), ReplicaPairs(HaLabels(), OwnElections(30_000, clock)))
    return RemoteWrite(node.intake, Writer(node.intake, resolver, metrics), metrics, lambda *_: None, 1 << 20)


def _body(t_ms: int, pane: int) -> bytes:
    labels = [(("__name__", "warm"), ("g", str(k % 2)), ("k", str(k))) for k in range(_SERIES)]
    series = (_field(0x0A, canonical_bytes(one) + _sample(t_ms, k * pane)) for k, one in enumerate(labels))
    return bytes(cramjam.snappy.compress_raw(b"".join(series)))


def _sample(t_ms: int, value: float) -> bytes:
    return _field(0x12, b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(t_ms))


def _field(tag: int, payload: bytes) -> bytes:
    return bytes((tag,)) + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes((number,))


def _encode(made: Answer | Forwarded) -> None:
    """Write an answer as JSON, and read it as one of an upstream; without an upstream none is forwarded."""
    assert isinstance(made, Answer)
    body, ranged = answer(made), made.kind == "range"
    if isinstance(made.value, Vector):
        budget = Budget(Limits(), ManualClock(), 1000)
        read_answer(body, Wanted(made.times, _WIDTH_MS if ranged else 1, False, ranged), budget)


def _ask(node: Node, clock: ManualClock) -> None:
    source = node.source(1)
    options = EngineOptions(
        300_000, 600_000, 100, Limits(), _WIDTH_MS, False, features=Features(experimental_functions=True)
    )
    head = HeadTier(node.head, node.progress, clock, 3_600_000, False)
    memory = Memory(ResultCache(1 << 20), node.engine, node.head)
    tiers = MixedTiers(SummaryTier(node.engine, node.progress, False), head, None, False, memory, clock)
    engine = QueryEngine(
        tiers, head, None, source, lambda: node.engine.aggregations, node.engine.sealed_ms, options, clock
    )  # fmt: skip
    sealed_ms = clock.now_ms() - 2 * _WIDTH_MS
    texts = [f"{op} by (g) ({_PARAMETERS.get(op, '')}warm)" for op in sorted(OPERATORS)] + list(_TEXTS)
    for text in texts:
        for end_ms in (sealed_ms, sealed_ms + 1):
            _encode(engine.instant(text, end_ms, Request()))
            if text != "warm[1m]":
                _encode(engine.range(text, end_ms - 3 * _WIDTH_MS, end_ms, _WIDTH_MS, Request()))
    for text in _CLASHES:
        with suppress(ExecutionError):
            _encode(engine.instant(text, sealed_ms + 1, Request()))
    catalogue = SeriesQueries(node.index, node.head, MetricMetadata())
    catalogue.series((), *ALWAYS)
    exposition(catalogue.newest((parse_selector("warm"),), sealed_ms, 300_000, _SERIES), False)
