"""Theta sketches against sets, the bound at its confidence, and bytes that are no sketch."""

import numpy as np
import pytest

from precompute.errors import BlobError
from precompute.samples import U64
from precompute.sketches.registry import accumulator
from tests.precompute.sketches.chance import allowed_misses
from tests.precompute.sketches.made import same_bits
from tests.precompute.sketches.one_row import in_parts, weighed

SMALL = accumulator("theta(lg_k=5)")


def some_keys(n: int, seed: int = 0) -> U64:
    """n distinct keys, half of them above 2^63."""
    return np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)


@pytest.mark.parametrize("n", [0, 1, 2, 32])
def test_few_keys_are_counted_exactly(n: int) -> None:
    assert SMALL.estimate(SMALL.build(weighed(np.repeat(some_keys(n), 3))), "distinct").tolist() == [n]


@pytest.mark.parametrize("parts", [2, 9])
def test_parts_give_the_bits_of_the_whole_however_many_keys_they_share(parts: int) -> None:
    for n in (1, 33, 60, 64, 65, 500, 5000):
        keys = weighed(np.concatenate([some_keys(n), some_keys(n)[::-2]]))
        assert same_bits(in_parts(SMALL, keys, parts), SMALL.build(keys))


@pytest.mark.parametrize(("lg_k", "n"), [(5, 1000), (10, 20_000)])
def test_the_bound_holds_at_its_confidence(lg_k: int, n: int) -> None:
    kept = accumulator(f"theta(lg_k={lg_k})")
    bound, trials = kept.answers["distinct"], 100
    found = [kept.estimate(kept.build(weighed(some_keys(n, seed))), "distinct")[0] for seed in range(trials)]
    assert sum(abs(f / n - 1) > bound.size for f in found) <= allowed_misses(trials, bound.confidence)


def test_bytes_that_are_no_sketch_of_this_size_are_refused() -> None:
    whole = SMALL.build(weighed(some_keys(100)))
    SMALL.check(whole)
    for bit in range(8 * 16):  # what says how to read the rest; another theta or hash is another sound sketch
        changed = whole["sketch"].copy()
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BlobError, match="no sketch"):
            SMALL.check({**whole, "sketch": changed})
    swapped = whole["sketch"].copy()
    swapped[-16:] = np.concatenate([swapped[-8:], swapped[-16:-8]])
    with pytest.raises(BlobError, match="no sketch"):
        SMALL.check({**whole, "sketch": swapped})
    larger = accumulator("theta").build(weighed(some_keys(100)))
    with pytest.raises(BlobError, match="no sketch"):
        SMALL.check(larger)
