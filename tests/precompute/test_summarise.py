"""Summaries of many panes at once: grouping, empty panes, and panes whose evaluation fails."""

from random import Random

import numpy as np
import pytest

from precompute.aggregations import Aggregation
from precompute.clock import ManualClock
from precompute.errors import ExecutionError
from precompute.evaluate.expr import Selector
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.head import Head
from precompute.labels import Labels, SeriesTable
from precompute.normal import normal, why_not_kept, with_steps
from precompute.samples import F64, I64
from precompute.selection import Index
from precompute.summaries import FAILED, select
from precompute.summarise import summarise
from query.promql.parse import parse
from tests.precompute.kept_expressions import Drawing, world
from tests.precompute.made_node import LOOKBACK_MS, START_MS, WIDTH_MS, aggregation, series
from tests.precompute.made_summaries import same
from tests.reference import worlds
from tests.reference.worlds import block


class FailsAt(HeadSource):
    """The head, on which every evaluation at one of some times is an error."""

    times: tuple[int, ...] = ()

    def instant(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        if lookback_ms and np.isin(times, self.times).any():
            raise ExecutionError("many-to-many matching not allowed")
        return super().instant(selector, times, lookback_ms, budget)

    def range(
        self, function: str, selector: Selector, range_ms: int, times: I64, parameter: F64, budget: Budget
    ) -> Vector:
        raise NotImplementedError


def source(rows: list[tuple[Labels, int, float]]) -> FailsAt:
    head = Head(SeriesTable(), 1 << 24)
    head.append(block([(head.table.intern(labels), t, v) for labels, t, v in rows]))
    return FailsAt(head, Index())


def budget() -> Budget:
    return Budget(Limits(), ManualClock(), 60_000)


ENDS = np.array([START_MS + k * WIDTH_MS for k in range(9)], np.int64)
ROWS = [
    (series("m", g=g, i=str(i)), START_MS + k * 60_000, float(i + k)) for g in "ab" for i in range(3) for k in (0, 9)
]
KEPT = [aggregation("m", ["g"]), aggregation("m", ["i"], without=True), aggregation("m", [])]


def test_panes_together_are_the_panes_alone() -> None:
    reading = source(ROWS)
    together = summarise(KEPT, ENDS, 5, reading, budget())
    for kept, whole in zip(KEPT, together, strict=True):
        assert whole.ends_ms.tolist() == ENDS.tolist()
        assert set(whole.seen.tolist()) == {5}
        assert not whole.flags.any()
        for k, end in enumerate(ENDS):
            (alone,) = summarise([kept], np.array([end]), 5, reading, budget())
            assert same(alone, select(whole, np.array([k])))


@pytest.mark.parametrize("failing", [(3,), (0, 8), (1, 2, 3), tuple(range(9))])
def test_only_the_panes_that_fail_are_marked_and_they_have_no_rows(failing: tuple[int, ...]) -> None:
    reading = source(ROWS)
    right = summarise(KEPT, ENDS, 5, reading, budget())
    reading.times = tuple(int(ENDS[k]) for k in failing)
    for whole, good in zip(summarise(KEPT, ENDS, 5, reading, budget()), right, strict=True):
        assert whole.ends_ms.tolist() == ENDS.tolist()
        assert np.flatnonzero(whole.flags & FAILED).tolist() == list(failing)
        rows = np.diff(whole.row_off)
        assert rows[list(failing)].tolist() == [0] * len(failing)
        others = [k for k in range(len(ENDS)) if k not in failing]
        assert rows[others].tolist() == np.diff(good.row_off)[others].tolist()


def keys(kept: Aggregation, rows: list[tuple[Labels, int, float]]) -> list[object]:
    (summary,) = summarise([kept], ENDS[:1], 1, source(rows), budget())
    return list(summary.keys)


def test_absent_grouping_labels_are_empty_strings_in_the_keys_order() -> None:
    rows = [(series("m", a="1"), START_MS, 1.0), (series("m", b="2"), START_MS, 1.0), (series("m"), START_MS, 1.0)]
    assert keys(aggregation("m", ["a", "b"]), rows) == [("", ""), ("", "2"), ("1", "")]
    assert keys(aggregation("m", ["nosuch"]), rows) == [("",)]
    assert keys(aggregation("m", []), rows) == [()]


def test_without_labels_each_key_is_what_is_left_of_the_series_without_its_metric() -> None:
    labels = (series("m", a="1", b="x"), series("m", a="2"), series("m"))
    rows = [(own, START_MS, 1.0) for own in labels]
    assert keys(aggregation("m", [], without=True), rows) == [(), (("a", "1"), ("b", "x")), (("a", "2"),)]
    assert keys(aggregation("m", ["a"], without=True), rows) == [(), (("b", "x"),)]


def test_no_series_at_all_is_a_pane_without_groups() -> None:
    (summary,) = summarise([aggregation("nosuch", ["g"])], ENDS, 1, source(ROWS), budget())
    assert (summary.panes, summary.rows, summary.keys) == (9, 0, ())


@pytest.mark.parametrize("seed", range(4))
def test_panes_of_any_expression_are_to_the_bit_the_same_alone_and_together(seed: int) -> None:
    random = Random(seed)
    drawing, head, rows = Drawing(random), Head(SeriesTable(), 1 << 26), 0
    for part in worlds.blocks(random, world(random, START_MS), head.table, shuffled=False):
        head.append(part)
    reading = HeadSource(head, Index())
    ends = np.arange(START_MS + 300_000, START_MS + 900_000, 4 * WIDTH_MS)
    for _ in range(25):
        expr = with_steps(parse(drawing.expression()), 60_000)
        if why_not_kept(expr):
            continue
        kept = Aggregation(normal(expr).expr, ("job",), False, ("sum", "quantile"), WIDTH_MS, LOOKBACK_MS, 1 << 40)
        (together,) = summarise([kept], ends, 1, reading, budget())
        for k in range(len(ends)):
            (alone,) = summarise([kept], ends[k : k + 1], 1, reading, budget())
            assert same(alone, select(together, np.array([k]))), f"{kept.expr} at {ends[k]}"
        rows += together.rows
    assert rows > 100


def test_a_join_fails_in_the_panes_where_its_one_side_is_not_unique_and_in_no_other() -> None:
    late = int(ENDS[4])
    rows = [(series("m", g="a", i="1"), START_MS, 2.0), (series("n", g="a", x="1"), START_MS, 3.0)]
    rows += [(series("n", g="a", x="2"), late, 5.0)]
    kept = aggregation("m * on (g) group_left (x) n", ["x"], accumulators=["sum"])
    reading = source(rows)
    (summary,) = summarise([kept], ENDS, 1, reading, budget())
    assert np.flatnonzero(summary.flags & FAILED).tolist() == [4, 5, 6, 7, 8]
    assert np.diff(summary.row_off).tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert (summary.keys, summary.states["sum"]["sum"].tolist()) == ((("1",),), [6.0] * 4)


def test_a_pane_too_large_to_be_evaluated_fails_alone_and_does_not_end_the_tick() -> None:
    kept = aggregation("max_over_time(m[1s:1ms])", ["g"], accumulators=["sum"])
    few = Budget(Limits(max_matrix_bytes=9 * 6 * 1001), ManualClock(), 60_000)
    (summary,) = summarise([kept], ENDS, 1, source(ROWS), few)
    assert not summary.flags.any()
    (summary,) = summarise([kept], ENDS, 1, source(ROWS), Budget(Limits(max_matrix_bytes=9), ManualClock(), 60_000))
    assert (summary.flags & FAILED).all()


def test_panes_that_take_too_long_are_given_up_so_that_others_are_made(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    spent = Budget(Limits(), clock, 60_000)
    clock.advance(60_001)
    (summary,) = summarise([KEPT[0]], ENDS, 7, source(ROWS), spent)
    assert summary.ends_ms.tolist() == ENDS.tolist() and set(summary.seen.tolist()) == {7}
    assert (summary.flags & FAILED).all() and summary.rows == 0
    assert "m takes too long to be kept; 9 panes have no summary" in caplog.text
