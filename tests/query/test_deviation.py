"""Answers of sketches are judged by what their bounds say, and those of chance by how often they fail."""

import math

import numpy as np
import pytest

from precompute.catalog import Coverage, cover
from precompute.samples import F64
from precompute.sketches.base import one_pane
from precompute.sketches.registry import accumulator
from query.deviation import Deviation, _deviation
from query.margin import Margin, improbable
from tests.precompute.made_node import aggregation
from tests.precompute.planner.asking import demands

SKETCHES = ("kll(k=200)", "req", "tdigest", "le", "quantile")


def coverage(name: str, phi: float) -> Coverage:
    (demand,) = demands(f"quantile({phi}, m)")
    found = cover(demand.finest, [aggregation("m", accumulators=[accumulator(name).name])])
    assert isinstance(found, Coverage)
    return found


def judged(name: str, phi: float, values: F64, moved: float = 0.0) -> Deviation:
    """The sketch's answer, moved; what right answers of all are."""
    zeros, kept = np.zeros(len(values), np.int32), accumulator(name)
    got = float(kept.estimate(kept.build(one_pane(values, zeros, zeros, 1)), "quantile", phi)[0]) + moved
    found = _deviation(coverage(name, phi), got, float(np.quantile(values, phi)), np.sort(values))
    assert found is not None
    return Deviation(*found)


def drawn(seed: int) -> F64:
    random = np.random.default_rng(seed)
    kind = seed % 3
    size = int(random.integers(1, 5000))
    if kind == 0:
        return random.exponential(2.0, size)
    return random.normal(0, 30, size) if kind == 1 else random.integers(-3, 12, size).astype(np.float64)


@pytest.mark.parametrize("name", SKETCHES)
def test_right_answers_are_within(name: str) -> None:
    outside = [
        (seed, phi) for seed in range(60) for phi in (0.0, 0.1, 0.5, 0.87, 0.99, 1.0)
        if judged(name, phi, drawn(seed)).outside
    ]  # fmt: skip
    assert len(outside) <= (0 if name in ("le", "quantile") else 3), outside


@pytest.mark.parametrize("name", SKETCHES)
def test_answers_that_are_far_off_are_outside(name: str) -> None:
    values = np.random.default_rng(4).normal(5, 1, 3000)
    assert judged(name, 0.5, values, moved=6.0).outside
    assert judged(name, 0.5, values, moved=-6.0).outside
    assert judged(name, 0.5, values, moved=-math.inf).outside


def test_the_rank_of_an_answer_is_that_of_promql() -> None:
    values = np.array([1.0, 2.0, 2.0, 4.0, 8.0])
    for phi, got, error in ((0.5, 2.0, 0.0), (0.25, 2.0, 0.0), (0.2, 2.0, 0.05), (0.9, 4.0, 0.15), (0.5, 6.0, 0.375)):
        found = _deviation(coverage("kll", phi), got, float(np.quantile(values, phi)), values)
        assert found is not None and found[0] == pytest.approx(error, abs=1e-6)


@pytest.mark.parametrize(("op", "largest", "judged"), [
    ("stdvar", 1e153, True), ("stdvar", 1e155, False), ("stddev", 1e155, True), ("sum", 1e307, True),
    ("sum", 1e308, False),
])  # fmt: skip
def test_where_the_magnitudes_that_are_added_overflow_rounding_has_no_bound(
    op: str, largest: float, judged: bool
) -> None:
    (demand,) = demands(f"{op}(m)")
    found = cover(demand.finest, [aggregation("m", accumulators=["sum", "stddev"])])
    assert isinstance(found, Coverage)
    deviation = _deviation(found, 1e306, 3e306, np.full(4, largest))
    assert (deviation is not None) == judged
    assert deviation is None or Deviation(*deviation).outside


def judgement(outside: bool, end_ms: int) -> Deviation:
    return Deviation(2.0 if outside else 0.0, 1.0, confidence=0.99, end_ms=end_ms)


def test_failures_as_often_as_their_chance_are_none_and_more_are() -> None:
    random, margin = np.random.default_rng(7), Margin()
    assert not any(margin.too_many("a", judgement(bool(random.random() < 0.01), k)) for k in range(1, 20_000))
    assert any(margin.too_many("a", judgement(bool(random.random() < 0.05), k)) for k in range(20_000, 23_000))


def test_a_few_failures_in_a_row_are_too_many_and_one_pane_is_judged_once() -> None:
    margin = Margin()
    assert not any(margin.too_many("a", judgement(True, 15_000)) for _ in range(100))
    assert [margin.too_many("b", judgement(True, k)) for k in range(1, 6)] == [False] * 4 + [True]


def test_the_tail_is_never_thought_less_probable_than_it_is() -> None:
    for judged_, chance in ((5, 0.01), (100, 0.01), (1000, 0.003)):
        for outside in range(1, judged_ + 1):
            tail = sum(
                math.comb(judged_, k) * chance**k * (1 - chance) ** (judged_ - k) for k in range(outside, judged_ + 1)
            )
            assert not improbable(outside, judged_, chance) or tail < 1e-9
            if tail < 1e-9:
                break
