"""Kernels over label columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from precompute.kernels.labels import distinct
from precompute.samples import I32


@given(arrays(np.int32, array_shapes(max_dims=2, min_side=0), elements=st.integers(0, 100) | st.integers(0, 2**31 - 1)))
def test_distinct_codes_are_those_of_a_sort(codes: I32) -> None:
    used, place = distinct(codes)
    assert used.tolist() == np.unique(codes).tolist()
    assert place.shape == codes.shape
    assert np.array_equal(used[place] if len(used) else codes, codes)
