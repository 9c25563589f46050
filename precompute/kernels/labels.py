"""Kernels over label columns: one label of many series, and grouping by rows of value ids."""

import numpy as np

from precompute.kernels import bare, kernel
from precompute.samples import I32

_FAR_APART = 64


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


def distinct(codes: I32) -> tuple[I32, I32]:
    """The different codes, int32[u] ascending, and the place among them of each, of the shape of `codes`.

    As np.unique with its inverse, but without sorting where the codes, numbers from 0 on, are not far apart.
    """
    flat = np.ascontiguousarray(codes).ravel()
    if len(flat) and flat.max() < _FAR_APART * len(flat):
        used, place = _distinct(flat)
    else:
        used, place = np.unique(flat, return_inverse=True)
    return used, place.reshape(codes.shape)


@kernel
def _distinct(codes):
    most = codes[0]
    for k in range(len(codes)):
        most = max(most, codes[k])
    number = np.full(most + 1, -1, np.int32)
    for k in range(len(codes)):
        number[codes[k]] = 0
    count = 0
    for code in range(most + 1):
        if number[code] == 0:
            number[code] = count
            count += 1
    used = np.empty(count, np.int32)
    place = np.empty(len(codes), np.int32)
    for k in range(len(codes)):
        place[k] = number[codes[k]]
        used[place[k]] = codes[k]
    return used, place
