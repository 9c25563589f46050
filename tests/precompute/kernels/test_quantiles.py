"""Quantiles by selection are those of the sorted values, to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from precompute.kernels.arithmetic import quantile_sorted, sort_nan_first
from precompute.kernels.quantiles import quantile
from precompute.samples import F64

PHI = (-0.1, 0.0, 0.01, 0.37, 0.5, 0.9, 0.99, 0.999, 1.0, 1.1, float("nan"))


def by_sorting(values: F64, phi: float) -> float:
    ordered = values.copy()
    sort_nan_first(ordered, len(ordered))
    return float(quantile_sorted(phi, ordered, len(ordered)))


def same(values: F64, phi: float) -> bool:
    ours, theirs = quantile(values.copy(), phi), by_sorting(values, phi)
    return bool(ours == theirs or (np.isnan(ours) and np.isnan(theirs)))


@given(arrays(np.float64, st.integers(1, 80), elements=st.floats(width=64)), st.sampled_from(PHI))
def test_of_any_few_values(values: F64, phi: float) -> None:
    assert same(values, phi)


@pytest.mark.parametrize("phi", PHI)
@pytest.mark.parametrize("n", [1, 2, 24, 25, 240, 2047, 2048, 30_000])
def test_of_many_values_of_every_shape(n: int, phi: float) -> None:
    draw = np.random.default_rng(n)
    rising = np.arange(n, dtype=np.float64)
    shapes = [
        rising, rising[::-1].copy(), draw.normal(size=n), draw.integers(0, 3, n).astype(np.float64), np.full(n, 7.5),
        np.where(draw.random(n) < 0.3, np.nan, draw.normal(size=n)), np.where(draw.random(n) < 0.99, np.nan, rising),
        np.where(draw.random(n) < 0.02, np.inf, draw.normal(size=n)), np.where(draw.random(n) < 0.5, -np.inf, rising),
        np.tile(np.r_[np.full(7, 1e9), 1.0], n // 8 + 1)[:n],
    ]  # fmt: skip
    assert all(same(values, phi) for values in shapes)
