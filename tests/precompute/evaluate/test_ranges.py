"""Range vectors: samples as results, and subqueries as windows over steps."""

from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import LimitExceeded
from precompute.evaluate.context import Evaluation
from precompute.evaluate.evaluator import evaluate, result
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.subquery import inner_steps
from precompute.evaluate.values import Matrix, Vector
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.selection import Index
from query.promql.parse import parse
from tests.reference import worlds
from tests.reference.compare import at_step
from tests.reference.promql import Stale

START_MS = 1_700_000_010_000
LOOKBACK_MS = 300_000


def head_of(random: Random, series: worlds.World) -> HeadSource:
    head = Head(SeriesTable(), 1 << 24)
    for block in worlds.blocks(random, series, head.table):
        head.append(block)
    return HeadSource(head, Index())


def at(source: HeadSource, times: list[int], limits: Limits | None = None) -> Evaluation:
    budget = Budget(limits or Limits(), ManualClock(), 60_000)
    return Evaluation(source, np.array(times, np.int64), LOOKBACK_MS, budget, times[0], times[-1])


@pytest.mark.parametrize("seed", range(8))
def test_a_range_vector_holds_every_sample_but_staleness_markers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precompute.evaluate.head_source._TILE_SERIES", 3)
    random = Random(seed)
    series = worlds.world(random, START_MS)
    end_ms, range_ms = START_MS + random.randrange(900_000), random.choice((1_000, 61_000, 300_000))
    made = result(parse(f'{{__name__=~"g|c"}}[{range_ms}ms]'), at(head_of(random, series), [end_ms]))
    assert isinstance(made, Matrix)
    got = {
        made.frame.labels(row): list(zip(made.t_ms[a:b].tolist(), made.values[a:b].tolist(), strict=True))
        for row, (a, b) in enumerate(zip(made.starts, made.starts[1:], strict=False))
    }
    expected = {
        labels: [
            (t, v) for t, v in sorted(samples, key=lambda s: s[0])
            if end_ms - range_ms < t <= end_ms and not isinstance(v, Stale)
        ]
        for labels, samples in series.items() if dict(labels)["__name__"] in "gc"
    }  # fmt: skip
    assert repr(got) == repr({labels: found for labels, found in sorted(expected.items(), key=_key(made)) if found})


def _key(made: Matrix):  # type: ignore[no-untyped-def]
    order = {made.frame.labels(row): row for row in range(len(made))}
    return lambda pair: order.get(pair[0], len(order))


@pytest.mark.parametrize("seed", range(12))
def test_a_subquery_is_its_inside_at_every_step_of_its_window(seed: int) -> None:
    random = Random(seed)
    source = head_of(random, worlds.world(random, START_MS))
    step_ms, range_ms = random.choice((1_000, 7_000, 60_000)), random.choice((5_000, 60_000, 200_000))
    offset_ms = random.choice((0, 3_000, -20_000))
    between_ms = random.choice((1_000, 15_000, 400_000))
    times = [START_MS + random.randrange(200_000) + k * between_ms for k in range(4)]
    times = [times[0] + k * between_ms for k in range(4)]
    shift = f" offset {'-' if offset_ms < 0 else ''}{abs(offset_ms)}ms" if offset_ms else ""
    inside = random.choice(("g", "sum by (job) (c)", "g > 0", "rate(c[1m])"))
    made = evaluate(parse(f"sum_over_time(({inside})[{range_ms}ms:{step_ms}ms]{shift})"), at(source, times))
    assert isinstance(made, Vector)
    for step, t in enumerate(times):
        last_ms = t - offset_ms
        inner = [k * step_ms for k in range((last_ms - range_ms) // step_ms + 1, last_ms // step_ms + 1)]
        sums: dict[object, list[float]] = {}
        for one in inner:
            held = at_step(evaluate(parse(inside), at(source, [one])), 0)
            assert isinstance(held, dict)
            for labels, value in held.items():
                sums.setdefault(tuple(p for p in labels if p[0] != "__name__"), []).append(value)
        got = at_step(made, step)
        assert isinstance(got, dict)
        assert got.keys() == sums.keys()
        for labels, values in sums.items():
            np.testing.assert_allclose(got[labels], np.sum(values), rtol=1e-9, equal_nan=True)  # type: ignore[index]


def test_steps_lie_on_multiples_of_the_step_and_windows_are_open_at_the_left() -> None:
    # step 10, range 25:   0    10    20    30    40
    #                             (-----------]          ends at 35
    #                      (----------]                  ends at 25
    ends = np.array([25, 35, 40, -5], np.int64)
    first, last = inner_steps(ends, 25, 10)
    assert first.tolist() == [1, 2, 2, -2]
    assert last.tolist() == [2, 3, 4, -1]


def test_windows_far_apart_do_not_read_the_steps_between_them() -> None:
    source = head_of(Random(1), worlds.world(Random(1), START_MS))
    day_ms = 86_400_000
    few = at(source, [START_MS + k * day_ms for k in range(300)], Limits(max_matrix_bytes=1 << 20))
    # 300 windows of 10 steps: 3,000 steps; with those between them there were 26 million
    made = evaluate(parse("max_over_time(vector(1)[10s:1s])"), few)
    assert isinstance(made, Vector)
    assert made.present.all()


def test_a_subquery_of_a_year_at_a_millisecond_is_refused_at_once() -> None:
    source = head_of(Random(1), worlds.world(Random(1), START_MS))
    with pytest.raises(LimitExceeded):
        evaluate(parse("max_over_time(vector(1)[1y:1ms])"), at(source, [START_MS]))


def test_a_window_without_a_step_has_nothing() -> None:
    source = head_of(Random(1), worlds.world(Random(1), START_MS))
    made = evaluate(parse("max_over_time(g[3s:10s])"), at(source, [START_MS + 5_000]))
    assert isinstance(made, Vector)
    assert len(made) == 0
