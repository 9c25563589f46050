"""Floats as Go writes them."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.numbers import general, plain


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_both_read_back_and_a_plain_one_has_no_exponent(value: float) -> None:
    assert float(Decimal(plain(value))) == float(general(value)) == value
    assert "e" not in plain(value).lower()
    assert math.copysign(1, float(plain(value))) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1, "1"), (0.0001, "0.0001"), (0.00001, "1e-05"), (999_999.5, "999999.5"), (1e6, "1e+06"),
     (-1_234_567, "-1.234567e+06"), (1e300, "1e+300"), (math.inf, "+Inf"), (math.nan, "NaN")],
)  # fmt: skip
def test_a_general_one_has_an_exponent_where_it_is_far_from_one(value: float, text: str) -> None:
    assert general(value) == text
