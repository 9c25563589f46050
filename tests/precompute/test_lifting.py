"""Filters lifted from expressions: the proof of lifting.py, held against the evaluator on drawn data."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.expr import Expr
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.head import Head
from precompute.labels import Labels, SeriesTable
from precompute.matchers import Condition
from precompute.normal import Normal, normal, reach_ms, why_not_kept, with_steps
from precompute.selection import Index
from query.promql.parse import parse
from tests.precompute.evaluate.made import at_step
from tests.precompute.kept_expressions import Drawing, world
from tests.reference import worlds

START_MS = 1_700_000_010_000
LOOKBACK_MS = 120_000
END_MS = START_MS + worlds.LENGTH_MS
INTERVAL_MS = 60_000

At = dict[Labels, float]


def head_of(random: Random, series: worlds.World) -> Head:
    head = Head(SeriesTable(), 1 << 26)
    for block in worlds.blocks(random, series, head.table, shuffled=False):
        head.append(block)
    return head


class Reading:
    """Expressions over one world, evaluated at single times."""

    def __init__(self, random: Random) -> None:
        self.source = HeadSource(head_of(random, world(random, START_MS)), Index())

    def vector(self, expr: Expr, times: list[int]) -> Vector:
        budget = Budget(Limits(), ManualClock(), 60_000)
        at = Evaluation(self.source, np.array(times, np.int64), LOOKBACK_MS, budget, START_MS, END_MS)
        value = evaluate(expr, at)
        assert isinstance(value, Vector)
        return value

    def at(self, expr: Expr, time_ms: int) -> At | None:
        """The elements at one time; None where the evaluation is an error."""
        try:
            return at_step(self.vector(expr, [time_ms]), 0)
        except ExecutionError:
            return None


def read_at(form: Normal, time_ms: int) -> int:
    at = {None: time_ms, "start": START_MS, "end": END_MS}.get(form.at, form.at)
    assert isinstance(at, int)
    return at - form.offset_ms


def fulfilling(form: Normal, elements: At) -> At:
    conditions = [Condition(m) for m in form.matchers]
    return {k: v for k, v in elements.items() if all(c.accepts(dict(k).get(c.matcher.name, "")) for c in conditions)}


def same(a: At, b: At) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key], equal_nan=True) for key in a)


@pytest.mark.parametrize("seed", range(8))
def test_an_expression_is_the_rows_of_its_normal_form_that_fulfil_what_was_lifted(seed: int) -> None:
    random = Random(seed)
    told = lifted = 0
    for _ in range(4):
        reading, drawing = Reading(random), Drawing(random)
        for _ in range(60):
            text = drawing.expression()
            expr = with_steps(parse(text), INTERVAL_MS)
            if why_not_kept(expr):
                continue
            form = normal(expr)
            for time_ms in random.sample(range(START_MS + 60_000, END_MS, 15_000), 3):
                kept = reading.at(form.expr, read_at(form, time_ms))
                if kept is None:
                    continue
                exact = reading.at(expr, time_ms)
                assert exact is not None, f"{text} is an error at {time_ms}, {form.text} is none"
                assert same(fulfilling(form, kept), exact), f"{text} at {time_ms}: {form.text} with {form.matchers}"
                told += bool(exact)
                lifted += bool(exact) and len(exact) < len(kept)
    assert told > 100 and lifted > 8, (told, lifted)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lifted_twice_and_a_normal_form_is_its_own(seed: int) -> None:
    drawing = Drawing(Random(seed))
    for _ in range(200):
        expr = with_steps(parse(drawing.expression()), INTERVAL_MS)
        if not why_not_kept(expr):
            form = normal(expr)
            again = normal(form.expr)
            assert (again.text, again.matchers, again.offset_ms, again.at) == (form.text, (), 0, None)
            assert normal(form.whole) == replace(form, offset_ms=0, at=None)
            assert str(form.but(form.matchers)) == str(form.whole)


@pytest.mark.parametrize("seed", range(4))
def test_an_expression_looks_no_further_back_than_its_reach(seed: int) -> None:
    random = Random(100 + seed)
    series = world(random, START_MS)
    whole, drawing, looked = HeadSource(head_of(random, series), Index()), Drawing(random), 0
    for _ in range(60):
        expr = with_steps(parse(drawing.expression()), INTERVAL_MS)
        if why_not_kept(expr):
            continue
        form, end_ms = normal(expr), random.randrange(START_MS + 300_000, END_MS, 15_000)
        after_ms = end_ms - reach_ms(form.expr, LOOKBACK_MS)
        cut = {labels: [(t, v) for t, v in held if after_ms < t <= end_ms] for labels, held in series.items()}
        reading = Reading(random)
        reading.source = whole
        exact = reading.at(form.expr, end_ms)
        reading.source = HeadSource(head_of(random, {k: v for k, v in cut.items() if v}), Index())
        pane = reading.at(form.expr, end_ms)
        assert (exact is None) == (pane is None), form.text
        assert exact is None or pane is None or same(exact, pane), form.text
        looked += bool(exact)
    assert looked > 10


LIFTED = [
    ('rate(c{a="1"}[5m])', "rate(c[5m])", ['a="1"']),
    ('x{a="1"} + y{a="1"}', "(x + y)", ['a="1"']),
    ('x{a="1"} + y', "(x + y)", ['a="1"']),
    ('x{a="1"} + on (b) y', '(x{a="1"} + on (b) y)', []),
    ('x{a="1"} + ignoring (a) y{a="1",b="2"}', '(x{a="1"} + ignoring (a) y{a="1"})', ['b="2"']),
    ('x{a="1"} * on (p) group_left (n) y{n="2",o="3",p="4"}', '(x * on (p) group_left (n) y{o="3"})',
     ['a="1"', 'n="2"', 'p="4"']),
    ('x{n="1"} * on (p) group_left (n) y', '(x{n="1"} * on (p) group_left (n) y)', []),
    ('y{n="2",o="3"} * on (p) group_right (n) x{o="3"}', '(y{o="3"} * on (p) group_right (n) x)', ['n="2"', 'o="3"']),
    ('x{a="1"} and y{a="1"}', "(x and y)", ['a="1"']),
    ('x{a="1"} and on (b) y{a="1"}', '(x and on (b) y{a="1"})', ['a="1"']),
    ('x and y{a="1"}', "(x and y)", ['a="1"']),
    ('x unless y{a="1"}', '(x unless y{a="1"})', []),
    ('x{a="1"} unless y{a="1"}', "(x unless y)", ['a="1"']),
    ('x{a="1"} unless on (b) y{a="1",b="2"}', '(x unless on (b) y{a="1",b="2"})', ['a="1"']),
    ('x{a="1"} or y{a="1"}', "(x or y)", ['a="1"']),
    ('x{a="1"} or y', '(x{a="1"} or y)', []),
    ('x{a="1"} or on (b) y{a="1"}', '(x{a="1"} or on (b) y{a="1"})', []),
    ('(x{a="1"} or y) + z{a="1"}', '((x{a="1"} or y) + z)', ['a="1"']),
    ('histogram_quantile(0.9, rate(b{a="1",le!="5"}[5m]))', 'histogram_quantile(0.9, rate(b{le!="5"}[5m]))', ['a="1"']),
    ('label_replace(x{a="1",b="2"}, "a", "$1", "c", "(.*)")', 'label_replace(x{a="1"}, "a", "$1", "c", "(.*)")',
     ['b="2"']),
    ('x{a="1"} unless absent(y{a="1"})', '(x unless absent(y{a="1"}))', ['a="1"']),
    ('x{a="1"} * scalar(y{a="1"})', '(x * scalar(y{a="1"}))', ['a="1"']),
    ('max_over_time(rate(c{a="1"}[1m])[5m:])', "max_over_time((rate(c[1m]))[5m:1m])", ['a="1"']),
    ('rate(c{__type__="counter",a="1"}[1m])', 'rate(c{__type__="counter"}[1m])', ['a="1"']),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kept", "matchers"), LIFTED)
def test_what_is_lifted_from_where(text: str, kept: str, matchers: list[str]) -> None:
    form = normal(with_steps(parse(text), INTERVAL_MS))
    assert (form.text, list(map(str, form.matchers))) == (kept, matchers)


@pytest.mark.parametrize(
    ("text", "kept", "offset_ms", "at"),
    [
        ("x offset 5m", "x", 300_000, None),
        ("x @ end() offset 5m", "x", 300_000, "end"),
        ("rate(x[1m] offset 5m) + y offset 5m", "(rate(x[1m]) + y)", 300_000, None),
        ("x - x offset 1h", "(x - x offset 1h)", 0, None),
        ("x offset 5m - x offset 65m", "(x - x offset 1h)", 300_000, None),
        ("x offset -5m", "x", -300_000, None),
        ("time() - x offset 5m", "(time() - x offset 5m)", 0, None),
        ("timestamp(x offset 5m)", "timestamp(x)", 300_000, None),
        ("timestamp(-x offset 5m)", "timestamp(-(x offset 5m))", 0, None),
        ("predict_linear(x[1h] offset 5m, 60)", "predict_linear(x[1h] offset 5m, 60)", 0, None),
        ("max_over_time((x offset 1m)[5m:1m] offset 5m)", "max_over_time((x offset 1m)[5m:1m])", 300_000, None),
        ("max_over_time((time() - x)[5m:1m] offset 5m)", "max_over_time(((time() - x))[5m:1m])", 300_000, None),
    ],
)
def test_a_common_offset_chooses_the_time_that_is_read(text: str, kept: str, offset_ms: int, at: str | None) -> None:
    form = normal(parse(text))
    assert (form.text, form.offset_ms, form.at) == (kept, offset_ms, at)
