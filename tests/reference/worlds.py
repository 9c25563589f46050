"""Drawn series as dashboards meet them, and expressions over them."""

import math
from random import Random

import numpy as np

from precompute.labels import SeriesTable
from precompute.samples import STALE as STALE_NUMBER
from precompute.samples import Block
from tests.reference.promql import STALE, Labels, Samples, Stale

World = dict[Labels, list[tuple[int, float | Stale]]]
INTERVALS_MS = (5_000, 15_000, 60_000)
LENGTH_MS = 900_000


def label_set(name: str, **labels: str) -> Labels:
    return tuple(sorted((("__name__", name), *((k, v) for k, v in labels.items() if v))))


def world(random: Random, start_ms: int, most_series: int = 8) -> World:
    """Gauges `g` and `h`, counters `c`, with the same other labels; over 15 minutes after `start_ms`."""
    out: World = {}
    others = [
        {"i": str(i), "job": random.choice(("a", "b", "")), "zone": random.choice(("x", "y", ""))}
        for i in range(random.randint(1, most_series))
    ]
    for name, draw in (("g", _gauge), ("h", _gauge), ("c", _counter)):
        for labels in others:
            out[label_set(name, **labels)] = _with_gaps(random, draw(random, _times(random, start_ms)))
    return out


def _times(random: Random, start_ms: int) -> list[int]:
    """Scrape times: late starts, early ends, on the grid, with a phase, with jitter, or irregular."""
    interval_ms = random.choice(INTERVALS_MS)
    first = start_ms + random.choice((0, 0, random.randrange(LENGTH_MS)))
    last = start_ms + random.choice((LENGTH_MS, LENGTH_MS, random.randrange(LENGTH_MS)))
    phase, jitter = random.choice((0, random.randrange(interval_ms))), random.choice((0, 0, 40, interval_ms // 2 - 1))
    times = [t + phase + random.randint(-jitter, jitter) for t in range(first, last + 1, interval_ms)]
    return [t for t in times if random.random() > 0.05]


def _gauge(random: Random, times: list[int]) -> list[tuple[int, float]]:
    size = random.choice((1.0, 1.0, 1e-3, 1e6))
    special = random.choice((0.0, 0.0, 0.1))
    draw = random.choice((lambda: float(random.randint(-3, 3)), lambda: random.gauss(0, 10) * size, lambda: 7.5))
    return [(t, random.choice((math.nan, math.inf, -math.inf)) if random.random() < special else draw()) for t in times]


def _counter(random: Random, times: list[int]) -> list[tuple[int, float]]:
    value, step, out = random.choice((0.0, 1e6)), random.choice((1.0, 0.37, 1234.5)), []
    for t in times:
        value = 0.0 if random.random() < 0.05 else value + random.randint(0, 9) * step
        out.append((t, value))
    return out


def _with_gaps(random: Random, samples: list[tuple[int, float]]) -> list[tuple[int, float | Stale]]:
    """Now and then a staleness marker and silence after it; a marker alone; or silence alone."""
    out: list[tuple[int, float | Stale]] = []
    silent_until = -1
    for t, v in samples:
        if t <= silent_until:
            continue
        if random.random() < 0.03:
            silent_until = t + random.choice((0, 60_000, 400_000))
            if random.random() < 0.8:
                out.append((t, STALE))
            continue
        out.append((t, v))
    return out


def blocks(random: Random, series: World, table: SeriesTable, shuffled: bool = True) -> list[Block]:
    """All samples, cut into blocks; shuffled: in any order, some of them twice."""
    rows = [
        (table.intern(labels), t, STALE_NUMBER if isinstance(v, Stale) else v)
        for labels, samples in series.items() for t, v in samples
    ]  # fmt: skip
    if shuffled:
        rows += random.sample(rows, len(rows) // 10)
        random.shuffle(rows)
    cuts = sorted(random.sample(range(len(rows) + 1), min(5, len(rows))))
    return [block(part) for part in (rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)) if part]


def block(rows: list[tuple[int, int, float]]) -> Block:
    sid, t_ms, value = zip(*rows, strict=True)
    return Block(np.array(sid, np.int32), np.array(t_ms, np.int64), np.array(value, np.float64))


def sorted_samples(series: World) -> dict[Labels, Samples]:
    return {labels: sorted(samples, key=lambda s: s[0]) for labels, samples in series.items()}


# -- expressions

RANGE_CALLS = (
    "rate", "increase", "delta", "irate", "idelta", "changes", "resets",
    "avg_over_time", "sum_over_time", "min_over_time", "max_over_time", "count_over_time",
    "last_over_time", "present_over_time", "stddev_over_time", "stdvar_over_time", "quantile_over_time",
)  # fmt: skip
STATISTICS = ("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "quantile")
MATCHERS = (
    "", "", "", "", 'job="a"', 'job!="a"', 'job=~"a|b"', 'job!~"a.*"', 'zone=""', 'zone!=""', 'job=~".*",zone=~"x|"',
    'i=~"[0-2]"', 'nosuch=""', 'nosuch="1"', 'job="a",zone!="y"',
)  # fmt: skip
GROUPINGS = (
    "", "by (job)", "by (job, zone)", "by (nosuch)", "without (i)", "without (job, zone)", "by ()", "without ()",
)  # fmt: skip
OFFSETS = (
    "", "", "", "", "", "", " offset 1m", " offset 7s", " offset -30s", " @ start()", " @ end()", " @ end() offset 1m",
)  # fmt: skip
COMPARISONS = (">", "<", ">=", "<=", "==", "!=")


def expression(random: Random, depth: int = 3) -> str:
    """A random expression whose type is an instant vector or a scalar."""
    if depth == 0:
        return random.choice((_selector(random), _call(random), f"{random.choice((0, 2, -1.5, 1e3))}"))
    kind = random.randrange(8)
    inner = expression(random, depth - 1)
    if kind == 0:
        return f"-({inner})"
    if kind <= 3:
        return _aggregate(random, _vector(random, depth - 1))
    if kind == 4:
        return f"({inner}) {random.choice(('+', '-', '*', '/'))} {random.choice((2, 0.5, 0, -3))}"
    if kind == 5:
        word = random.choice(("", " bool"))
        return f"({_vector(random, 0)}) {random.choice(COMPARISONS)}{word} {random.choice((0, 3, 7.5))}"
    if kind == 6:
        return f"{_selector(random)} % {random.choice((2, 0.7, 0))}"
    return _between(random, depth)


def _vector(random: Random, depth: int) -> str:
    return random.choice((_selector(random), _call(random)) if depth == 0 else (_call(random), _between(random, depth)))


def _selector(random: Random) -> str:
    return f"{random.choice('gch')}{{{random.choice(MATCHERS)}}}{random.choice(OFFSETS)}"


def _call(random: Random) -> str:
    name = random.choice(RANGE_CALLS)
    span = random.choice(("10s", "1m", "75s", "5m", "7m13s"))
    ranged = f"{random.choice('gc')}{{{random.choice(MATCHERS)}}}[{span}]{random.choice(OFFSETS)}"
    parameter = f"{random.choice((0, 0.5, 0.9, 1))}, " if name == "quantile_over_time" else ""
    return f"{name}({parameter}{ranged})"


def _aggregate(random: Random, inner: str) -> str:
    op = random.choice(STATISTICS)
    parameter = f"{random.choice((0, 0.25, 0.5, 0.99, 1, 7))}, " if op == "quantile" else ""
    return f"{op} {random.choice(GROUPINGS)} ({parameter}{inner})"


def _between(random: Random, depth: int) -> str:
    op = random.choice(("+", "-", "*", "/", "> bool", "==", "<"))
    if random.random() < 0.5:
        matching = random.choice(("", "ignoring (zone)", "on (job, zone, i)", "on (i)", "ignoring (i)", "on (job)"))
        return f"{_selector(random)} {op} {matching} {_selector(random)}"
    grouping = random.choice(GROUPINGS)
    left, right = (f"{random.choice(('sum', 'count', 'max'))} {grouping} ({_selector(random)})" for _ in range(2))
    return f"{left} {op} {right}"
