"""Kernels that ask which series there are, and read no values."""

import numpy as np

from precompute.kernels import bare


@bare
def mark_within(h, sids, start_ms, end_ms, kept):
    """kept bool[n]: whether series sids int32[n] has a sample with start_ms <= t <= end_ms.

    Chunks of a series follow each other in time, so the newest that begins by end_ms decides, or one before it.
    """
    for i in range(len(sids)):
        chunk = h.tail[sids[i]]
        while chunk >= 0 and not kept[i]:
            off = h.off[chunk]
            used = np.int64(h.used[chunk])
            base = h.base[chunk]
            if base + h.dt[off + used - 1] < start_ms:
                break
            if base + h.dt[off] <= end_ms:
                # the first sample at or after start_ms, by halving
                low, high = np.int64(0), used
                while low < high:
                    middle = (low + high) // 2
                    if base + h.dt[off + middle] < start_ms:
                        low = middle + 1
                    else:
                        high = middle
                kept[i] = low < used and base + h.dt[off + low] <= end_ms
            chunk = h.prev[chunk]
