"""Sketches of weighted keys against exact weights: count-min, with a heap, and frequent items."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import BlobError
from precompute.samples import F64, U64
from precompute.sketches.base import Items
from precompute.sketches.registry import accumulator, fitted
from tests.precompute.sketches.chance import allowed_misses
from tests.precompute.sketches.made import ODD, drawn, same_bits
from tests.precompute.sketches.one_row import in_parts, merged, weighed

KINDS = ("countmin(width=64, depth=3)", "countminheap(width=64, depth=3, k=10)", "frequent(k=10)")
each = pytest.mark.parametrize("name", KINDS)


def zipf(seed: int, n: int, a: float = 1.01) -> Items:
    """Keys with Zipf's frequencies, weight 1 each."""
    return weighed(np.random.default_rng(seed).zipf(a, n).astype(np.uint64))


def exact(items: Items) -> tuple[U64, F64]:
    """Distinct keys and their weights, heaviest first."""
    keys, place = np.unique(items.key, return_inverse=True)
    weights = np.bincount(place, items.value)
    order = np.argsort(-weights, kind="stable")
    return keys[order], weights[order]


def estimates(name: str, state: object, keys: U64) -> F64:
    kept = accumulator(name)
    return np.array([kept.estimate(state, "weight", key)[0] for key in keys])  # type: ignore[arg-type]


@each
@drawn
@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1e9)), max_size=80))
def test_few_keys_have_their_exact_weights(name: str, items: list[tuple[int, float]]) -> None:
    state = accumulator(name).build(weighed([key for key, _ in items], [w for _, w in items]))
    for key in range(11):
        right = math.fsum(w for own, w in items if own == key)
        assert math.isclose(estimates(name, state, np.array([key], np.uint64))[0], right, rel_tol=1e-15)


@each
@pytest.mark.parametrize("parts", [1, 7])
def test_an_estimate_is_within_the_bound_for_zipfs_keys(name: str, parts: int) -> None:
    kept, bound = accumulator(name), accumulator(name).answers["weight"]
    misses = trials = 0
    for seed in range(20):
        whole = zipf(seed, 3000)
        keys, weights = exact(whole)
        errors = estimates(name, in_parts(kept, whole, parts), keys[:200]) - weights[:200]
        assert (errors <= 1e-9).all() if name.startswith("frequent") else (errors >= -1e-9).all()
        misses += int((np.abs(errors) > bound.size * 3000 + 1e-9).sum())
        trials += len(errors)
    assert misses <= (0 if bound.confidence == 1 else allowed_misses(trials, bound.confidence))


@pytest.mark.parametrize("name", ["countminheap(width=500, k=20)", "frequent(k=50)"])
@pytest.mark.parametrize("parts", [1, 9])
def test_the_heaviest_keys_are_within_the_bound_of_their_ranks(name: str, parts: int) -> None:
    kept, bound = accumulator(name), accumulator(name).answers["topk"]
    misses = 0
    for seed in range(20):
        whole = zipf(seed, 20_000, 1.2)
        state = in_parts(kept, whole, parts)
        _, weights = exact(whole)
        found = np.array([kept.estimate(state, "topk", rank)[0] for rank in range(1, 11)])
        misses += int((np.abs(found - weights[:10]) > bound.size * 20_000).any())
    assert misses <= (0 if bound.confidence == 1 else allowed_misses(20, bound.confidence))


@pytest.mark.parametrize("name", ["countminheap(width=2000, k=50)", "frequent(k=50)"])
def test_the_keys_of_more_than_the_bounds_share_are_all_named(name: str) -> None:
    kept, bound = accumulator(name), accumulator(name).answers["topk"]
    for seed in range(20):
        whole = zipf(seed, 20_000, 1.2)
        off, key, weight = kept.heaviest(in_parts(kept, whole, 9))
        keys, weights = exact(whole)
        heavy = keys[weights > bound.size * 20_000]
        assert len(heavy) > 1
        assert set(heavy.tolist()) <= set(key.tolist())
        assert (np.diff(weight) <= 0).all() and off.tolist() == [0, len(key)]


