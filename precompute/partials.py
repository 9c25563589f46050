"""Summaries by shard: what each shard makes of its own series, and how the parts become the Summary of all.

    shard 0's series ──shard_summaries──▶ part 0 ─┐
    shard 1's series ──shard_summaries──▶ part 1 ─┼─merged─▶ what `summarise` makes of all series, to the bit
    …                                             ┘

Of an expression of one series a part is the aggregation's own Summary, of this shard's series. Any other expression is
evaluated in two stages: shards evaluate its largest sub-expressions that look at one series alone (its leaves), and the
rest is evaluated over the leaves' values. Then a part has a row for each leaf, series and pane: the key is the labels
and, under the empty label name that nothing else has, the leaf's number; the state is `min`, which of one value is that
value. The order of rows decides nothing in the second stage: no operator adds up rows but `histogram_quantile` and
`histogram_fraction`, of equal bounds and in order of their texts, and the result is put in order of its own labels.

One error is not seen: where a function takes the metric's type and unit off two series that differ in nothing else,
PromQL knows no answer; an expression of one series, whose groups no longer tell its series apart, counts both if they
lie in different shards.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from precompute.aggregations import Aggregation
from precompute.errors import ExecutionError, Unsupported
from precompute.evaluate.context import Source
from precompute.evaluate.expr import Call, Expr, Range, Selector, Subquery, children, selectors, walk
from precompute.evaluate.functions import MADE_BY_SERIES
from precompute.evaluate.functions.misc import samples_of_absent
from precompute.evaluate.functions.results import with_label
from precompute.evaluate.limits import Budget
from precompute.evaluate.names import unique
from precompute.evaluate.types import type_of
from precompute.evaluate.values import Frame, Matrix, Vector, joined
from precompute.labels import Labels
from precompute.normal import of_one_series
from precompute.runs import SymbolTable
from precompute.samples import F64, I64
from precompute.summaries import FAILED, Summary, common_panes, fold, select
from precompute.summarise import (
    Panes,
    by_key,
    evaluation,
    grouped,
    in_hash_order,
    marked,
    panes_at,
    summarise,
    vector_of,
)

LEAF = ""
"""The label that names a row's leaf."""
_VALUE = "min"


def first_stage(aggregation: Aggregation) -> tuple[Expr, ...]:
    """The leaves that shards evaluate, each once; none of an expression of one series."""
    expr = aggregation.expr
    return () if of_one_series(expr) else tuple(dict.fromkeys(leaf for leaf in _leaves(expr) if _by_series(leaf)))


def why_not_by_shard(expr: Expr) -> str:
    """Why an expression that can be kept cannot be made of shards' parts; empty if it can."""
    for leaf in _leaves(expr):
        if isinstance(leaf, Subquery) and not _by_series(leaf.expr):
            return "a subquery over several series together, whose values between panes are not kept"
        if isinstance(leaf, (Range, Subquery)):
            return "a range function with a parameter made of series"
    return ""


def shard_summaries(
    aggregations: Sequence[Aggregation], ends_ms: I64, entry: int, source: Source, budget: Budget
) -> list[Summary]:
    """One shard's parts for aggregations of one expression and lookback; `source` reads the shard's series alone.

    See `summarise` for the arguments and for the panes that come out FAILED; where `why_not_by_shard`, all do.
    """
    expr = aggregations[0].expr
    if of_one_series(expr):
        return summarise(aggregations, ends_ms, entry, source, budget)
    leaves, why = first_stage(aggregations[0]), why_not_by_shard(expr)

    def values(ends_ms: I64) -> Vector:
        if why:
            raise Unsupported(why)
        at = evaluation(aggregations[0], ends_ms, source, budget)
        return joined([_named(vector_of(leaf, at), n) for n, leaf in enumerate(leaves)], len(ends_ms))

    (columns,) = marked(values, _columns, panes_at(ends_ms, entry), expr)
    return [replace(columns, flags=columns.flags.copy()) for _ in aggregations]


def merged(aggregation: Aggregation, parts: Sequence[Summary], budget: Budget) -> Summary:
    """The aggregation's Summary out of all shards' parts, in order of shards, of the same panes.

    A pane FAILED where a shard's did or the second stage does; see `summarise`. Raises ValueError for parts of
    different panes, or none.
    """
    if of_one_series(aggregation.expr):
        return fold(parts)
    leaves = first_stage(aggregation)
    panes = Panes(parts[0].ends_ms, *common_panes(parts))

    def values(ends_ms: I64) -> Vector:
        picks = np.searchsorted(panes.ends_ms, ends_ms)
        if (panes.flags[picks] & FAILED).any():
            raise ExecutionError("the evaluation of a shard's series failed")
        at = evaluation(aggregation, ends_ms, _NoSource(), budget)
        rows = _rows([select(part, picks) for part in parts], budget)
        return vector_of(aggregation.expr, replace(at, known=_by_leaf(leaves, rows)))

    def kept(vector: Vector, panes: Panes) -> list[Summary]:
        return [grouped(aggregation, in_hash_order(vector), panes)]

    return marked(values, kept, panes, aggregation.expr)[0]


