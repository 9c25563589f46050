"""Numbers as Go writes and reads them."""

import math

import pytest

from precompute.evaluate.functions.numbers import go_f, go_float, go_g, open_metrics


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "-0"), (1.0, "1"), (0.1, "0.1"), (123456.0, "123456"), (1234567.0, "1.234567e+06"),
        (1e6, "1e+06"), (0.0001, "0.0001"), (0.00001, "1e-05"), (-2.5e-7, "-2.5e-07"), (1e21, "1e+21"),
        (1.7976931348623157e308, "1.7976931348623157e+308"), (math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"),
        (100000.5, "100000.5"), (1000000.5, "1.0000005e+06"),
    ],
)  # fmt: skip
def test_g_is_gos(value: float, text: str) -> None:
    assert go_g(value) == text


def test_whole_numbers_get_a_point_in_open_metrics() -> None:
    assert [open_metrics(v) for v in (1.0, 0.5, 1e7, math.nan, -1.0)] == ["1.0", "0.5", "1e+07", "NaN", "-1.0"]


def test_f_has_six_digits() -> None:
    assert [go_f(v) for v in (2.0, -0.5, math.inf, math.nan)] == ["2.000000", "-0.500000", "+Inf", "NaN"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-.5", -0.5), ("5.", 5), ("1e3", 1000), ("+Inf", math.inf), ("-infinity", -math.inf),
        ("0x1p-2", 0.25), ("0x_1p4", 16), ("1e-400", 0),
        ("", None), (" 1", None), ("1_0", None), ("1e400", None), ("0x1", None), ("١", None), ("1d", None),
        ("Hello World", None), ("e5", None), ("0x" + "f" * 10_000 + "p1", None),
    ],
)  # fmt: skip
def test_only_what_go_reads_is_a_number(text: str, value: float | None) -> None:
    assert go_float(text) == value


def test_nan_is_read_in_any_case_of_letters() -> None:
    assert all(math.isnan(go_float(text) or 0) for text in ("NaN", "nan", "NAN"))
