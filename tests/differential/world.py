"""Drawn series, the same for both systems: gauges, counters with resets, classic histograms, and what befalls them.

    g, h        gauges of the same label sets: quarters of whole numbers; some constant, some with NaN and infinities
    c_total     counters of whole numbers with resets
    b_bucket    cumulative buckets of classic histograms

Series start late, end early, have gaps, staleness markers, jitter. No sample lies in the last tenth of a second or
on its beginning: queries at `.950` have no sample on the left edge of a range of whole seconds, and neither have the
steps of subqueries, which lie on whole seconds.
"""

import math
from random import Random

import numpy as np

from precompute.samples import STALE
from tests.ingest.wire import encode_write_request

Labels = tuple[tuple[str, str], ...]
Samples = list[tuple[int, float]]
World = dict[Labels, Samples]

LENGTH_MS = 1_200_000
_INTERVALS_MS = (10_000, 15_000, 30_000)
_BOUNDS = ("0.25", "0.5", "1", "5", "+Inf")


def draw(random: Random, start_ms: int) -> World:
    """A world of `LENGTH_MS` after `start_ms`, which is on a whole second."""
    others = [
        {"i": str(i), "job": random.choice(("a", "b", "")), "zone": random.choice(("x", "y", "pod-12"))}
        for i in range(random.choice((1, 4, 5, 6, 7, 8, 9)))
    ]
    out: World = {}
    for name, made in (("g", _gauge), ("h", _gauge), ("c_total", _counter)):
        for labels in others:
            out[_named(name, labels)] = _with_gaps(random, made(random, _times(random, start_ms)))
    for labels in others[:2]:
        out |= _histogram(random, labels, _times(random, start_ms))
    return out


def write_request(world: World) -> bytes:
    """All samples of a world as remote write carries them, unpacked."""
    return encode_write_request(world.items())


def _named(name: str, labels: dict[str, str]) -> Labels:
    return tuple(sorted((("__name__", name), *((k, v) for k, v in labels.items() if v))))


def _times(random: Random, start_ms: int) -> list[int]:
    interval_ms = random.choice(_INTERVALS_MS)
    first = start_ms + random.choice((0, 0, 0, 1000 * random.randrange(LENGTH_MS // 1000)))
    last = start_ms + random.choice((LENGTH_MS, LENGTH_MS, LENGTH_MS, 1000 * random.randrange(LENGTH_MS // 1000)))
    place_ms, jitter_ms = random.randrange(1, 900), random.choice((0, 0, 300))
    times = [
        t + min(max(place_ms + random.randint(-jitter_ms, jitter_ms), 1), 899)
        for t in range(first, last + 1, interval_ms)
    ]
    return [t for t in times if random.random() > 0.05]


def _gauge(random: Random, times: list[int]) -> Samples:
    special = random.choice((0.0, 0.0, 0.0, 0.1))
    odd = (math.nan, math.inf, -math.inf)
    shape = random.choice((lambda: float(random.randint(-3, 3)), lambda: random.randint(-256, 256) / 4, lambda: 7.5))
    return [(t, random.choice(odd) if random.random() < special else shape()) for t in times]


def _counter(random: Random, times: list[int]) -> Samples:
    value, step, out = random.choice((0, 1000)), random.choice((1, 37)), []
    for t in times:
        value = 0 if random.random() < 0.04 else value + random.randint(0, 9) * step
        out.append((t, float(value)))
    return out


def _histogram(random: Random, labels: dict[str, str], times: list[int]) -> World:
    counts = np.zeros(len(_BOUNDS))
    rows = []
    for _ in times:
        counts = counts * 0 if random.random() < 0.03 else counts + [random.choice((0, 1, 5)) for _ in _BOUNDS]
        rows.append(np.cumsum(counts))
    return {
        _named("b_bucket", {**labels, "le": bound}): [(t, float(row[k])) for t, row in zip(times, rows, strict=True)]
        for k, bound in enumerate(_BOUNDS)
    }


def _with_gaps(random: Random, samples: Samples) -> Samples:
    """Now and then a staleness marker and silence after it; a marker alone; or silence alone."""
    out: Samples = []
    silent_until = -1
    for t, v in samples:
        if t <= silent_until:
            continue
        if random.random() < 0.03:
            silent_until = t + random.choice((0, 60_000, 400_000))
            if random.random() < 0.7:
                out.append((t, STALE))
            continue
        out.append((t, v))
    return out
