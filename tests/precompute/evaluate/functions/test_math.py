"""Functions of one value at a time."""

import math

import numpy as np
import pytest

from precompute.errors import ExecutionError
from precompute.evaluate.functions.math import larger, smaller
from tests.precompute.evaluate.functions.asked import Asked, rows

NAN, INF = math.nan, math.inf


def one(text: str, value: float) -> float | None:
    """The value of a function of `x`, which is `value`."""
    return rows({"x": [value]}, text, 0).get("", [None])[0]


@pytest.mark.parametrize(
    ("text", "value", "right"),
    [
        ("abs(x)", -3.5, 3.5), ("ceil(x)", 1.2, 2), ("floor(x)", -1.2, -2), ("sqrt(x)", -1, NAN), ("sqrt(x)", 9, 3),
        ("ln(x)", 0, -INF), ("ln(x)", -1, NAN), ("log2(x)", 8, 3), ("log10(x)", 1000, 3), ("exp(x)", 0, 1),
        ("sgn(x)", -7, -1), ("sgn(x)", 7, 1), ("sgn(x)", NAN, NAN), ("round(x)", 2.5, 3), ("round(x)", -2.5, -2),
        ("round(x, 0.1)", 0.25, 0.3), ("round(x, 10)", 14.9, 10), ("round(x, 0)", 1, NAN),
        ("clamp(x, 2, 4)", 7, 4), ("clamp(x, 2, 4)", 1, 2), ("clamp(x, 4, 2)", 3, None), ("clamp_min(x, 2)", 1, 2),
        ("clamp_max(x, 2)", 3, 2), ("clamp_max(x, NaN)", 3, NAN), ("clamp(x, 0, 1)", NAN, NAN),
        ("acosh(x)", 0.5, NAN), ("atanh(x)", 1, INF), ("sin(x)", INF, NAN), ("deg(x)", math.pi, 180),
        ("rad(x)", 180, math.pi),
    ],
)  # fmt: skip
def test_values_are_prometheus_own(text: str, value: float, right: float | None) -> None:
    assert one(text, value) == pytest.approx(right, nan_ok=True)


def test_zeros_keep_their_sign() -> None:
    assert str(one("sgn(x)", -0.0)) == "-0.0"
    assert str(one("ceil(x)", -0.5)) == "-0.0"


def test_larger_and_smaller_are_gos() -> None:
    a = np.array([NAN, NAN, 1, -0.0, 0.0, INF, -INF])
    b = np.array([INF, -INF, NAN, 0.0, -0.0, NAN, NAN])
    assert list(map(str, larger(a, b).tolist())) == ["inf", "nan", "nan", "0.0", "0.0", "inf", "nan"]
    assert list(map(str, smaller(a, b).tolist())) == ["nan", "-inf", "nan", "-0.0", "-0.0", "nan", "-inf"]


def test_the_bounds_of_a_clamp_may_differ_by_step() -> None:
    assert rows({"x": [5, 5, 5]}, "clamp(x, time() - 10, 10)", 0, 10, 20) == {"": [5, 5, 10]}
    assert rows({"x": [5, 5, 5]}, "clamp(x, time(), 10)", 0, 10, 20) == {"": [5, 10, None]}


def test_scalars_have_their_own_extremes() -> None:
    assert Asked({}, "max_of(time(), 15)", 10, 20).numbers() == [15, 20]
    assert Asked({}, "min_of(time(), 15)", 10, 20).numbers() == [10, 15]


def test_the_metric_name_goes_and_may_leave_two_alike() -> None:
    series = {'a{i="1"}': [1], 'b{i="1"}': [2]}
    assert rows(series, "abs(a)", 0) == {"i=1": [1]}
    with pytest.raises(ExecutionError, match="same labelset"):
        rows(series, 'abs({i="1"})', 0)
