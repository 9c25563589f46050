"""Windows: lines, smoothing, deviations and times of samples, against a slow reading of the definition."""

import math
import statistics
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluation, Features, Notes
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.functions.results import one_row
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import nothing
from query.promql.parse import parse
from tests.precompute.evaluate.functions.asked import STEP_MS, Asked, rows, source_of

Samples = list[tuple[float, float]]
VALUES = [3.0, 1.0, None, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0]
WINDOW_S = 45.0


def window(values: list[float | None], end_s: float) -> Samples:
    """The samples in (end - 45 s, end]."""
    held = [(k * STEP_MS / 1000, v) for k, v in enumerate(values) if v is not None]
    return [(t, v) for t, v in held if end_s - WINDOW_S < t <= end_s]


def line(samples: Samples, at_s: float) -> tuple[float, float]:
    """Slope and value at a time of the least-squares line."""
    slope, here = np.polyfit([t - at_s for t, _ in samples], [v for _, v in samples], 1)
    return float(slope), float(here)


def smooth(samples: Samples, sf: float, tf: float) -> float:
    values = [v for _, v in samples]
    level, trend = values[0], values[1] - values[0]
    before = level
    for k, value in enumerate(values[1:]):
        if k:
            trend = tf * (level - before) + (1 - tf) * trend
        before, level = level, sf * value + (1 - sf) * (level + trend)
    return level


def mad(samples: Samples) -> float:
    middle = statistics.median(v for _, v in samples)
    return statistics.median(abs(v - middle) for _, v in samples)


def newest(samples: Samples, best: float) -> float:
    return max(t for t, v in samples if v == best)


CASES: dict[str, Callable[[Samples, float], float | None]] = {
    "first_over_time(x[45s])": lambda s, _: s[0][1],
    "mad_over_time(x[45s])": lambda s, _: mad(s),
    "deriv(x[45s])": lambda s, end: line(s, end)[0] if len(s) > 1 else None,
    "predict_linear(x[45s], 60)": lambda s, end: line(s, end)[1] + 60 * line(s, end)[0] if len(s) > 1 else None,
    "double_exponential_smoothing(x[45s], 0.3, 0.6)": lambda s, _: smooth(s, 0.3, 0.6) if len(s) > 1 else None,
    "ts_of_first_over_time(x[45s])": lambda s, _: s[0][0],
    "ts_of_last_over_time(x[45s])": lambda s, _: s[-1][0],
    "ts_of_min_over_time(x[45s])": lambda s, _: newest(s, min(v for _, v in s)),
    "ts_of_max_over_time(x[45s])": lambda s, _: newest(s, max(v for _, v in s)),
}


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_every_window_is_what_the_definition_says(text: str, seed: int) -> None:
    random = Random(seed)
    values = VALUES if seed == 0 else [random.choice((None, float(random.randrange(9)))) for _ in range(20)]
    times = [random.choice((7.5, 10.0)) * k for k in range(25)]
    times = sorted(set(times))
    got = next(iter(rows({"x": values}, text, *times).values()), [None] * len(times))
    for value, t in zip(got, times, strict=True):
        samples = window(values, t)
        right = CASES[text](samples, t) if samples else None
        assert value == right or (value is not None and value == pytest.approx(right, rel=1e-9, abs=1e-9)), (text, t)


def test_a_subquery_is_read_by_the_same_windows() -> None:
    times = [20.0, 45.0, 90.0]
    whole = [float(v or 0) for v in range(10)]
    for text in CASES:
        direct = list(rows({"x": whole}, text, *times).values())
        assert list(rows({"x": whole}, text.replace("[45s]", "[45s:10s]"), *times).values()) == direct


def test_a_line_through_equal_values_is_flat() -> None:
    assert rows({"x": [5, 5, 5]}, "deriv(x[1m])", 20) == {"": [0]}
    assert rows({"x": [5, 5, 5]}, "predict_linear(x[1m], 1e9)", 20) == {"": [5]}
    assert math.isnan(rows({"x": [math.inf] * 3}, "deriv(x[1m])", 20)[""][0] or 0)


