"""KLL, REQ, t-digest and classic buckets: what each keeps exactly, and which damaged columns are refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import BlobError
from precompute.samples import F64
from precompute.sketches.base import State, Vectors, one_pane
from precompute.sketches.columns import concat_columns
from precompute.sketches.compactor_kernels import kll_capacity, req_sections
from precompute.sketches.registry import accumulator
from precompute.sketches.tdigest_kernels import step_of
from tests.precompute.sketches.made import close, drawn, of_row, quantile, vectors

SMALL = ("kll(k=8)", "req(k=4)", "tdigest(k=10)", "le(bounds=-5.0 0.0 0.001)")
LARGE = ("kll(k=800)", "req(k=64)", "tdigest(k=800)")


def sketch(name: str, values: F64) -> State:
    n = len(values)
    return accumulator(name).build(one_pane(values, np.zeros(n, np.int32), np.zeros(n, np.int32), 1))


@pytest.mark.parametrize("name", LARGE)
@drawn
@given(whole=vectors(), phi=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, math.nan]) | st.floats(0, 1))
def test_rows_that_dropped_nothing_give_promqls_quantile(name: str, whole: Vectors, phi: float) -> None:
    estimates = accumulator(name).estimate(accumulator(name).build(whole), "quantile", phi)
    for row in range(whole.rows):
        right, scale = quantile(phi, of_row(whole, row).tolist())
        assert close(float(estimates[row]), right, 1e-15 * scale if math.isfinite(scale) else 0)


@pytest.mark.parametrize("name", SMALL)
@drawn
@given(whole=vectors(panes=1))
def test_the_ends_and_what_is_no_number_are_exact_however_full_a_row_is(name: str, whole: Vectors) -> None:
    kept = accumulator(name)
    state = kept.build(whole)
    lowest, highest = kept.estimate(state, "quantile", 0.0), kept.estimate(state, "quantile", 1.0)
    for row in range(whole.rows):
        values = of_row(whole, row).tolist()
        assert int(state["n"][row]) == len(values)
        assert int(state["nans"][row]) == sum(map(math.isnan, values))
        if not any(map(math.isinf, values)):  # beside an infinity PromQL's interpolation itself gives NaN
            assert close(float(lowest[row]), quantile(0.0, values)[0], 0)
            assert close(float(highest[row]), quantile(1.0, values)[0], 0)


@pytest.mark.parametrize("name", SMALL)
def test_quantiles_rise_with_phi(name: str) -> None:
    values = np.random.default_rng(3).normal(0, 10, 5000)
    state = sketch(name, values)
    found = [float(accumulator(name).estimate(state, "quantile", phi)[0]) for phi in np.linspace(0, 1, 101)]
    assert all(a <= b + 1e-14 * abs(b) for a, b in itertools.pairwise(found))
    assert (found[0], found[-1]) == (values.min(), values.max())


@pytest.mark.parametrize("name", SMALL)
def test_each_row_may_have_a_phi_of_its_own(name: str) -> None:
    kept = accumulator(name)
    both = concat_columns(kept.columns, [sketch(name, np.array([1.0, 2.0])), sketch(name, np.array([3.0, 4.0, 9.0]))])
    assert kept.estimate(both, "quantile", np.array([1.0, 0.0])).tolist() == [2.0, 3.0]


def test_classic_buckets_count_values_at_their_bound_in_it() -> None:
    state = sketch("le(bounds=1.0 2.0)", np.array([0.5, 1.0, 1.5, 2.0, 2.5, math.nan, math.inf, -math.inf]))
    assert state["hits"].tolist() == [2, 2, 1]


def test_a_classic_bucket_is_read_along_a_straight_line_as_histogram_quantile_does() -> None:
    values = np.r_[np.zeros(10), np.full(100, 15.0), np.full(10, 30.0)]
    kept = accumulator("le(bounds=0.0 10.0 20.0)")
    state = sketch(kept.name, values)
    assert kept.estimate(state, "quantile", 59 / 119)[0] == pytest.approx(15.0)
    assert kept.estimate(state, "quantile", 34 / 119)[0] == pytest.approx(12.5)


@given(k=st.integers(8, 4096), above=st.integers(0, 40))
def test_a_levels_capacity_is_rounded_up_from_whole_numbers(k: int, above: int) -> None:
    assert kll_capacity(k, above) == max(8, math.ceil(k * Fraction(2, 3) ** above))


def test_the_sections_of_a_level_grow_in_number_and_shrink_in_size_as_rounds_pass() -> None:
    assert [req_sections(12, rounds) for rounds in (0, 3, 4, 31, 32, 2047, 2048, 2**62)] == [
        (12, 3), (12, 3), (8, 6), (8, 6), (6, 12), (6, 12), (4, 24), (4, 24)
    ]  # fmt: skip


def test_a_step_of_the_digests_scale_is_fixed_for_good_since_stored_centroids_come_from_it() -> None:
    step = step_of(200)
    assert (step.cosine, step.sine) == (1098969085161 / 2**40, 34536494844 / 2**40)


@pytest.mark.parametrize("name", SMALL[:3])
def test_the_room_that_a_row_may_take_is_kept_to_through_many_merges(name: str) -> None:
    kept, draw = accumulator(name), np.random.default_rng(7)
    states = [sketch(name, draw.normal(0, 1, 300)) for _ in range(200)]
    merged = kept.merge(concat_columns(kept.columns, states), np.zeros(200, np.int64), 1)
    kept.check(merged)
    assert int(merged["n"][0]) == 60_000
    assert sum(a.nbytes for a in merged.values()) < 4000


DAMAGE = {
    "kll(k=8)": [
        ("n", 0, 1), ("n", 0, -1), ("nans", 0, 5), ("nans", 0, -1), ("item", 3, math.nan), ("item", 0, 1e300),
        ("size", 0, 100), ("size", 1, 2**32 - 1),
    ],
    "req(k=4)": [("n", 0, 1), ("item", 0, 1e300), ("size", 0, 5), ("size", 1, 0)],
    "tdigest(k=10)": [
        ("n", 0, 1), ("minus", 0, -1), ("plus", 0, 1), ("low", 0, math.nan), ("high", 0, math.inf), ("mean", 0, 1e300),
        ("mean", 2, math.nan), ("weight", 0, 0), ("weight", 1, 2**62),
    ],
    "le(bounds=-5.0 0.0 0.001)": [("n", 0, 1), ("hits", 0, -1), ("hits", 1, 1000), ("low", 0, math.nan)],
    "quantile": [("n", 0, 1), ("n", 0, 3), ("hits", 0, 0), ("key", 0, -(2**31)), ("key", 2, 2**31 - 1), ("key", 1, 0)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "column", "at", "value"), [(name, *one) for name, damage in DAMAGE.items() for one in damage]
)
def test_columns_that_do_not_fit_each_other_are_refused(name: str, column: str, at: int, value: float) -> None:
    kept = accumulator(name)
    state = dict(sketch(name, np.r_[np.random.default_rng(5).normal(3, 10, 500), math.nan]))
    kept.check(state)
    damaged = state[column].copy()
    damaged[at] = value
    with pytest.raises(BlobError, match="do not fit each other"):
        kept.check({**state, column: damaged})
