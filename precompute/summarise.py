"""From the head to summaries: one expression, evaluated at many pane ends, grouped for each aggregation."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from precompute.aggregations import Aggregation, group_keys
from precompute.errors import ExecutionError, LimitExceeded, TimedOut, Unsupported
from precompute.evaluate.context import Evaluation, Source
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.expr import Expr
from precompute.evaluate.label_hash import label_hashes
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Vector, nothing
from precompute.normal import of_one_series
from precompute.samples import I32, I64, U8
from precompute.sketches.base import Vectors
from precompute.summaries import FAILED, GroupKey, Summary, build, pack

logger = logging.getLogger(__name__)

PLAN = 1
"""Number of the plan in force; a single plan lasts as long as the config does."""


@dataclass(frozen=True)
class Panes:
    """What a Summary says of its panes beside their rows; columns as there."""

    ends_ms: I64
    seen: I64
    plan: I64
    flags: U8

    def failed(self) -> "Panes":
        """The same panes, marked FAILED."""
        return replace(self, flags=self.flags | np.uint8(FAILED))

    def halves(self) -> list["Panes"]:
        """The earlier ones and the later ones."""
        columns = (np.array_split(column, 2) for column in (self.ends_ms, self.seen, self.plan, self.flags))
        return [Panes(*half) for half in zip(*columns, strict=True)]


def summarise(
    aggregations: Sequence[Aggregation], ends_ms: I64, entry: int, source: Source, budget: Budget
) -> list[Summary]:
    """Summaries of the panes `ends_ms` (int64[p], ascending) for aggregations of one expression and lookback.

    entry: the newest log entry that the head holds; what came later may be in the values too, and makes the
    panes dirty again. Marked FAILED come out a pane whose evaluation is an error in PromQL or passes the budget's
    sizes, and all of them once the budget's time is up: what takes so long must not keep others waiting.
    """
    expr = aggregations[0].expr

    def values(ends_ms: I64) -> Vector:
        return vector_of(expr, evaluation(aggregations[0], ends_ms, source, budget))

    def kept(vector: Vector, panes: Panes) -> list[Summary]:
        vector = vector if of_one_series(expr) else in_hash_order(vector)
        return [grouped(aggregation, vector, panes) for aggregation in aggregations]

    return marked(values, kept, panes_at(ends_ms, entry), expr)


def marked(
    values: Callable[[I64], Vector], kept: Callable[[Vector, Panes], list[Summary]], panes: Panes, expr: Expr
) -> list[Summary]:
    """What is kept of the `values` at the panes' ends; see `summarise` for the panes that come out FAILED."""
    try:
        vector = values(panes.ends_ms)
    except TimedOut:
        logger.warning("%s takes too long to be kept; %d panes have no summary", expr, len(panes.ends_ms))
    except (ExecutionError, LimitExceeded, Unsupported):
        if len(panes.ends_ms) > 1:
            # in the end only those are marked that fail alone
            halves = [marked(values, kept, half, expr) for half in panes.halves()]
            return [pack(parts) for parts in zip(*halves, strict=True)]
    else:
        return kept(vector, panes)
    return kept(nothing(len(panes.ends_ms)), panes.failed())


def panes_at(ends_ms: I64, entry: int) -> Panes:
    """Panes that are computed now, from what the log holds up to `entry`."""
    every = np.full(len(ends_ms), 1, np.int64)
    return Panes(ends_ms, every * entry, every * PLAN, np.zeros(len(ends_ms), np.uint8))


def evaluation(aggregation: Aggregation, ends_ms: I64, source: Source, budget: Budget) -> Evaluation:
    """What the aggregation's expression is evaluated against at panes' ends."""
    return Evaluation(source, ends_ms, aggregation.lookback_ms, budget, int(ends_ms[0]), int(ends_ms[-1]))


def vector_of(expr: Expr, at: Evaluation) -> Vector:
    """The value of a kept expression, or of a part that is an instant vector. Raises QueryError's kinds."""
    vector = evaluate(expr, at)
    assert isinstance(vector, Vector), "only instant vectors are kept"
    return vector


def in_hash_order(vector: Vector) -> Vector:
    """Rows in order of their labels' hash: what an operator left first depends on which panes are made together."""
    ordered = vector.take(np.argsort(label_hashes(vector.frame), kind="stable"))
    return replace(ordered, shard=np.zeros(len(ordered), np.int32))


def grouped(aggregation: Aggregation, vector: Vector, panes: Panes) -> Summary:
    """The aggregation's Summary of the values of its expression."""
    frame, group = aggregation.frame(vector.frame).groups()
    return by_key(vector, group, group_keys(frame, aggregation), aggregation.accumulators, panes)


def by_key(
    vector: Vector, group: I32, keys: Sequence[GroupKey], accumulators: Sequence[str], panes: Panes
) -> Summary:
    """A Summary of a vector of which row i belongs to the group with the key `keys[group[i]]`; keys in any order."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(keys), np.int32)
    rank[order] = np.arange(len(keys), dtype=np.int32)
    vectors = Vectors(vector.values, vector.present, rank[group], vector.shard, len(keys))
    names = tuple(keys[i] for i in order)
    return build(vectors, names, accumulators, panes.ends_ms, panes.seen, panes.plan, panes.flags)
