"""Classic histograms, against a slow reading of the definition."""

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.evaluate.context import Features
from precompute.evaluate.functions.histograms import buckets_of
from precompute.evaluate.functions.numbers import go_g
from tests.precompute.evaluate.functions.asked import Asked, Drawn, rows
from tests.precompute.evaluate.made import nowhere, vector

INF, NAN = math.inf, math.nan
BOUNDS = st.lists(st.sampled_from([-5.0, -1.0, 0.0, 0.5, 1.0, 2.0, 10.0]), unique=True, max_size=5).map(sorted)
COUNTS = st.lists(st.integers(0, 20), min_size=6, max_size=6)


def histogram(bounds: list[float], counts: list[float], name: str = "b") -> dict[str, list[float | None]]:
    """Series of cumulative counts."""
    return {f'{name}{{le="{go_g(bound)}"}}': [count] for bound, count in zip(bounds, counts, strict=True)}


def quantile(phi: float, bounds: list[float], counts: list[float]) -> float:
    """Linear within the bucket that holds the rank; bounds end with +Inf, counts never fall."""
    total = counts[-1]
    if len(bounds) < 2 or total == 0:
        return NAN
    rank = phi * total
    b = next(i for i, count in enumerate(counts) if count >= rank or i == len(bounds) - 1)
    if b == len(bounds) - 1:
        return bounds[-2]
    if b == 0 and bounds[0] <= 0:
        return bounds[0]
    below, before = (bounds[b - 1], counts[b - 1]) if b else (0.0, 0.0)
    inside = counts[b] - before
    return below + (bounds[b] - below) * (rank - before) / inside if inside else NAN


def observed_below(value: float, bounds: list[float], counts: list[float]) -> float:
    """How many observations lie below a value: linear within finite buckets."""
    below, before = (-INF if bounds[0] <= 0 else 0.0), 0.0
    for bound, count in zip(bounds, counts, strict=True):
        if value <= below:
            return before
        if value < bound:
            if below == -INF:
                return count
            return before + (count - before) * (value - below) / (bound - below)
        below, before = bound, count
    return counts[-1]


def close(got: float | None, right: float) -> bool:
    near = got is not None and math.isclose(got, right, rel_tol=1e-12, abs_tol=1e-12)
    return near or (got is not None and math.isnan(got) and math.isnan(right))


def test_equal_bounds_add_up_in_order_of_their_texts_in_whatever_order_the_rows_come() -> None:
    counts = {"1": 0.1, "1.0": 0.2, "1.00": 0.3, "+Inf": 7.0}
    found = set()
    for texts in permutations(counts):
        made = [({"__name__": "b", "le": le}, [counts[le]]) for le in texts]
        buckets = buckets_of(vector(made, 1), nowhere(1))
        assert buckets.bounds.tolist() == [1, 1, 1, INF]
        found.add(tuple(buckets.values[:, 0].tolist()))
    assert found == {(0.1, 0.2, 0.3, 7.0)}


@given(BOUNDS, COUNTS, st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]))
def test_a_quantile_is_where_its_rank_lies(bounds: list[float], counts: list[int], phi: float) -> None:
    bounds = [*bounds, INF]
    rising = [float(sum(counts[: i + 1])) for i in range(len(bounds))]
    asked = Asked(histogram(bounds, rising), f"histogram_quantile({phi}, b)", 0)
    assert close(asked.rows()[""][0], quantile(phi, bounds, rising))
    assert not asked.notes.infos and not asked.notes.warnings


@given(BOUNDS, COUNTS, st.floats(-12, 12), st.floats(-12, 12))
def test_a_fraction_is_what_lies_between(bounds: list[float], counts: list[int], lower: float, above: float) -> None:
    bounds = [*bounds, INF]
    rising = [float(sum(counts[: i + 1])) for i in range(len(bounds))]
    got = rows(histogram(bounds, rising), f"histogram_fraction({lower!r}, {above!r}, b)", 0)[""][0]
    between = observed_below(above, bounds, rising) - observed_below(lower, bounds, rising)
    assert close(got, NAN if rising[-1] == 0 else 0.0 if lower >= above else between / rising[-1])


