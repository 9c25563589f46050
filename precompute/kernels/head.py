"""Kernels of the head: samples in chunks, series by series.

A series is a doubly linked list of chunks, oldest first. A chunk is a run of up to 8, 16, 32 or 64 samples,
contiguous in the arena and ascending in time, no time twice. The structure is a named tuple of columns:

    per series   tail, first int32: newest and oldest chunk, -1 without samples; last_t int64; held int32: samples
    per chunk    off int64: first slot in the arena; cap, used int16; prev, next int32; base int64: a reference
                 time in ms, at or before every sample of the chunk and after those of the chunk before
    arena        dt int32: time minus base, ms; val float64
    counts int64 chunks made, arena slots handed out, samples held, chunks in use, slots in use
    free int32   per capacity class the first free chunk, linked by `next`
"""

from collections import namedtuple

import numpy as np

from precompute.kernels import bare, inlined

HeadColumns = namedtuple(
    "HeadColumns", "tail first last_t held off cap used prev next base dt val counts free"
)  # fmt: skip

CHUNKS, SLOTS, SAMPLES, CHUNKS_USED, SLOTS_USED = range(5)
SMALLEST, LARGEST = 8, 64
_SPAN_MS = 2**31 - 1
_STALE_BITS = np.int64(0x7FF0000000000002)


@inlined
def _bits(x):
    return np.float64(x).view(np.int64)


@bare
def wins(new, old):
    """Whether `new` beats `old` at one timestamp: a number beats NaN beats a staleness marker, then the larger.

    A total order, so that any order of arrival gives the same winner.
    """
    new_rank = _rank(new)
    old_rank = _rank(old)
    if new_rank != old_rank:
        return new_rank > old_rank
    if new_rank == 2 and new != old:
        return new > old
    return _bits(new) > _bits(old) if new_rank < 2 else _bits(new) == 0 and _bits(old) != 0


@inlined
def _rank(x):
    if x == x:
        return 2
    return 0 if _bits(x) == _STALE_BITS else 1


@inlined
def _class_of(cap):
    return 0 if cap == 8 else 1 if cap == 16 else 2 if cap == 32 else 3


@bare
def _new_chunk(h, cap, base):
    kind = _class_of(cap)
    chunk = h.free[kind]
    if chunk >= 0:
        h.free[kind] = h.next[chunk]
    else:
        chunk = np.int32(h.counts[CHUNKS])
        h.counts[CHUNKS] += 1
        h.off[chunk] = h.counts[SLOTS]
        h.cap[chunk] = cap
        h.counts[SLOTS] += cap
    h.counts[CHUNKS_USED] += 1
    h.counts[SLOTS_USED] += cap
    h.used[chunk] = 0
    h.prev[chunk] = -1
    h.next[chunk] = -1
    h.base[chunk] = base
    return chunk


@bare
def _link_after(h, s, chunk, before):
    """Put `chunk` behind chunk `before` of series s; before = -1 puts it first."""
    after = h.next[before] if before >= 0 else h.first[s]
    h.prev[chunk] = before
    h.next[chunk] = after
    if before >= 0:
        h.next[before] = chunk
    else:
        h.first[s] = chunk
    if after >= 0:
        h.prev[after] = chunk
    else:
        h.tail[s] = chunk


@bare
def _begin_earlier(h, s, chunk, t):
    """A chunk of series s whose base is `t`, before all its samples: the oldest one rebased, or a new one before it."""
    off = h.off[chunk]
    used = h.used[chunk]
    shift = h.base[chunk] - t
    if h.dt[off + used - 1] + shift > _SPAN_MS:
        fresh = _new_chunk(h, SMALLEST, t)
        _link_after(h, s, fresh, -1)
        return fresh
    for k in range(off, off + used):
        h.dt[k] = np.int32(h.dt[k] + shift)
    h.base[chunk] = t
    return chunk


@bare
def _insert_late(h, s, t, v):
    """Put a sample before the newest one of its series, or let the winner stand where its time is taken."""
    chunk = h.tail[s]
    while h.base[chunk] > t and h.prev[chunk] >= 0:
        chunk = h.prev[chunk]
    if h.base[chunk] > t:
        chunk = _begin_earlier(h, s, chunk, t)
    if t - h.base[chunk] > _SPAN_MS:
        fresh = _new_chunk(h, SMALLEST, t)
        _link_after(h, s, fresh, chunk)
        chunk = fresh
    dt = np.int32(t - h.base[chunk])
    off = h.off[chunk]
    used = np.int64(h.used[chunk])
    place = np.searchsorted(h.dt[off : off + used], dt)
    if place < used and h.dt[off + place] == dt:
        if wins(v, h.val[off + place]):
            h.val[off + place] = v
        return
    if used == h.cap[chunk]:
        half = used // 2
        fresh = _new_chunk(h, np.int64(h.cap[chunk]), h.base[chunk] + h.dt[off + half])
        _link_after(h, s, fresh, chunk)
        to = h.off[fresh]
        shift = h.base[fresh] - h.base[chunk]
        for k in range(half, used):
            h.dt[to + k - half] = np.int32(h.dt[off + k] - shift)
            h.val[to + k - half] = h.val[off + k]
        h.used[fresh] = used - half
        h.used[chunk] = half
        if place > half or (place == half and t >= h.base[fresh]):
            chunk = fresh
            off = to
            place -= half
            dt = np.int32(t - h.base[fresh])
        used = np.int64(h.used[chunk])
    for k in range(used, place, -1):
        h.dt[off + k] = h.dt[off + k - 1]
        h.val[off + k] = h.val[off + k - 1]
    h.dt[off + place] = dt
    h.val[off + place] = v
    h.used[chunk] += 1
    h.held[s] += 1
    h.counts[SAMPLES] += 1


