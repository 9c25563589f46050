"""Kernels over label columns: one label of many series, and grouping by rows of value ids."""

import numpy as np

from precompute.kernels import bare, kernel


@kernel
def label_columns(pairs, pair_off, sids, names):
    """Value ids int32[n, k] of the labels `names` int32[k] for `sids` int32[n]; 0 where absent.

    pairs     int32[p, 2]: (name id, value id)
    pair_off  int64[series + 1]: where each series' pairs begin
    """
    out = np.zeros((len(sids), len(names)), np.int32)
    for i in range(len(sids)):
        first = pair_off[sids[i]]
        last = pair_off[sids[i] + 1]
        for p in range(first, last):
            for k in range(len(names)):
                if pairs[p, 0] == names[k]:
                    out[i, k] = pairs[p, 1]
    return out


@bare
def mark_names(pairs, pair_off, sids, seen):
    """Set seen[name id] for every label name that one of `sids` has; `seen` is bool[symbols]."""
    for i in range(len(sids)):
        for p in range(pair_off[sids[i]], pair_off[sids[i] + 1]):
            seen[pairs[p, 0]] = True


@kernel
def group_rows(codes):
    """Number equal rows of `codes` int32[n, k] alike: group ids int32[n] in order of first sight,
    and the first row of each group int64[g]."""
    n, width = codes.shape
    size = 16
    while size < 2 * n:
        size *= 2
    slots = np.full(size, -1, np.int32)
    group = np.empty(n, np.int32)
    first = np.empty(n, np.int64)
    groups = 0
    mask = np.uint64(size - 1)
    for i in range(n):
        h = np.uint64(0x9E3779B97F4A7C15)
        for k in range(width):
            h = (h ^ np.uint64(codes[i, k])) * np.uint64(0xD6E8FEB86659FD93)
            h ^= h >> np.uint64(32)
        slot = h & mask
        while True:
            known = slots[slot]
            if known < 0:
                slots[slot] = groups
                first[groups] = i
                group[i] = groups
                groups += 1
                break
            same = True
            for k in range(width):
                if codes[first[known], k] != codes[i, k]:
                    same = False
                    break
            if same:
                group[i] = known
                break
            slot = (slot + np.uint64(1)) & mask
    return group, first[:groups].copy()