# -- which parts of an expression look at one series alone


def _leaves(expr: Expr) -> Iterator[Expr]:
    """The largest sub-expressions made series by series, from left to right, and ranges that stand in none of them."""
    if _by_series(expr) or isinstance(expr, (Range, Subquery)):
        yield expr
    elif isinstance(expr, Call) and expr.function == "absent_over_time":
        made = samples_of_absent(expr)
        yield made if _by_series(made) else made.args[0]
    else:
        for child in children(expr):
            yield from _leaves(child)


def _by_series(expr: Expr) -> bool:
    """Whether the expression is an instant vector each of whose rows is made of one series and the time alone."""
    if len(selectors(expr)) != 1 or type_of(expr) != "vector":
        return False
    calls = [node for node in walk(expr) if isinstance(node, Call)]
    return all(
        call.function in MADE_BY_SERIES and (bool(selectors(call)) or type_of(call) == "scalar") for call in calls
    )


# -- rows of leaves, and back


def _named(vector: Vector, leaf: int) -> Vector:
    every = np.ones(len(vector), np.bool_)
    return vector.with_frame(with_label(vector.frame, LEAF, every, [str(leaf)], np.zeros(len(vector), np.int32)))


def _columns(vector: Vector, panes: Panes) -> list[Summary]:
    keys = [vector.frame.labels(row) for row in range(len(vector))]
    return [by_key(vector, np.arange(len(keys), dtype=np.int32), keys, (_VALUE,), panes)]


def _rows(parts: Sequence[Summary], budget: Budget) -> Vector:
    """The rows of all leaves, part by part."""
    first = np.cumsum([0, *(len(part.keys) for part in parts)])
    shape = (int(first[-1]), parts[0].panes)
    budget.cells(*shape)
    values, present = np.zeros(shape), np.zeros(shape, np.bool_)
    for part, begin in zip(parts, first[:-1].tolist(), strict=True):
        cells = begin + part.group, part.pane_of_row()
        values[cells], present[cells] = part.states[_VALUE][_VALUE], True
    keys = [cast(Labels, key) for part in parts for key in part.keys]
    return Vector(_frame(keys), values, present, np.zeros(shape[0], np.int32)).seen()


def _frame(rows: Sequence[Labels]) -> Frame:
    names = sorted({LEAF, *(name for labels in rows for name, _ in labels)})
    place, symbols = {name: k for k, name in enumerate(names)}, SymbolTable()
    codes = np.zeros((len(rows), len(names)), np.int32)
    columns = [place[name] for labels in rows for name, _ in labels]
    filled = np.repeat(np.arange(len(rows)), [len(labels) for labels in rows]), np.array(columns, np.int64)
    codes[filled] = symbols.intern_texts(text for labels in rows for _, text in labels)
    return Frame(tuple(names), codes, symbols)


def _by_leaf(leaves: Sequence[Expr], rows: Vector) -> dict[Expr, Vector]:
    """The value of each leaf. Raises ExecutionError where two shards' rows of one have the same labels at a pane."""
    of = rows.frame.spread((LEAF,), rows.frame.symbols)[:, 0]
    bare = rows.with_frame(rows.frame.drop((LEAF,)))
    return {leaf: unique(bare.take(of == rows.frame.symbols.find(str(n)))) for n, leaf in enumerate(leaves)}


class _NoSource:
    """The Source of the second stage, which reads no selector: each is inside of a leaf."""

    def spread(self, work: Callable[[int, int], None], count: int) -> None:
        work(0, count)

    def series(self, selector: Selector, budget: Budget) -> int:
        raise AssertionError(f"{selector} is read in the second stage")

    def instant(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        raise AssertionError(f"{selector} is read in the second stage")

    def sample_times(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        raise AssertionError(f"{selector} is read in the second stage")

    def range(
        self, function: str, selector: Selector, range_ms: int, times: I64, parameters: F64, budget: Budget
    ) -> Vector:
        raise AssertionError(f"{selector} is read in the second stage")

    def samples(self, selector: Selector, range_ms: int, time_ms: int, budget: Budget) -> Matrix:
        raise AssertionError(f"{selector} is read in the second stage")
