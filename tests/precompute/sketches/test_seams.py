"""Walks over panes against PromQL's functions of the whole window."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import BlobError
from precompute.sketches.base import State
from precompute.sketches.registry import accumulator
from tests.precompute.sketches.made import ODD, close, drawn
from tests.precompute.sketches.one_row import merged, samples
from tests.reference.ranges import range_function

Samples = list[tuple[int, float]]
OF_FAMILY = {"increase": ("increase", "rate", "delta"), "changes": ("changes",), "resets": ("resets",)}
RANGE_MS = 60_000
COUNTERS = st.integers(0, 20).map(float) | st.floats(0, 1e6) | st.sampled_from(ODD)


@st.composite
def windows(draw: st.DrawFn) -> tuple[Samples, list[int]]:
    """Samples within (0, RANGE_MS], and where the panes are cut."""
    times = sorted(draw(st.sets(st.integers(1, RANGE_MS), max_size=25)))
    values = draw(st.lists(COUNTERS, min_size=len(times), max_size=len(times)))
    return list(zip(times, values, strict=True)), sorted(draw(st.lists(st.integers(0, RANGE_MS), max_size=4)))


def of_panes(name: str, window: Samples, cuts: list[int]) -> State:
    kept = accumulator(name)
    edges = [0, *cuts, RANGE_MS]
    panes = [[(t, v) for t, v in window if a < t <= b] for a, b in zip(edges, edges[1:], strict=False)]
    return merged(kept, [kept.build(samples([t for t, _ in pane], [v for _, v in pane])) for pane in panes])


def fallen(window: Samples) -> float:
    """The sum of the values that a reset fell from; beyond floats, it is not known what the increase is."""
    return sum(before for (_, before), (_, after) in pairwise(window) if after < before)


def estimate(name: str, state: State, statistic: str) -> float:
    parameter = np.array([RANGE_MS, RANGE_MS], np.float64) if name == "increase" else 0.0
    return float(accumulator(name).estimate(state, statistic, parameter)[0])


@pytest.mark.parametrize("name", OF_FAMILY)
@drawn
@given(drawn_window=windows())
def test_panes_of_one_series_answer_as_the_whole_window_does(
    name: str, drawn_window: tuple[Samples, list[int]]
) -> None:
    window, cuts = drawn_window
    state = of_panes(name, window, cuts)
    for statistic in OF_FAMILY[name]:
        right = range_function(statistic, window, RANGE_MS, RANGE_MS, 0.0) if window else None
        found = estimate(name, state, statistic)
        if right is None or (statistic in ("increase", "rate") and math.isinf(fallen(window))):
            assert math.isnan(found)
        elif math.isfinite(right.value) and math.isfinite(right.scale):
            assert close(found, right.value, 1e-12 * right.scale)


def test_an_increase_beyond_floats_is_not_known() -> None:
    window = [(1, 1.7e308), (2, 0.0), (3, 1.7e308), (4, 0.0)]
    state = of_panes("increase", window, [2])
    assert math.isnan(estimate("increase", state, "increase"))
    assert not math.isnan(estimate("increase", state, "delta"))


def test_a_reset_at_a_seam_counts_as_one_within_a_pane() -> None:
    # (3 5 9](2 4]: the increase is 9 - 3 + 4, not 4 - 2 nor 4 - 3
    window = [(10_000, 3.0), (20_000, 5.0), (30_000, 9.0), (40_000, 2.0), (50_000, 4.0)]
    for cuts in ([], [30_000], [10_000, 20_000, 30_000, 40_000]):
        assert float(of_panes("increase", window, cuts)["added"][0]) == 9.0
        assert estimate("resets", of_panes("resets", window, cuts), "resets") == 1
        assert estimate("changes", of_panes("changes", window, cuts), "changes") == 4


def test_an_empty_pane_between_two_has_no_seam_of_its_own() -> None:
    window = [(10_000, 7.0), (50_000, 7.0)]
    assert estimate("changes", of_panes("changes", window, [20_000, 40_000]), "changes") == 0


@pytest.mark.parametrize("name", OF_FAMILY)
def test_panes_merged_out_of_the_order_of_time_answer_nothing(name: str) -> None:
    kept = accumulator(name)
    early, late = (kept.build(samples([t, t + 1000], [1.0, 2.0])) for t in (1000, 3000))
    for statistic in OF_FAMILY[name]:
        assert math.isnan(estimate(name, merged(kept, [late, early]), statistic))
        assert math.isnan(estimate(name, merged(kept, [early, early]), statistic))
        assert not math.isnan(estimate(name, merged(kept, [early, late]), statistic))


def test_a_window_that_does_not_hold_the_samples_is_refused() -> None:
    state = of_panes("increase", [(1, 1.0), (RANGE_MS, 2.0)], [])
    with pytest.raises(ValueError, match="does not hold all samples"):
        accumulator("increase").estimate(state, "rate", np.array([RANGE_MS, RANGE_MS - 1.0]))
    with pytest.raises(ValueError, match="is a window"):
        accumulator("increase").estimate(state, "rate", 3.0)


def test_first_and_last_are_of_all_series_and_of_two_at_one_time_the_larger() -> None:
    kept = accumulator("firstlast")
    one = kept.build(samples([1000, 5000], [3.0, math.nan]))
    other = kept.build(samples([1000, 5000], [4.0, -7.0]))
    for parts in ([one, other], [other, one]):
        state = merged(kept, parts)
        assert kept.estimate(state, "first_over_time").tolist() == [4.0]
        assert kept.estimate(state, "last_over_time").tolist() == [-7.0]
        assert kept.estimate(state, "ts_of_last_over_time").tolist() == [5.0]


@pytest.mark.parametrize(("column", "value"), [("n", -1), ("resets", 3), ("resets", -1), ("overlaps", 2)])
def test_columns_that_no_samples_give_are_refused(column: str, value: int) -> None:
    kept = accumulator("resets")
    state = dict(kept.build(samples([1, 2], [1.0, 2.0])))
    state[column] = np.array([value])
    with pytest.raises(BlobError, match="do not fit"):
        kept.check(state)
