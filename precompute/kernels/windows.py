"""Kernels over stretches of time."""

import numpy as np

from precompute.kernels import kernel


@kernel
def window_max(last, after, until):
    """Per window (after, until] of granule numbers the largest entry id; int64[p]."""
    out = np.zeros(len(after), np.int64)
    for i in range(len(after)):
        for k in range(max(0, after[i] + 1), min(len(last), until[i] + 1)):
            out[i] = max(out[i], last[k])
    return out