@pytest.mark.parametrize(("phi", "right"), [("NaN", NAN), ("-0.1", -INF), ("1.1", INF)])
def test_a_quantile_that_is_no_share_is_warned_of(phi: str, right: float) -> None:
    asked = Asked(histogram([1, INF], [1, 2]), f"histogram_quantile({phi}, b)", 0)
    assert close(asked.rows()[""][0], right) or asked.rows()[""][0] == right
    assert asked.notes.warnings == (f"PromQL warning: quantile value should be between 0 and 1, got {phi}",)


def test_without_the_infinite_bucket_there_is_no_number() -> None:
    for text in ("histogram_quantile(0.5, b)", "histogram_fraction(0, 1, b)"):
        assert close(rows(histogram([1, 2], [1, 2]), text, 0)[""][0], NAN)


def test_equal_bounds_are_added_up() -> None:
    series = {'b{le="1"}': [2], 'b{le="1.0"}': [2], 'b{le="+Inf"}': [8]}
    assert rows(series, "histogram_quantile(0.25, b)", 0) == {"": [0.5]}


def test_counts_that_fall_are_fixed_and_noted() -> None:
    series = histogram([1, 2, 4, INF], [5, 4.5, 8, 6.25])
    asked = Asked(series, "histogram_quantile(0.5, b)", 0, 10)
    assert asked.rows()[""] == [0.8, 0.8]
    assert asked.notes.infos == (
        "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see "
        "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile), from buckets 2 to +Inf, "
        "with a max diff of 1.8, over 2 samples from 1970-01-01T00:00:00Z to 1970-01-01T00:00:10Z",
    )


def test_differences_of_rounding_are_fixed_in_silence() -> None:
    asked = Asked(histogram([1, 2, INF], [5, 5 - 1e-13, 10]), "histogram_quantile(0.9, b)", 0)
    assert asked.rows()[""] == [2] and not asked.notes.infos


def test_a_malformed_bucket_label_is_warned_of_and_left_out() -> None:
    series: Drawn = {**histogram([1, INF], [1, 2]), 'b{le="Hello \\"World\\""}': [3], "b": [4]}
    wrong = 'PromQL warning: bucket label "le" is missing or has a malformed value of '
    plain = Asked(series, "histogram_quantile(0.5, b)", 0)
    assert plain.rows() == {"": [1]}
    assert set(plain.notes.warnings) == {wrong + '""', wrong + r'"Hello \"World\""'}
    delayed = Asked(series, "histogram_fraction(0, 1, b)", 0, features=Features(delayed_name_removal=True))
    assert wrong + '"" for metric name "b"' in delayed.notes.warnings


def test_histograms_are_told_apart_by_all_other_labels() -> None:
    series = {f'b{{j="{j}",le="{le}"}}': [c] for j in "12" for le, c in (("1", float(j)), ("+Inf", 4.0))}
    assert rows(series, "histogram_fraction(0, 1, b)", 0) == {"j=1": [0.25], "j=2": [0.5]}


def test_a_histogram_is_there_where_a_bucket_is() -> None:
    series = {'b{le="1"}': [1, None, None], 'b{le="+Inf"}': [2, 2, None]}
    got = rows(series, "histogram_quantile(0.5, last_over_time(b[5s]))", 0, 10, 20)[""]
    assert got[0] == 1 and close(got[1], NAN) and got[2] is None


def test_several_quantiles_are_told_apart_by_a_label() -> None:
    got = rows(histogram([1, INF], [2, 2]), 'histogram_quantiles(b, "q", 0.5, 1)', 0)
    assert got == {"q=0.5": [0.5], "q=1.0": [1]}
    moving = rows(histogram([1, INF], [2, 2]), 'histogram_quantiles(b, "q", scalar(vector(time() / 20)))', 0, 10)
    assert moving["q=0.5"] == [None, 0.5] and moving["q=0.0"][1] is None
