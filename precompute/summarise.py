"""From the head to summaries: one expression, evaluated at many pane ends, grouped for each aggregation."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from precompute.aggregations import Aggregation, group_keys
from precompute.errors import ExecutionError, LimitExceeded, TimedOut, Unsupported
from precompute.evaluate.context import Evaluation, Source
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.label_hash import label_hashes
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Vector, nothing
from precompute.normal import of_one_series
from precompute.samples import I64, U8
from precompute.sketches.base import Vectors
from precompute.summaries import FAILED, Summary, build, pack

logger = logging.getLogger(__name__)

PLAN = 1
"""Number of the plan in force; a single plan lasts as long as the config does."""


def summarise(
    aggregations: Sequence[Aggregation], ends_ms: I64, entry: int, source: Source, budget: Budget
) -> list[Summary]:
    """Summaries of the panes `ends_ms` (int64[p], ascending) for aggregations of one expression and lookback.

    entry: the newest log entry that the head holds; what came later may be in the values too, and makes the
    panes dirty again. Marked FAILED come out a pane whose evaluation is an error in PromQL or passes the budget's
    sizes, and all of them once the budget's time is up: what takes so long must not keep others waiting.
    """
    first = aggregations[0]
    at = Evaluation(source, ends_ms, first.lookback_ms, budget, int(ends_ms[0]), int(ends_ms[-1]))
    try:
        vector = evaluate(first.expr, at)
    except TimedOut:
        logger.warning("%s takes too long to be kept; %d panes have no summary", first.expr, len(ends_ms))
        return [_failed(a, ends_ms, entry) for a in aggregations]
    except (ExecutionError, LimitExceeded, Unsupported):
        if len(ends_ms) == 1:
            return [_failed(a, ends_ms, entry) for a in aggregations]
        return _in_halves(aggregations, ends_ms, entry, source, budget)
    assert isinstance(vector, Vector), "only instant vectors are kept"
    if not of_one_series(first.expr):
        vector = _in_order(vector)
    return [_grouped(a, vector, ends_ms, entry, np.zeros(len(ends_ms), np.uint8)) for a in aggregations]


def _in_halves(
    aggregations: Sequence[Aggregation], ends_ms: I64, entry: int, source: Source, budget: Budget
) -> list[Summary]:
    """The same where some pane fails, so that in the end only that one is marked."""
    halves = np.array_split(ends_ms, 2)
    from_halves = [summarise(aggregations, half, entry, source, budget) for half in halves]
    return [pack(parts) for parts in zip(*from_halves, strict=True)]


def _failed(aggregation: Aggregation, ends_ms: I64, entry: int) -> Summary:
    return _grouped(aggregation, nothing(len(ends_ms)), ends_ms, entry, np.full(len(ends_ms), FAILED, np.uint8))


def _in_order(vector: Vector) -> Vector:
    """Rows in order of their labels' hash: what an operator left first depends on which panes are made together."""
    ordered = vector.take(np.argsort(label_hashes(vector.frame), kind="stable"))
    return replace(ordered, shard=np.zeros(len(ordered), np.int32))


def _grouped(aggregation: Aggregation, vector: Vector, ends_ms: I64, entry: int, flags: U8) -> Summary:
    frame, group = aggregation.frame(vector.frame).groups()
    keys = group_keys(frame, aggregation)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(keys), np.int32)
    rank[order] = np.arange(len(keys), dtype=np.int32)
    vectors = Vectors(vector.values, vector.present, rank[group], vector.shard, len(keys))
    every = np.full(len(ends_ms), 1, np.int64)
    return build(
        vectors, tuple(keys[i] for i in order), aggregation.accumulators, ends_ms, every * entry, every * PLAN, flags
    )
