"""The quantile sketch against PromQL's quantile on the same values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.samples import F64
from precompute.sketches.base import State, Vectors, one_pane
from precompute.sketches.columns import concat_columns
from precompute.sketches.log_buckets import COLUMNS, QUANTILE
from precompute.sketches.log_kernels import RAW_LIMIT
from tests.precompute.sketches.made import ODD, close, drawn, in_order, of_row, quantile, same_bits, vectors

PHIS = (-0.1, 0.0, 1e-9, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999999, 1.0, 1.1, math.nan, math.inf, -math.inf)


def sketch(values: F64) -> State:
    n = len(values)
    return QUANTILE.build(one_pane(values, np.zeros(n, np.int32), np.zeros(n, np.int32), 1))


def assert_holds(state: State, row: int, phi: float, values: F64) -> None:
    estimate = float(QUANTILE.estimate(state, "quantile", phi)[row])
    right, magnitude = quantile(phi, values.tolist())
    alpha = QUANTILE.alpha if len(values) > RAW_LIMIT else 0.0
    assert close(estimate, right, alpha * magnitude), f"phi {phi} of {len(values)} values: {estimate}, not {right}"


@drawn
@given(whole=vectors(), phi=st.sampled_from(PHIS) | st.floats(0, 1))
def test_every_quantile_of_every_row_is_within_the_bound(whole: Vectors, phi: float) -> None:
    state = QUANTILE.build(whole)
    for row in range(whole.rows):
        assert_holds(state, row, phi, of_row(whole, row))


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 100, 100_000])
@pytest.mark.parametrize("spread", ["narrow", "wide", "negative", "subnormal", "odd"])
def test_the_bound_holds_for_groups_of_all_sizes_and_kinds(n: int, spread: str) -> None:
    rng = np.random.default_rng(n)
    values = {
        "narrow": lambda: 20 + rng.random(n),
        "wide": lambda: rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-320, 308, n),
        "negative": lambda: -rng.exponential(5.0, n),
        "subnormal": lambda: rng.integers(-(2**20), 2**20, n) * 5e-324,
        "odd": lambda: np.where(rng.random(n) < 0.3, rng.choice(ODD, n), rng.normal(0, 100, n)),
    }[spread]()
    state = sketch(values)
    ordered = np.array(in_order(values.tolist()))
    for phi in (*PHIS, *rng.random(40)):
        assert_holds(state, 0, float(phi), ordered)


@pytest.mark.parametrize("n", [3, 200])
def test_an_infinity_beside_the_rank_makes_nan_as_in_promql(n: int) -> None:
    values = np.r_[np.full(n - 1, 5.0), np.inf]
    for phi in ((n - 2) / (n - 1), (n - 1.5) / (n - 1), 0.0, 1.0):
        right, _ = quantile(phi, values.tolist())
        assert close(QUANTILE.estimate(sketch(values), "quantile", phi)[0], right, 0)
    assert math.isnan(QUANTILE.estimate(sketch(np.full(n, np.inf)), "quantile", 0.0)[0])


@pytest.mark.parametrize("n", [65, 1000])
def test_the_smallest_and_the_largest_value_are_exact(n: int) -> None:
    values = np.random.default_rng(n).normal(0, 1, n)
    state = sketch(np.r_[values, np.nan])
    assert QUANTILE.estimate(sketch(values), "quantile", 0.0)[0] == values.min()
    assert QUANTILE.estimate(state, "quantile", 1.0)[0] == values.max()
    assert QUANTILE.estimate(state, "quantile", 1 / n)[0] == pytest.approx(values.min(), rel=1e-9)


def test_a_row_is_raw_up_to_the_limit_and_buckets_beyond() -> None:
    values = np.linspace(1, 2, RAW_LIMIT + 1)
    few, many = sketch(values[:-1]), sketch(values)
    assert (len(few["raw"]), len(few["key"])) == (RAW_LIMIT, 0)
    assert (len(many["raw"]), int(many["hits"].sum())) == (0, RAW_LIMIT + 1)


def test_raw_rows_become_buckets_when_their_sum_passes_the_limit() -> None:
    values = np.random.default_rng(5).normal(0, 10, RAW_LIMIT + 6)
    parts = concat_columns(COLUMNS, [sketch(values[:35]), sketch(values[35:])])
    assert same_bits(QUANTILE.merge(parts, np.zeros(2, np.int64), 1), sketch(values))


def test_each_row_may_have_a_phi_of_its_own() -> None:
    state = concat_columns(COLUMNS, [sketch(np.arange(100.0)), sketch(np.arange(5.0))])
    both = QUANTILE.estimate(state, "quantile", np.array([1.0, 0.5]))
    assert both.tolist() == [99.0, 2.0]


def test_a_count_that_would_wrap_around_is_refused() -> None:
    full = dict(sketch(np.full(RAW_LIMIT + 1, 3.0)))
    full["hits"] = np.array([2**32 - 1], np.uint32)
    with pytest.raises(OverflowError):
        QUANTILE.merge(concat_columns(COLUMNS, [full, full]), np.zeros(2, np.int64), 1)


def test_more_buckets_than_the_first_guess_are_kept() -> None:
    values = 10.0 ** np.random.default_rng(3).uniform(-300, 300, 20_000)
    state = sketch(np.r_[values, -values])
    assert len(state["key"]) > 4096
    assert (np.diff(state["key"]) > 0).all()
    assert int(state["hits"].sum()) == 40_000
