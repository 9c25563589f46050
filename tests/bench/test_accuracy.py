"""The bounds of all accumulators on drawn data up to 100,000 values, and the page's own checks."""

import math
from dataclasses import replace

import numpy as np
import pytest

from precompute.samples import F64
from precompute.sketches.base import Bound
from tests.bench.accuracy import PATH, cells, check, most_misses, registry_table, sections
from tests.bench.accuracy_claim import Claim, Trial
from tests.bench.accuracy_claims import CLAIMS
from tests.bench.accuracy_data import DISTRIBUTIONS, rank_error

SIZES = (10, 1000, 10_000, 100_000)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.name} {claim.statistic}")
def test_every_bound_holds_on_all_data(claim: Claim) -> None:
    check(claim, list(cells([claim], SIZES, 5)))


def test_the_page_has_a_row_for_all_data_and_sizes() -> None:
    text = sections(CLAIMS[:2], [10, 100], 2)
    assert text.count("| 2 |") == 2 * 2 * len(DISTRIBUTIONS)


def test_the_page_lists_what_the_registry_has() -> None:
    assert registry_table() in PATH.read_text("utf-8"), "run make accuracy"


def claim_that_is_off(misses: int, confidence: float) -> Claim:
    """A bound that is broken in the first few of all draws."""
    left = iter([False] * misses + [True] * 10_000)

    def measure(values: F64, parts: int) -> Trial:
        return Trial(np.zeros(1), np.array([len(set(values)) == 1 or next(left)]), 1)

    return replace(CLAIMS[0], bound=Bound("rank", 0.1, confidence), measure=measure)


@pytest.mark.parametrize(
    ("misses", "confidence", "fine"), [(0, 1, True), (1, 1, False), (5, 0.99, True), (30, 0.99, False)]
)
def test_a_bound_that_is_broken_too_often_ends_the_run(misses: int, confidence: float, fine: bool) -> None:
    claim = claim_that_is_off(misses, confidence)
    measured = list(cells([claim], [10], 20))
    if fine:
        assert f"{misses} of 140" in check(claim, measured)
    else:
        with pytest.raises(AssertionError, match="are outside"):
            check(claim, measured)


def test_the_binomial_margin() -> None:
    assert most_misses(1000, 0.0) == 0
    assert most_misses(1, 0.01) == 1
    assert 10 < most_misses(1000, 0.01) < 40


def test_a_rank_error_is_the_distance_to_the_nearest_rank_that_has_the_value() -> None:
    ordered = np.array([1.0, 2.0, 2.0, 2.0, 4.0])
    assert rank_error(ordered, 0.5, 2.0) == 0.0
    assert rank_error(ordered, 0.9, 2.0) == pytest.approx(0.15)
    assert rank_error(ordered, 0.0, 2.0) == 0.25
    assert rank_error(ordered, 0.5, 3.0) == pytest.approx(0.375)
    assert math.isinf(rank_error(ordered, 0.5, 5.0))
