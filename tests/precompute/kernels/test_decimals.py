"""Decimal texts become the floats that Python reads."""

import math
import struct
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.kernels.decimals import NO_NUMBER, UNDECIDED, VALUE, read_decimal

BITS = np.empty(1, np.uint64)


def read(text: str) -> tuple[int, float]:
    raw = np.frombuffer(f"<{text}>".encode(), np.uint8)
    found, value = read_decimal(raw, 1, len(raw) - 1, BITS, BITS.view(np.float64))
    return int(found), float(value)


def same(one: float, other: float) -> bool:
    return struct.pack("d", one) == struct.pack("d", other)


def read_or_undecided(text: str) -> None:
    found, value = read(text)
    assert found == UNDECIDED or (found == VALUE and same(value, float(text))), (text, found, value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_shortest_text_of_a_float_is_always_decided(value: float) -> None:
    assert read(repr(value)) in [(VALUE, value)]
    assert same(read(repr(value))[1], value)


@given(st.integers(0, 2**64 - 1))
def test_any_pattern_of_bits_comes_back(bits: int) -> None:
    (value,) = struct.unpack("d", struct.pack("Q", bits))
    if math.isfinite(value):
        assert same(read(repr(value))[1], value)


@given(st.from_regex(r"-?[0-9]{0,24}\.?[0-9]{1,24}(e[+-]?[0-9]{1,3})?", fullmatch=True))
def test_a_number_of_any_length_is_right_or_undecided(text: str) -> None:
    read_or_undecided(text)


@given(st.integers(2**52, 2**53 - 1), st.integers(-1074, 970), st.sampled_from([-1, 0, 1]))
def test_between_two_floats_and_just_beside_it_is_right_or_undecided(whole: int, power: int, beside: int) -> None:
    with localcontext(prec=1200):
        middle = Decimal(2 * whole + 1) * Decimal(2) ** (power - 1)
        read_or_undecided(f"{middle * (1 + beside * Decimal(10) ** -30):f}")


@pytest.mark.parametrize(
    "text",
    [
        "0", "-0", "0.0e5", "00012", ".5", "5.", "9007199254740993", "8884755084328365.5", "18446744073709551615",
        "123456789012345680000", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324",
        "2.2250738585072011e-308", "2.2250738585072014e-308", "1.7976931348623157e+308", "1e-400", "1e23", "6.02e+23",
    ],
)  # fmt: skip
def test_numbers_at_the_edges_are_decided(text: str) -> None:
    found, value = read(text)
    assert found == VALUE
    assert same(value, float(text))


@pytest.mark.parametrize("text", ["1e400", "1.7976931348623159e308", "1e99999999999999999999", "1" * 400])
def test_a_number_beyond_all_floats_is_undecided(text: str) -> None:
    assert read(text)[0] == UNDECIDED


def test_what_is_no_number_of_digits_is_read_by_name() -> None:
    assert math.isnan(read("NaN")[1])
    assert [read(text)[1] for text in ("+Inf", "Inf", "-Inf")] == [math.inf, math.inf, -math.inf]


@pytest.mark.parametrize(
    "text",
    ["", "-", "+", ".", "e5", "1e", "1e+", "--1", "1x", "nan", "inf", "1 ", "+-1", "0x10", "1_0", "-NaN", "1.2.3"],
)
def test_all_else_is_no_number(text: str) -> None:
    assert read(text)[0] == NO_NUMBER
