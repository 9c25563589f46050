"""Which queries ask the same at a step, and which can be answered step by step."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from precompute.errors import QueryError
from precompute.evaluate.context import Evaluation
from precompute.evaluate.evaluator import result
from precompute.evaluate.expr import Expr
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Value
from precompute.samples import I64, Bool
from query.answers import Answer
from query.api import encode
from query.join import join_steps
from query.promql.parse import parse
from query.questions import question, why_not
from query.tiers.summary import Steps
from tests.differential.grammar import Grammar
from tests.differential.sides import translated
from tests.differential.world import LENGTH_MS, World, draw
from tests.precompute.made_node import LOOKBACK_MS, START_MS, Core
from tests.reference.compare import at_step

HOUR = Steps(np.arange(0, 3_600_001, 60_000), 0, 3_600_000, 60_000)
LATER = Steps(np.arange(600_000, 3_600_001, 15_000), 600_000, 3_600_000, 15_000)


@pytest.mark.parametrize("text", [
    "up", "sum by (job) (rate(x_total[5m]))", "x offset 5m", "x @ 1000", "max_over_time(x[1h:])", "topk(3, x)",
])  # fmt: skip
def test_start_end_and_step_are_no_part_of_a_question(text: str) -> None:
    assert question(parse(text), HOUR, LOOKBACK_MS) == question(parse(text), LATER, LOOKBACK_MS)


@pytest.mark.parametrize("text", [
    "x @ start()", "x - x @ end()", "max_over_time(x[1h:] @ end())", "x * step()", "x * range()", "x > start()",
])  # fmt: skip
def test_they_are_where_the_expression_depends_on_them(text: str) -> None:
    assert question(parse(text), HOUR, LOOKBACK_MS) != question(parse(text), LATER, LOOKBACK_MS)


def test_another_lookback_is_another_question() -> None:
    assert question(parse("x"), HOUR, 1000) != question(parse("x"), HOUR, 2000)


def test_a_range_of_a_single_step_is_a_question_of_its_own() -> None:
    single = Steps(np.array([600_000]), 600_000, 600_000, 15_000)
    expr = parse("sum(topk(3, x))")
    assert question(expr, single, LOOKBACK_MS) != question(expr, LATER, LOOKBACK_MS)


def test_texts_that_mean_the_same_are_one_question() -> None:
    a, b = "sum(rate(x{a='1',b='2'}[5m]))by(job)", 'sum by (job) (rate(x{b="2", a="1"}[300s]))'
    assert question(parse(a), HOUR, LOOKBACK_MS) == question(parse(b), HOUR, LOOKBACK_MS)
    assert question(parse("1 / (x * 0)"), HOUR, LOOKBACK_MS) != question(parse("1 / (x * -0)"), HOUR, LOOKBACK_MS)


@pytest.mark.parametrize("text", [
    "up", "sum(rate(x_total[5m])) / sum(rate(y_total[5m]))", "quantile(0.9, x)", "topk(3, sum by (job) (x))",
    'last_over_time({__name__="a"}[5m])', "max_over_time((sum(a) or sum(b))[1h:])", "max_over_time((a / b)[1h:])",
    "max_over_time(rate(a[5m])[1h:])", "max_over_time((a > 0)[1h:])", '{__name__=~"a|b"}', "a or b",
])  # fmt: skip
def test_ordinary_expressions_are_answered_step_by_step(text: str) -> None:
    assert why_not(parse(text), False, False) == ""


@pytest.mark.parametrize("text", [
    'rate({__name__=~"a|b"}[5m])', 'rate({job="a"}[5m])', "max_over_time((a or b)[1h:])", 'max_over_time({x="1"}[1h:])',
    'max_over_time(label_replace(a, "__name__", "b", "", "")[1h:])', "max_over_time((sum by (__name__) (a))[1h:])",
    "max_over_time((a * on (i) group_left (__name__) b)[1h:])", "max_over_time((a or vector(1))[1h:])",
])  # fmt: skip
def test_names_that_may_fall_together_at_different_steps_are_not(text: str) -> None:
    assert "an error at whatever steps" in why_not(parse(text), False, False)
    assert why_not(parse(text), True, False) == ""


def test_types_and_units_fall_together_as_names_do() -> None:
    assert "an error at whatever steps" in why_not(parse("rate(a[5m])"), False, True)
    assert why_not(parse("a"), False, True) == ""


def test_a_parameter_that_changes_is_not() -> None:
    assert "extremes over all steps" in why_not(parse("quantile(scalar(phi), x)"), False, False)
    assert why_not(parse("quantile(-(0.5), x)"), False, False) == ""


def test_what_reads_no_samples_is_not() -> None:
    assert why_not(parse("vector(time())"), False, False) == "it reads no samples"


@pytest.mark.parametrize("seed", range(4))
def test_steps_answered_apart_are_the_steps_answered_together(tmp_path: Path, seed: int) -> None:
    """To the byte, errors included, for whatever `why_not` lets through and evaluates without a note."""
    random = Random(seed)
    core = filled(tmp_path, draw(random, START_MS))
    times = np.arange(START_MS + 100_950, START_MS + 1_150_000, random.choice((15_000, 20_000, 47_000)))
    grammar, same = Grammar(random, (START_MS + 300_950, START_MS + 600_000)), 0
    for _ in range(60):
        expr = parse(translated(grammar.ranged()))
        if not why_not(expr, False, False):
            which = np.array([random.random() < random.choice((0.1, 0.5, 0.9)) for _ in times])
            same += agree(core, expr, times, [which, ~which] if which.any() and not which.all() else [which | True])
    assert same > 20


def filled(folder: Path, samples: World) -> Core:
    core = Core(folder)
    core.clock.advance(LENGTH_MS)
    core.write([(labels, *point) for labels, points in samples.items() for point in points])
    return core


def agree(core: Core, expr: Expr, times: I64, parts: Sequence[Bool]) -> bool:
    """Whether the parts could be kept; then they must say what the whole says."""
    whole, noted = evaluated(core, expr, times, np.ones(len(times), np.bool_))
    apart = [evaluated(core, expr, times, part) for part in parts]
    if any(notes for _, notes in apart):
        return False
    errors = [value for value, _ in apart if isinstance(value, str)]
    if errors or isinstance(whole, str):
        assert whole in errors, str(expr)
        return False
    joined = join_steps([(part, value) for part, (value, _) in zip(parts, apart, strict=True)], len(times))  # type: ignore[misc]
    assert written(joined, times) == written(whole, times), str(expr)
    assert not noted
    return True


def evaluated(core: Core, expr: Expr, times: I64, part: Bool) -> tuple[Value | str, tuple[str, ...]]:
    """Some steps of a range query, or its error; and the notes that were left."""
    budget = Budget(Limits(), core.clock, 60_000)
    at = Evaluation(
        core.source, times[part], LOOKBACK_MS, budget, int(times[0]), int(times[-1]), step_ms=int(times[1] - times[0])
    )
    try:
        return result(expr, at), (*at.notes.warnings, *at.notes.infos)
    except QueryError as error:
        return str(error), ()


def written(value: Value, times: I64) -> bytes:
    at_step(value, 0)
    return encode.answer(Answer(value, times, "range", ("head",), "exact"))
