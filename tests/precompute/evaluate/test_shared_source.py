"""Many expressions over one head: each selector is visited once, and every value is what it is alone, to the bit."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation, Source
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.expr import Expr, Selector
from precompute.evaluate.head_source import HeadSource, Look
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.shared_source import SharedSource, readings
from precompute.evaluate.values import Vector
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.normal import why_not_kept, with_steps
from precompute.samples import I64
from precompute.selection import Index
from query.promql.parse import parse
from tests.precompute.kept_expressions import Drawing, world
from tests.reference import worlds

START_MS, LOOKBACK_MS, MINUTE_MS = 1_700_000_010_000, 300_000, 60_000
NOW = np.array([START_MS + 15 * MINUTE_MS], np.int64)

Asked = Sequence[tuple[Expr, I64]]


class Counting(HeadSource):
    """Notes what was visited."""

    def __init__(self, head: Head) -> None:
        super().__init__(head, Index())
        self.visits: list[tuple[str, int]] = []

    def ranges(self, selector: Selector, looks: Sequence[Look], budget: Budget) -> list[Vector]:
        self.visits.append((str(selector), len(looks)))
        return super().ranges(selector, looks, budget)

    def instant(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        self.visits.append((str(selector), 1))
        return super().instant(selector, times, lookback_ms, budget)


def source(seed: int) -> Counting:
    random, head = Random(seed), Head(SeriesTable(), 1 << 26)
    for part in worlds.blocks(random, world(random, START_MS), head.table, shuffled=False):
        head.append(part)
    return Counting(head)


def shared(reading: HeadSource, asked: Asked) -> SharedSource:
    return SharedSource(reading, [one for expr, times in asked for one in readings(expr, times, LOOKBACK_MS)])


def value(expr: Expr, times: I64, reading: Source) -> Vector:
    budget = Budget(Limits(), ManualClock(), 60_000)
    found = evaluate(expr, Evaluation(reading, times, LOOKBACK_MS, budget, int(times[0]), int(times[-1])))
    assert isinstance(found, Vector)
    return found


def value_or_error(expr: Expr, times: I64, reading: Source) -> Vector | str:
    try:
        return value(expr, times, reading)
    except ExecutionError as error:
        return str(error)


def visits(*asked: tuple[str, I64]) -> list[tuple[str, int]]:
    """Evaluated one after another; each value is checked too."""
    reading, parsed = source(1), [(parse(text), times) for text, times in asked]
    together = shared(reading, parsed)
    values = [value(expr, times, together) for expr, times in parsed]
    found, reading.visits = reading.visits, []
    for (expr, times), got in zip(parsed, values, strict=True):
        assert same(got, value(expr, times, reading)), expr
    return found


def same(a: Vector, b: Vector) -> bool:
    alike = a.frame.names == b.frame.names and np.array_equal(a.frame.codes, b.frame.codes)
    bits = [np.where(v.present, v.values, 0.0).view(np.int64) for v in (a, b)]
    return alike and np.array_equal(a.present, b.present) and np.array_equal(*bits) and np.array_equal(a.shard, b.shard)


def test_the_ranges_of_a_zoomed_panel_are_read_in_one_visit() -> None:
    older = NOW - 5 * MINUTE_MS
    assert visits(
        ("rate(c[1m])", NOW), ("rate(c[75s])", NOW), ("rate(c[315s])", np.concatenate((older, NOW)))
    ) == [("c", 3)]


def test_expressions_around_the_same_function_share_what_it_reads() -> None:
    assert visits(("rate(c[5m])", NOW), ("8 * rate(c[5m])", NOW), ("rate(c[5m]) > 0", NOW)) == [("c", 1)]
    assert visits(("g", NOW), ("g > 0", NOW), ("g + g", NOW)) == [("g", 1)]


def test_functions_of_one_selector_are_read_together_and_those_of_others_apart() -> None:
    assert visits(
        ("max_over_time(g[1m])", NOW), ("quantile_over_time(0.9, g[5m])", NOW), ('avg_over_time(g{job="a"}[1m])', NOW),
        ("min_over_time(g[1m] offset 5m)", NOW),
    ) == [("g", 2), ('g{job="a"}', 1), ("g offset 5m", 1)]  # fmt: skip


def test_what_was_read_is_let_go_of_by_its_last_asker() -> None:
    asked = [(parse(text), NOW) for text in ("rate(c[1m])", "rate(c[5m])", "2 * rate(c[1m])")]
    together, held = shared(source(1), asked), list[int]()
    for expr, times in asked:
        value(expr, times, together)
        held.append(len(together._held))
    assert held == [2, 1, 0]


def test_more_than_there_is_room_for_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = source(1)
    rows = reading.series(parse("c"), Budget(Limits(), ManualClock(), 60_000))  # type: ignore[arg-type]
    monkeypatch.setattr("precompute.evaluate.shared_source.MOST_CELLS", 2 * rows)
    assert visits(*((f"rate(c[{span}])", NOW) for span in ("1m", "2m", "3m"))) == [("c", 2), ("c", 1)]


@pytest.mark.parametrize("seed", range(6))
def test_drawn_expressions_at_drawn_times_have_the_values_that_they_have_alone(seed: int) -> None:
    random, reading, rows = Random(seed), source(seed), 0
    drawing, asked = Drawing(random), list[tuple[Expr, I64]]()
    while len(asked) < 120:
        expr = with_steps(parse(drawing.expression()), MINUTE_MS)
        if not why_not_kept(expr):
            step_ms, count = random.choice((15_000, MINUTE_MS, 5 * MINUTE_MS)), random.choice((1, 1, 3, 20))
            last_ms = START_MS + random.randrange(5, 16) * MINUTE_MS
            asked.append((expr, np.arange(last_ms - (count - 1) * step_ms, last_ms + 1, step_ms, np.int64)))
    together = shared(reading, asked)
    for expr, times in asked:
        one, other = (value_or_error(expr, times, where) for where in (together, reading))
        if isinstance(one, Vector) and isinstance(other, Vector):
            assert same(one, other), expr
            rows += len(one)
        else:
            assert one == other, expr
    assert rows > 30
