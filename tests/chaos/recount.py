"""What each kept aggregation must say, counted again from the acknowledged samples by the core alone."""

from collections.abc import Mapping, Sequence

import numpy as np

from precompute.clock import SystemClock
from precompute.evaluate.context import Evaluation
from precompute.evaluate.evaluator import result
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.head import Head
from precompute.labels import Labels, SeriesTable
from precompute.samples import I64, Block
from precompute.selection import Index
from query.promql.parse import parse
from tests.chaos.load import Acknowledged

HEAD_BYTES = 1 << 28
TIMEOUT_MS = 60_000

Vectors = dict[int, dict[Labels, float]]
"""By pane end, ms, the values by labels."""


class Recount:
    """Exact answers over these samples alone."""

    def __init__(self, samples: Acknowledged, labels: Sequence[Labels], shards: int, lookback_ms: int) -> None:
        table = SeriesTable(shards=shards)
        ids = np.array([table.intern(one) for one in labels], np.int32)
        self._head, self._index, self._lookback_ms = Head(table, HEAD_BYTES), Index(), lookback_ms
        self._head.append(Block(ids[samples.series], samples.t_ms, samples.value))

    def at(self, query: str, ends_ms: I64) -> Vectors:
        """The query's values at these times."""
        budget = Budget(Limits(), SystemClock(), TIMEOUT_MS)
        source = HeadSource(self._head, self._index)
        first, last = int(ends_ms[0]), int(ends_ms[-1])
        value = result(parse(query), Evaluation(source, ends_ms, self._lookback_ms, budget, first, last))
        assert isinstance(value, Vector)
        return {int(end): _column(value, step) for step, end in enumerate(ends_ms)}


def _column(value: Vector, step: int) -> dict[Labels, float]:
    rows = np.flatnonzero(value.present[:, step])
    return {value.frame.labels(int(row)): float(value.values[row, step]) for row in rows}


def shards_of(labels: Sequence[Labels], shards: int) -> I64:
    """The shard of each series, by the hash that all roles use; int64[series]."""
    table = SeriesTable(shards=shards)
    ids = np.array([table.intern(one) for one in labels], np.int32)
    return table.shard_of(ids).astype(np.int64)


def differing(expected: Mapping[Labels, float], found: Mapping[Labels, float]) -> list[str]:
    """What is only in one of two vectors, and values that are not the same number to the bit."""
    return [
        f"{key}: {expected.get(key)!r} expected, {found.get(key)!r} found"
        for key in sorted(expected.keys() | found.keys())
        if repr(expected.get(key)) != repr(found.get(key))
    ]