def test_a_prediction_counts_from_the_evaluations_time_wherever_the_window_lies() -> None:
    series = {"x": [0, 10, 20, 30, 40]}
    for window in ("x[1m] offset 15s", "x[1m] @ 30", "x[1m:10s]"):
        assert rows(series, f"predict_linear({window}, 5)", 30, 40)[""] == pytest.approx([35, 45])


def test_a_deviation_of_no_number_is_none() -> None:
    assert math.isnan(rows({"x": [1, math.nan, 2]}, "mad_over_time(x[1m])", 20)[""][0] or 0)


def test_the_time_of_an_extreme_passes_over_nan() -> None:
    values = [math.nan, 1, 3, 3, math.nan]
    assert rows({"x": values}, "ts_of_max_over_time(x[1m])", 40) == {"": [30]}
    assert rows({"x": values}, "ts_of_min_over_time(x[1m])", 40) == {"": [10]}
    assert rows({"x": [math.nan] * 3}, "ts_of_min_over_time(x[1m])", 40) == {"": [20]}


def test_first_and_last_keep_the_name() -> None:
    for name in ("first_over_time", "last_over_time"):
        assert list(rows({'x{a="1"}': [1]}, f"{name}(x[1m])", 0)) == ["__name__=x,a=1"]


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ("0, 0.5", "invalid smoothing factor. Expected: 0 < sf < 1, got: 0.000000"),
        ("0.5, 1.5", "invalid trend factor. Expected: 0 < tf < 1, got: 1.500000"),
        ("Inf, 2", r"invalid smoothing factor. Expected: 0 < sf < 1, got: \+Inf"),
    ],
)
def test_factors_must_be_shares_where_there_is_something_to_smooth(factors: str, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        Asked({"x": [1]}, f"double_exponential_smoothing(x[1m], {factors})", 0)
    assert rows({}, f"double_exponential_smoothing(x[1m], {factors})", 0) == {}


def test_a_counter_is_told_by_its_name() -> None:
    note = 'PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "x"'
    for name in ("rate", "increase"):
        assert Asked({"x": [1, 2]}, f"{name}(x[1m])", 10).notes.infos == (note,)
        assert Asked({"x_total": [1, 2]}, f"{name}(x_total[1m])", 10).notes.infos == ()
        assert Asked({"x": [1]}, f"{name}(x[1m])", 10).notes.infos == ()
    assert Asked({"x": [1, 2]}, "delta(x[1m])", 10).notes.infos == ()
    of_inner = "rate(abs(x)[1m:10s])"
    assert Asked({"x": [1, 2]}, of_inner, 10).notes.infos == ()
    assert Asked({"x": [1, 2]}, of_inner, 10, features=Features(delayed_name_removal=True)).notes.infos == (note,)


def test_a_quantile_that_is_no_share_is_warned_of_where_there_are_samples() -> None:
    warning = "PromQL warning: quantile value should be between 0 and 1, got 2"
    assert Asked({"x": [1]}, "quantile_over_time(2, x[1m])", 0).notes.warnings == (warning,)
    assert Asked({"x": [1]}, "quantile_over_time(2, x[1m])", 900).notes.warnings == ()


def test_a_parameter_may_differ_by_step_over_a_fixed_window() -> None:
    assert rows({"x": [0, 10]}, "quantile_over_time(time() / 40, x[1m] @ 10)", 10, 20) == {"": [2.5, 5]}


@pytest.mark.parametrize(("text", "rows_"), [("sum(rate(x[1m]))", 1), ("sum(rate(x[1m]))", 0), ("sum(x)", 1)])
def test_what_is_known_already_leaves_the_same_infos(text: str, rows_: int) -> None:
    expr, notes = parse(text), Notes()
    known = nothing(1) if not rows_ else one_row(np.ones(1))
    budget = Budget(Limits(), ManualClock(), 60_000)
    at = Evaluation(source_of({}), np.zeros(1, np.int64), 300_000, budget, 0, 0, {expr: known}, notes)
    assert evaluate(expr, at) is known
    assert len(notes.infos) == ("rate" in text and rows_)
