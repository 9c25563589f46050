"""One evaluation at many steps is as many evaluations at one: to the bit, for the whole language."""

from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation, Features
from precompute.evaluate.evaluator import result
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Value
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.selection import Index
from query.promql.parse import parse
from tests.reference import worlds
from tests.reference.compare import at_step

START_MS = 1_700_000_010_000
TEXTS = (
    "g + on (i) h", "g * on (i) group_left (job) max by (i, job) (h)", "g > bool ignoring (zone) h",
    "g and on (job) (h > 0)", "g or h", "g unless on (i) c", "-g or g", "g + on (i) fill (1) h",
    "max by (i) (h) - on (i) group_right (zone) fill_right (0) g",
    "topk by (job) (2, g)", "bottomk(3, h)", "topk(scalar(count(g)) / 2, g)", "limitk by (zone) (1, g)",
    "limit_ratio(0.4, g)", 'count_values("v", round(g))', 'count_values without (i) ("job", g)',
    "quantile by (job) (scalar(sum(present_over_time(g[1m]))) / 10, g)", "stddev by (zone) (h)", "group(g)",
    "max_over_time(g[2m:30s])", "rate(sum by (i) (c)[3m:7s])", "avg_over_time((g > 0)[90s:13s] offset -20s)",
    "quantile_over_time(0.3, h[1m:])", "max_over_time(rate(c[1m])[2m:10s])", "sum_over_time(g[1m:10s] @ end())",
    "g @ start() - g", "sum_over_time(g[2m] @ 1700000400)", "quantile_over_time(scalar(count(g)) / 9, g[3m] @ start())",
    "delta(g[5m] offset -1m)", "scalar(sum(g)) ^ 2", "time() - timestamp(g)", "absent(g > 5)",
    "absent_over_time(c[10s])", 'label_replace(g, "job", "$1-x", "zone", "(.*)")', "histogram_quantile(0.5, g)",
    "predict_linear(g[3m], 60)", "deriv(c[2m])", "clamp(g, -1, scalar(h))", "2 atan2 g", "hour(vector(time()))",
    "g % 3 == 1",
)  # fmt: skip

MAY_CLASH = frozenset(TEXTS[:9])
"""Matches that fail on many worlds."""


def head_of(random: Random, series: worlds.World) -> HeadSource:
    head = Head(SeriesTable(hash_seed=random.randrange(100)), 1 << 24)
    for block in worlds.blocks(random, series, head.table):
        head.append(block)
    return HeadSource(head, Index())


def evaluated(text: str, source: HeadSource, times: list[int], whole: list[int], features: Features) -> Value | str:
    """At some times of a query; why it fails."""
    at = Evaluation(
        source, np.array(times, np.int64), 300_000, Budget(Limits(), ManualClock(), 60_000), whole[0], whole[-1],
        features=features, step_ms=whole[1] - whole[0],
    )  # fmt: skip
    try:
        return result(parse(text), at)
    except ExecutionError as error:
        return str(error)


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_a_step_alone_and_among_others_gives_the_same_bits(text: str, delayed: bool) -> None:
    features, failed = Features(delayed, experimental_functions=True), 0
    for seed in range(3):
        random = Random(f"{text} {seed}")
        source = head_of(random, worlds.world(random, START_MS))
        step_ms = random.choice((15_000, 7_777, 60_000))
        times = [START_MS + random.randrange(400_000) + k * step_ms for k in range(9)]
        times = [times[0] + k * step_ms for k in range(9)]
        together = evaluated(text, source, times, times, features)
        alone = [evaluated(text, source, [t], times, features) for t in times]
        if isinstance(together, str):
            failed += 1
            assert any(isinstance(one, str) for one in alone)
            continue
        for step, one in enumerate(alone):
            assert not isinstance(one, str), one
            a, b = at_step(together, step), at_step(one, 0)
            assert _bits(a) == _bits(b), f"step {step}"
    assert failed < 3 or text in MAY_CLASH


def _bits(value: object) -> object:
    if isinstance(value, dict):
        return {labels: _bits(number) for labels, number in value.items()}
    return "NaN" if value != value else np.float64(value).tobytes()  # type: ignore[arg-type]
