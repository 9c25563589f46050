"""Buckets hold the values next to each other, and their middles hold the bound."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.samples import F64
from precompute.sketches.log_index import LogIndex, log_index
from precompute.sketches.log_kernels import UNITS, key_of, middle_of
from tests.precompute.sketches.made import drawn

INDEX = log_index(0.01)
MARGIN = 1 - 5e-5
"""Of alpha; what is left is for the roundings of an interpolation."""

any_float = st.floats(allow_nan=False, allow_infinity=False)
by_bits = st.integers(0, 0x7FEFFFFFFFFFFFFF).map(lambda bits: float(np.int64(bits).view(np.float64)))


def key(value: float, index: LogIndex = INDEX) -> int:
    return int(key_of(np.float64(value).view(np.int64), index.top, index.per_octave, index.guess, index.edge))


def middle(k: int, index: LogIndex = INDEX) -> float:
    return float(middle_of(k, index.top, index.per_octave, index.middle))


def around(value: float) -> F64:
    return np.array([np.nextafter(value, -np.inf), value, np.nextafter(value, np.inf)])


@drawn
@given(value=any_float | by_bits)
def test_a_middle_lies_within_alpha_of_every_value_of_its_bucket(value: float) -> None:
    assert abs(middle(key(value)) - value) <= 0.01 * MARGIN * abs(value)


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.1])
def test_it_does_at_every_edge_of_every_kind_of_octave(alpha: float) -> None:
    index = log_index(alpha)
    for exponent in (-1074, -1059, -1058, -1057, -1040, -1023, -1022, -1, 0, 52, 1022, 1023):
        for part in range(index.per_octave):
            edge = math.ldexp(2 ** (part / index.per_octave), exponent)
            for value in around(edge):
                if 0 < value < math.inf:
                    assert abs(middle(key(value, index), index) - value) <= alpha * MARGIN * value


@drawn
@given(a=any_float | by_bits, b=any_float | by_bits)
def test_keys_rise_with_the_values(a: float, b: float) -> None:
    low, high = sorted([a, b])
    assert key(low) <= key(high)


def test_there_is_no_bucket_that_no_value_falls_into() -> None:
    middles = [middle(k) for k in range(INDEX.top + 1)]
    assert [key(value) for value in middles] == list(range(INDEX.top + 1))


@drawn
@given(value=by_bits)
def test_negative_values_are_the_mirror_of_positive_ones(value: float) -> None:
    assert key(-value) == -key(value)
    assert middle(-key(value)) == -middle(key(value))


def test_odd_values_have_keys_of_their_own_that_stand_for_nothing_else() -> None:
    assert (key(math.nan), key(-math.inf), key(math.inf)) == (INDEX.nan, INDEX.minus_inf, INDEX.plus_inf)
    assert INDEX.nan < INDEX.minus_inf < key(-1.7976931348623157e308) < key(-5e-324) < key(0.0) == key(-0.0) == 0
    assert 0 < key(5e-324) < key(1.7976931348623157e308) == INDEX.top < INDEX.plus_inf
    assert math.isnan(middle(INDEX.nan))
    assert (middle(INDEX.minus_inf), middle(0), middle(INDEX.plus_inf)) == (-math.inf, 0.0, math.inf)


def test_the_smallest_floats_stand_for_themselves() -> None:
    for units in (1, 2, 3, 100, UNITS - 1):
        assert middle(key(units * 5e-324)) == units * 5e-324


def test_the_keys_are_fixed_for_good_since_stored_sketches_hold_them() -> None:
    assert (INDEX.per_octave, INDEX.top) == (35, 138405)
    assert [key(v) for v in (1.0, 1.5, 2.0, 1000.0, 1e-9, -123.456)] == [
        102566,
        102586,
        102601,
        102914,
        101519,
        -102809,
    ]


@pytest.mark.parametrize("alpha", [0.0, 0.0009, 0.2, math.nan])
def test_an_alpha_out_of_range_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        log_index(alpha)
