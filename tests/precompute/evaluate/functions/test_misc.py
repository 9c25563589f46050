"""Between scalars and vectors, times, and what tells that there is nothing."""

import math

import pytest

from precompute.evaluate.context import Features
from precompute.evaluate.evaluator import disabled
from precompute.evaluate.functions import EXPERIMENTAL, FUNCTIONS, OF_ONE_SERIES
from query.promql.parse import parse
from tests.precompute.evaluate.functions.asked import Asked, rows

TABLE = """
abs absent absent_over_time acos acosh asin asinh atan atanh avg_over_time ceil changes clamp clamp_max clamp_min cos
cosh count_over_time days_in_month day_of_month day_of_week day_of_year deg end delta deriv exp first_over_time floor
histogram_avg histogram_count histogram_fraction histogram_quantile histogram_quantiles histogram_sum histogram_stddev
histogram_stdvar double_exponential_smoothing hour idelta increase info irate max_of label_replace label_join min_of ln
log10 log2 last_over_time mad_over_time max_over_time min_over_time ts_of_first_over_time ts_of_last_over_time
ts_of_max_over_time ts_of_min_over_time minute month pi predict_linear present_over_time quantile_over_time rad range
rate resets round scalar sgn sin sinh sort sort_desc sort_by_label sort_by_label_desc start step sqrt
stddev_over_time stdvar_over_time sum_over_time tan tanh time timestamp vector year
"""
"""Prometheus 3's, without start_timestamp."""


def test_every_function_of_the_table_is_there() -> None:
    assert set(FUNCTIONS) == set(TABLE.split())


@pytest.mark.parametrize("name", sorted(EXPERIMENTAL))
def test_what_is_experimental_must_be_switched_on(name: str) -> None:
    arguments = {
        "info": "x", "mad_over_time": "x[1m]", "sort_by_label": 'x, "a"', "sort_by_label_desc": 'x, "a"',
        "max_of": "1, 2", "min_of": "1, 2", "histogram_quantiles": 'x, "q", 0.5',
        "double_exponential_smoothing": "x[1m], 0.5, 0.5",
    }  # fmt: skip
    text = f"{name}({arguments.get(name, 'x[1m]' if name.startswith('ts_of') else '')})"
    assert Asked({"x": [1]}, text, 0).value is not None
    assert disabled(parse(text), Features()) == f'function "{name}" is not enabled'


def test_panes_keep_only_what_looks_at_one_series_alone() -> None:
    assert set(FUNCTIONS) >= OF_ONE_SERIES
    across = {"absent", "scalar", "label_replace", "histogram_quantile", "time", "timestamp", "predict_linear", "sort"}
    assert not OF_ONE_SERIES & across


def test_a_scalar_is_the_only_element_or_no_number() -> None:
    series = {'x{i="1"}': [1, 1, None], 'x{i="2"}': [None, 2, None]}
    first, second = Asked(series, 'scalar(x{i="1"})', 0, 10).numbers(), Asked(series, "scalar(x)", 0, 10).numbers()
    assert first == [1, 1] and second[0] == 1 and math.isnan(second[1])
    assert math.isnan(Asked({}, "scalar(nothing)", 0).numbers()[0])


def test_a_vector_of_a_scalar_has_no_labels() -> None:
    assert rows({}, "vector(time())", 0, 10) == {"": [0, 10]}


def test_the_timestamp_of_a_selector_is_its_samples() -> None:
    series = {"x": [1, 1, None, None]}
    assert rows(series, "timestamp(x)", 5, 15, 25) == {"": [0, 10, 10]}
    assert rows(series, "timestamp(x offset 5s)", 5, 15, 25) == {"": [0, 10, 10]}
    assert rows(series, "timestamp(x @ 11)", 5, 15, 25) == {"": [10, 10, 10]}


def test_the_timestamp_of_anything_else_is_the_evaluations() -> None:
    assert rows({"x": [1, 1]}, "timestamp(abs(x))", 5, 15) == {"": [5, 15]}


def test_a_scalar_keeps_the_sign_of_a_zero_whatever_other_steps_have() -> None:
    series = {'x{i="1"}': [-0.0, None, None], 'x{i="2"}': [None, 0.0, None]}
    assert Asked(series, "1 / scalar(last_over_time(x[5s]))", 0, 10).numbers() == [-math.inf, math.inf]
    assert Asked({'x{i="1"}': [-0.0]}, "1 / scalar(x)", 0).numbers() == [-math.inf]


def test_what_the_query_is_asked_for() -> None:
    for text, right in (("start()", 10), ("end()", 40), ("range()", 30), ("step()", 15)):
        assert Asked({}, text, 10, 25, 40).numbers() == [right] * 3
    assert Asked({}, "step()", 10).numbers() == [0]


def test_absent_has_the_labels_that_matchers_fix() -> None:
    series = {'x{job="a"}': [None, 1, None, None]}
    assert rows(series, 'absent(x{job="a"})', 0, 10) == {"job=a": [1, None]}
    assert rows(series, 'absent(y{job="a",i=~"b.*",k!="c",z=""})', 0) == {"job=a": [1]}
    assert rows(series, 'absent(y{job="a",job="b"})', 0) == {"": [1]}
    assert rows(series, 'absent(sum(y{job="a"}))', 0) == {"": [1]}


def test_absent_over_time_looks_at_windows() -> None:
    series = {'x{job="a"}': [1, None, None, None, None, 1]}
    assert rows(series, 'absent_over_time(x{job="a"}[15s])', 10, 20, 30) == {"job=a": [None, 1, 1]}
    assert rows(series, 'absent_over_time(x{job="a"}[5m])', 10, 20, 30) == {}
    assert rows(series, 'absent_over_time(abs(x{job="b"})[1m:10s])', 10) == {"": [1]}


def test_functions_of_native_histograms_find_none_among_floats() -> None:
    for name in ("histogram_count", "histogram_sum", "histogram_avg", "histogram_stddev", "histogram_stdvar"):
        assert rows({"x": [1]}, f"{name}(x)", 0) == {}
