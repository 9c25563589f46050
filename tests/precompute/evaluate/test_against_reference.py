"""The evaluator over the head against the slow reference, on drawn series, expressions and times."""

from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.selection import Index
from query.promql.parse import parse
from tests.reference import promql, worlds
from tests.reference.compare import at_step, differences

START_MS = 1_700_000_010_000
LOOKBACK_MS = 300_000
EXPRESSIONS = 25


def head_of(random: Random, series: worlds.World) -> HeadSource:
    head = Head(SeriesTable(hash_seed=random.randrange(100)), 1 << 24)
    for block in worlds.blocks(random, series, head.table):
        head.append(block)
    return HeadSource(head, Index())


def steps(random: Random) -> list[int]:
    """One time or several in equal steps, on the second or off it, now and then outside of all samples."""
    anywhere = random.randint(-60_000, worlds.LENGTH_MS + 400_000)
    first = START_MS + random.choice((random.randrange(worlds.LENGTH_MS), anywhere))
    first -= random.choice((0, first % 1000, first % 15_000))
    step_ms = random.choice((15_000, 1_000, 7_777, 60_000))
    return [first + k * step_ms for k in range(random.choice((1, 1, 8)))]


def expected(text: str, series: worlds.World, times: list[int]) -> list[promql.Value] | None:
    """By step; None where the expression fails at one of them."""
    expr, held = parse(text), worlds.sorted_samples(series)
    try:
        return [promql.evaluate(expr, promql.At(held, t, LOOKBACK_MS, times[0], times[-1])) for t in times]
    except promql.Fails:
        return None


def check(text: str, source: HeadSource, series: worlds.World, times: list[int]) -> None:
    right = expected(text, series, times)
    budget = Budget(Limits(), ManualClock(), 60_000)
    at = Evaluation(source, np.array(times, np.int64), LOOKBACK_MS, budget, times[0], times[-1])
    if right is None:
        with pytest.raises(ExecutionError):
            evaluate(parse(text), at)
        return
    value = evaluate(parse(text), at)
    for step, time_ms in enumerate(times):
        wrong = differences(at_step(value, step), right[step], 1e-9)
        assert not wrong, f"{text} at {time_ms}: {wrong[:3]}"


@pytest.mark.parametrize("seed", range(60))
def test_any_expression_is_what_the_reference_says(seed: int) -> None:
    random = Random(seed)
    series = worlds.world(random, START_MS)
    source = head_of(random, series)
    for _ in range(EXPRESSIONS):
        check(worlds.expression(random, random.choice((0, 1, 2, 3))), source, series, steps(random))


@pytest.mark.parametrize("name", worlds.RANGE_CALLS)
def test_each_range_function_at_many_windows(name: str) -> None:
    random = Random(name)
    parameter = "0.75, " if name.startswith("quantile") else ""
    for _ in range(4):
        series = worlds.world(random, START_MS)
        source = head_of(random, series)
        for metric in ("g", "c"):
            for span in ("4s", "15s", "61s", "5m"):
                check(f"{name}({parameter}{metric}[{span}])", source, series, steps(random))


@pytest.mark.parametrize("seed", range(5))
def test_a_time_alone_and_among_others_gives_the_same_bits(seed: int) -> None:
    random = Random(seed)
    source = head_of(random, worlds.world(random, START_MS))
    times = [START_MS + k * 15_000 for k in range(40)]
    for text in ("g", "sum by (job) (rate(c[1m]))", "avg without (i) (g)", "quantile by (zone) (0.9, g)", "stddev(g)"):
        budget = Budget(Limits(), ManualClock(), 60_000)
        together = evaluate(
            parse(text), Evaluation(source, np.array(times, np.int64), LOOKBACK_MS, budget, times[0], times[-1])
        )
        for step, t in enumerate(times):
            alone = evaluate(parse(text), Evaluation(source, np.array([t], np.int64), LOOKBACK_MS, budget, t, t))
            a, b = at_step(together, step), at_step(alone, 0)
            assert a.keys() == b.keys()
            assert all(np.float64(a[k]).tobytes() == np.float64(b[k]).tobytes() or a[k] != a[k] for k in a)