@bare
def append(h, sid, t_ms, value):
    """Add n samples: sid int32[n], t_ms int64[n], value float64[n]; any order, repeats allowed."""
    for i in range(len(sid)):
        s = sid[i]
        t = t_ms[i]
        chunk = h.tail[s]
        if chunk >= 0:
            if t < h.last_t[s]:
                _insert_late(h, s, t, value[i])
                continue
            slot = h.off[chunk] + h.used[chunk]
            if t == h.last_t[s]:
                if wins(value[i], h.val[slot - 1]):
                    h.val[slot - 1] = value[i]
                continue
            if h.used[chunk] == h.cap[chunk] or t - h.base[chunk] > _SPAN_MS:
                cap = min(2 * np.int64(h.cap[chunk]), LARGEST)
                fresh = _new_chunk(h, cap, t)
                _link_after(h, s, fresh, chunk)
                chunk = fresh
        else:
            chunk = _new_chunk(h, SMALLEST, t)
            _link_after(h, s, chunk, -1)
        slot = h.off[chunk] + h.used[chunk]
        h.dt[slot] = np.int32(t - h.base[chunk])
        h.val[slot] = value[i]
        h.used[chunk] += 1
        h.last_t[s] = t
        h.held[s] += 1
        h.counts[SAMPLES] += 1


@bare
def trim(h, series, before_ms):
    """Free every chunk all of whose samples have t <= before_ms, of series 0 to `series` - 1."""
    for s in range(series):
        chunk = h.first[s]
        while chunk >= 0:
            used = h.used[chunk]
            if h.base[chunk] + h.dt[h.off[chunk] + used - 1] > before_ms:
                break
            after = h.next[chunk]
            h.counts[CHUNKS_USED] -= 1
            h.counts[SLOTS_USED] -= h.cap[chunk]
            h.counts[SAMPLES] -= used
            h.held[s] -= used
            kind = _class_of(h.cap[chunk])
            h.next[chunk] = h.free[kind]
            h.free[kind] = chunk
            chunk = after
        h.first[s] = chunk
        if chunk >= 0:
            h.prev[chunk] = -1
        else:
            h.tail[s] = -1


@bare
def collect(h, s, after_ms, until_ms, t_out, v_out):
    """Copy the samples of series s in `(after_ms, until_ms]`, in order of time; how many.

    t_out int64[], v_out float64[]: at least held[s] long.
    """
    chunk = h.tail[s]
    if chunk < 0:
        return 0
    while h.prev[chunk] >= 0 and h.base[chunk] > after_ms:
        chunk = h.prev[chunk]
    n = 0
    while chunk >= 0 and h.base[chunk] <= until_ms:
        base = h.base[chunk]
        dt = h.dt[h.off[chunk] : h.off[chunk] + h.used[chunk]]
        first = _places_until(dt, after_ms - base)
        last = _places_until(dt, until_ms - base)
        t_here, v_here = t_out[n : n + last - first], v_out[n : n + last - first]
        dt, values = dt[first:last], h.val[h.off[chunk] + first : h.off[chunk] + last]
        for k in range(len(dt)):
            t_here[k] = base + dt[k]
        for k in range(len(dt)):
            v_here[k] = values[k]
        n += len(dt)
        chunk = h.next[chunk]
    return n


@bare
def _places_until(dt, limit):
    """How many of the ascending times `dt` are at or before `limit`."""
    n = len(dt)
    if n == 0 or dt[0] > limit:
        return 0
    if dt[n - 1] <= limit:
        return n
    lo, hi = 0, n - 1
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if dt[mid] <= limit:
            lo = mid
        else:
            hi = mid
    return hi


@bare
def newest(h, s, until_ms):
    """Slot in the arena and time of the newest sample of series s with t <= until_ms; (-1, 0) if none."""
    chunk = h.tail[s]
    while chunk >= 0:
        off = h.off[chunk]
        base = h.base[chunk]
        if base + h.dt[off] <= until_ms:
            k = off + h.used[chunk] - 1
            while base + h.dt[k] > until_ms:
                k -= 1
            return k, base + h.dt[k]
        chunk = h.prev[chunk]
    return -1, np.int64(0)


@bare
def oldest(h, sids):
    """Time of the oldest sample of these series, of which at least one has a sample."""
    first = np.int64(2**63 - 1)
    for i in range(len(sids)):
        chunk = h.first[sids[i]]
        if chunk >= 0:
            first = min(first, h.base[chunk] + h.dt[h.off[chunk]])
    return first


@bare
def most_held(h, sids):
    """The largest number of samples that one of these series holds."""
    most = 0
    for i in range(len(sids)):
        most = max(most, h.held[sids[i]])
    return most