def test_cells_of_whole_weights_are_those_of_the_whole_in_any_order_of_parts() -> None:
    kept = accumulator(KINDS[0])
    whole = weighed(np.arange(3000, dtype=np.uint64) % np.uint64(900), np.arange(3000) % 17)
    pieces = np.random.default_rng(3).permutation(3000).reshape(10, 300)
    parts = [kept.build(Items(*(c[p] for c in (whole.row, whole.value, whole.t_ms, whole.key)), 1)) for p in pieces]
    assert same_bits(merged(kept, parts), kept.build(whole))
    assert same_bits(merged(kept, [merged(kept, parts[5:]), merged(kept, parts[:5])]), kept.build(whole))


@each
def test_a_thousand_million_equal_weights_are_summed_to_within_1e_12(name: str) -> None:
    kept = accumulator(name)
    once = kept.build(weighed(np.full(1_000_000, 9, np.uint64), 0.1))
    state = merged(kept, [once] * 1000)
    assert math.isclose(estimates(name, state, np.array([9], np.uint64))[0], 1e8, rel_tol=1e-12)


@each
@pytest.mark.parametrize("weight", [v for v in ODD if not 0 <= v < math.inf])
def test_a_weight_that_is_none_makes_the_row_unknown_and_no_other(name: str, weight: float) -> None:
    kept = accumulator(name)
    items = Items(
        np.array([0, 0, 1], np.int32), np.array([1.0, weight, 2.0]), np.zeros(3, np.int64), np.full(3, 5, np.uint64), 2
    )
    for statistic, parameter in (("weight", 5), ("topk", 1)):
        if statistic in kept.answers:
            unknown, known = kept.estimate(kept.build(items), statistic, parameter)
            assert math.isnan(unknown) and known == 2.0


@each
def test_a_total_that_overflows_makes_the_row_unknown(name: str) -> None:
    kept = accumulator(name)
    assert math.isnan(kept.estimate(kept.build(weighed([1, 2], 1.7e308)), "weight", 1)[0])


@each
def test_weights_of_zero_leave_no_trace(name: str) -> None:
    kept = accumulator(name)
    assert same_bits(kept.build(weighed([1, 2], [0.0, -0.0])), kept.build(weighed([])))


def test_the_error_of_frequent_items_is_known_and_within_the_bound() -> None:
    kept = accumulator("frequent(k=10)")
    state = in_parts(kept, weighed(np.arange(10_000) % 1000), 13)
    assert 0 < state["error"][0] <= 10_000 / 11
    assert len(state["key"]) <= 10


def test_parameters_come_from_the_error_that_is_allowed() -> None:
    assert [fitted("countmin", sla) for sla in (0.3, 0.99, 0.999)] == [
        "countmin(width=272)", "countmin(width=272)", "countmin"
    ]  # fmt: skip
    assert [fitted("frequent", sla) for sla in (0.3, 0.99)] == ["frequent(k=50)", "frequent(k=100)"]
    found = accumulator(fitted("countminheap", 0.95))
    assert max(bound.size for bound in found.answers.values()) <= 0.05


@each
def test_columns_that_no_weights_give_are_refused(name: str) -> None:
    kept = accumulator(name)
    state = dict(kept.build(weighed([1, 2, 3], [1.0, 2.0, 3.0])))
    for column, values in (("key", [2, 1, 3]), ("weight", [1.0, -2.0, 3.0]), ("weight", [1.0, math.nan, 3.0])):
        with pytest.raises(BlobError, match=name.split("(")[0]):
            kept.check({**state, column: np.array(values, state[column].dtype)})


@pytest.mark.parametrize("name", KINDS[:2])
def test_cells_of_another_size_are_refused(name: str) -> None:
    kept = accumulator(name)
    state = dict(kept.build(weighed(np.arange(500))))
    cut = {"cell": state["cell"][:-1], "cell_off": np.array([0, len(state["cell"]) - 1])}
    with pytest.raises(BlobError, match="do not fit"):
        kept.check({**state, **cut})
