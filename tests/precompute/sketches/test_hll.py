"""Distinct counts against sets, and the bound at its confidence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import BlobError
from precompute.samples import U64
from precompute.sketches.base import State
from precompute.sketches.registry import accumulator, fitted
from tests.precompute.sketches.chance import allowed_misses
from tests.precompute.sketches.made import drawn, same_bits
from tests.precompute.sketches.one_row import in_parts, weighed

HLL = accumulator("hll")
SMALL = accumulator("hll(p=7)")


def some_keys(n: int, seed: int) -> U64:
    """n distinct keys, one after another: the sketch hashes them itself."""
    return np.arange(n, dtype=np.uint64) + np.uint64(seed << 40)


@drawn
@given(st.lists(st.integers(0, 30), max_size=60))
def test_few_keys_are_counted_exactly(keys: list[int]) -> None:
    state = HLL.build(weighed(keys))
    assert HLL.estimate(state, "distinct").tolist() == [len(set(keys))]
    assert state["key"].tolist() == sorted(set(keys))


def test_keys_become_registers_when_they_would_take_more_bytes() -> None:
    few, more = (SMALL.build(weighed(some_keys(n, 0))) for n in (16, 17))
    assert (len(few["key"]), len(few["reg"])) == (16, 0)
    assert (len(more["key"]), len(more["reg"])) == (0, 128)


@pytest.mark.parametrize("parts", [2, 5, 40])
def test_parts_give_the_bits_of_the_whole_across_the_change_to_registers(parts: int) -> None:
    for n in (1, 16, 17, 100, 3000):
        keys = weighed(np.repeat(some_keys(n, 1), 2))
        assert same_bits(in_parts(SMALL, keys, parts), SMALL.build(keys))


@pytest.mark.parametrize(("p", "n"), [(7, 1000), (7, 100_000), (10, 200), (10, 3000), (10, 20_000), (14, 50_000)])
def test_the_bound_holds_at_its_confidence(p: int, n: int) -> None:
    kept = accumulator(f"hll(p={p})") if p != 14 else HLL
    bound = kept.answers["distinct"]
    trials = 200 if n <= 20_000 else 40
    errors = [
        abs(kept.estimate(kept.build(weighed(some_keys(n, seed))), "distinct")[0] / n - 1) for seed in range(trials)
    ]
    assert sum(e > bound.size for e in errors) <= allowed_misses(trials, bound.confidence)
    assert float(np.mean(errors)) > bound.size / 30, "an error this small is not that of so few registers"


def test_a_smaller_error_takes_more_registers() -> None:
    assert [fitted("hll", sla) for sla in (0.3, 0.95)] == ["hll(p=10)", "hll(p=12)"]
    assert accumulator(fitted("hll", 0.99)).answers["distinct"].size <= 0.01
    with pytest.raises(ValueError, match=r"not within 0\.001"):
        fitted("hll", 0.999)


def broken(**columns: list[int]) -> State:
    state = dict(SMALL.build(weighed(some_keys(100, 0))))
    return state | {name: np.array(values, state[name].dtype) for name, values in columns.items()}


@pytest.mark.parametrize(
    "state",
    [
        broken(reg=[59] * 128),
        broken(reg=[1] * 64, reg_off=[0, 64]),
        broken(key=[5], key_off=[0, 1]),
        broken(reg=[], reg_off=[0, 0], key=list(range(17)), key_off=[0, 17]),
        broken(reg=[], reg_off=[0, 0], key=[2, 1], key_off=[0, 2]),
    ],
    ids=["rank", "length", "both forms", "too many keys", "order"],
)
def test_columns_that_no_keys_give_are_refused(state: State) -> None:
    with pytest.raises(BlobError, match="of hll"):
        SMALL.check(state)
