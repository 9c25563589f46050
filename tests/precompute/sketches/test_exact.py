"""The exact accumulators against PromQL's rules, written out value by value."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.samples import F64
from precompute.sketches.base import Vectors, one_pane
from precompute.sketches.registry import STATISTICS, accumulator
from tests.precompute.sketches.made import close, drawn, of_row, vectors

INF, NAN = math.inf, math.nan


def answer(statistic: str, whole: Vectors) -> F64:
    wanted = STATISTICS[statistic]
    return wanted.estimate({name: accumulator(name).build(whole) for name in wanted.needs}, NAN)


def covered(statistic: str, whole: Vectors) -> list[bool]:
    wanted = STATISTICS[statistic]
    return wanted.covered({name: accumulator(name).build(whole) for name in wanted.needs}).tolist()


def group_of(values: list[float], shards: int = 1) -> Vectors:
    """One pane, one group, its values spread over the shards in turn."""
    shard = np.sort(np.arange(len(values), dtype=np.int32) % shards)
    return one_pane(np.array(values), np.zeros(len(values), np.int32), shard, 1)


@drawn
@given(whole=vectors(odd=False))
def test_a_sum_is_within_1e_12_of_the_sum_of_magnitudes(whole: Vectors) -> None:
    for row, total in enumerate(answer("sum", whole)):
        values = of_row(whole, row)
        assert abs(total - math.fsum(values)) <= 1e-12 * math.fsum(abs(values))


@drawn
@given(whole=vectors(odd=False))
def test_a_variance_is_within_1e_12_of_the_sum_of_squares(whole: Vectors) -> None:
    for row, m2 in enumerate(accumulator("stddev").build(whole)["m2"]):
        values = of_row(whole, row)
        mean = math.fsum(values) / max(len(values), 1)
        assert abs(m2 - math.fsum((values - mean) ** 2)) <= 1e-12 * math.fsum(values**2)


@drawn
@given(whole=vectors())
def test_count_min_and_max_are_promqls(whole: Vectors) -> None:
    counts, lows, highs = answer("count", whole), answer("min", whole), answer("max", whole)
    for row in range(whole.rows):
        values = of_row(whole, row)
        numbers = values[~np.isnan(values)]
        assert counts[row] == len(values)
        assert close(lows[row], min(numbers, default=NAN), 0)
        assert close(highs[row], max(numbers, default=NAN), 0)


@drawn
@given(whole=vectors(odd=False))
def test_an_average_is_the_mean_of_the_values(whole: Vectors) -> None:
    means = answer("avg", whole)
    for row in range(whole.rows):
        values = of_row(whole, row)
        right = math.fsum(values) / len(values) if len(values) else NAN
        assert close(means[row], right, 1e-12 * float(np.mean(np.abs(values))) if len(values) else 0)


def test_a_sum_keeps_what_plain_addition_loses() -> None:
    assert answer("sum", group_of([1.0, 1e100, 1.0, -1e100]))[0] == 2.0
    assert answer("sum", group_of([1.0, 1e100, 1.0, -1e100], shards=2))[0] == 2.0


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize(
    ("values", "total", "mean"),
    [
        ([INF, 1.0, 2.0], INF, INF),
        ([1.0, -INF, 2.0], -INF, -INF),
        ([INF, INF, INF], INF, INF),
        ([INF, 1.0, -INF], NAN, NAN),
        ([1.0, NAN, 2.0], NAN, NAN),
        ([INF, NAN, 1.0], NAN, NAN),
        ([-0.0, -0.0, -0.0], 0.0, 0.0),
        ([1e308, -1e308, 5.0], 5.0, 5.0 / 3),
    ],
)
def test_sums_and_averages_of_odd_values_are_promqls(
    values: list[float], total: float, mean: float, shards: int
) -> None:
    whole = group_of(values, shards)
    assert repr(answer("sum", whole).tolist()) == repr([total])
    assert repr(answer("avg", whole).tolist()) == repr([mean])
    assert covered("avg", whole) == [True]


def test_an_average_whose_sum_overflowed_is_not_covered_and_one_of_infinities_is() -> None:
    assert covered("avg", group_of([1.7e308, 1.7e308])) == [False]
    assert covered("avg", group_of([1.7e308, 1.7e308, -INF])) == [True]
    assert answer("avg", group_of([1.7e308, 1.7e308, -INF])).tolist() == [-INF]


@pytest.mark.parametrize("odd", [INF, -INF, NAN])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_deviation_of_a_value_that_is_not_finite_is_nan(odd: float, at: int) -> None:
    values = [1.0, 2.0]
    values.insert(at, odd)
    for shards in (1, 2, 3):
        assert math.isnan(answer("stddev", group_of(values, shards))[0])
        assert covered("stddev", group_of(values, shards)) == [True]
    assert math.isnan(answer("stdvar", group_of([odd]))[0])


def test_a_variance_that_overflowed_is_not_covered() -> None:
    assert covered("stddev", group_of([1e200, -1e200])) == [False]
    assert covered("stdvar", group_of([1e200, -1e200], shards=2)) == [False]
    assert covered("stdvar", group_of([1.7e308, -1.7e308, 0.0])) == [False]


def test_a_deviation_is_that_of_the_population() -> None:
    assert answer("stddev", group_of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]))[0] == 2.0
    assert answer("stdvar", group_of([3.0]))[0] == 0.0


@drawn
@given(st.lists(st.sampled_from([0.0, -0.0, NAN, -NAN]), min_size=1, max_size=6))
def test_zeros_and_nans_of_either_sign_give_the_same_bits_in_any_order(values: list[float]) -> None:
    for name in ("min", "max"):
        there, back = (accumulator(name).build(group_of(order))[name].tobytes() for order in (values, values[::-1]))
        assert there == back
