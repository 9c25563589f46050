"""The head against a dict: any order, repeats, late samples, trimming, and readers beside a writer."""

import math
from random import Random

import numpy as np
import pytest

from precompute.errors import Rejected, TableReplaced
from precompute.head import Head
from precompute.kernels import head as kernel
from precompute.labels import SeriesTable
from precompute.samples import STALE, STALE_BITS, Block, is_stale
from tests.reference.threads import beside

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def head(series: int, max_bytes: int = 1 << 26) -> Head:
    table = SeriesTable()
    for i in range(series):
        table.intern((("__name__", "m"), ("i", str(i))))
    return Head(table, max_bytes)


def block(rows: list[tuple[int, int, float]]) -> Block:
    sid, t_ms, value = zip(*rows, strict=True)
    return Block(np.array(sid, np.int32), np.array(t_ms, np.int64), np.array(value, np.float64))


def collected(head: Head, sid: int, after_ms: int = -(1 << 60), until_ms: int = 1 << 60) -> list[tuple[int, float]]:
    with head.reading(head.table) as columns:
        size = kernel.most_held(columns, np.array([sid], np.int32))
        t_ms, values = np.empty(size, np.int64), np.empty(size, np.float64)
        n = kernel.collect(columns, sid, after_ms, until_ms, t_ms, values)
        return list(zip(t_ms[:n].tolist(), values[:n].tolist(), strict=True))


def newest(head: Head, sid: int, until_ms: int) -> tuple[int, float] | None:
    with head.reading(head.table) as columns:
        slot, t_ms = kernel.newest(columns, sid, until_ms)
        return (int(t_ms), float(columns.val[slot])) if slot >= 0 else None


def bits(samples: list[tuple[int, float]]) -> list[tuple[int, bytes]]:
    return [(t, np.float64(v).tobytes()) for t, v in samples]


def beats(new: float, old: float) -> bool:
    """A number beats NaN, NaN beats a staleness marker, the larger number wins, 0 beats -0."""
    def rank(v: float) -> int:
        return 2 if v == v else int(np.float64(v).view(np.uint64) != STALE_BITS)

    if rank(new) != rank(old) or rank(new) < 2:
        return rank(new) > rank(old)
    return new > old or (new == old == 0 and math.copysign(1, new) > math.copysign(1, old))


def random_rows(random: Random, count: int, series: int) -> list[tuple[int, int, float]]:
    """In bursts in order of time, and late ones; few distinct times, so that many are taken."""
    rows, now = [], NOW_MS
    spread = random.choice((50, 1000, 60_000, 3_000_000))
    for _ in range(count):
        now += random.choice((0, 1, 15_000))
        late = random.choice((0, 0, 0, random.randrange(spread), random.randrange(300) * 15_000))
        value = random.choice((STALE, math.nan, math.inf, 0.0, -0.0, 1.0, random.gauss(0, 1)))
        rows.append((random.randrange(series), now - late, value))
    if random.random() < 0.3:
        random.shuffle(rows)
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_samples_in_any_order_with_repeats_are_held_once_the_winner_by_value(seed: int) -> None:
    random, series = Random(seed), 5
    held, expected = head(series), [dict[int, float]() for _ in range(series)]
    rows = random_rows(random, random.choice((30, 300, 3000)), series)
    while rows:
        size = random.randint(1, 200)
        part, rows = rows[:size], rows[size:]
        held.append(block(part))
        for sid, t, v in part:
            if t not in expected[sid] or beats(v, expected[sid][t]):
                expected[sid][t] = v
    for sid, samples in enumerate(expected):
        ordered = sorted(samples.items())
        assert bits(collected(held, sid)) == bits(ordered)
        for _ in range(20):
            t = NOW_MS + random.randint(-3_000_000, 15_000 * 1500)
            until = t + random.choice((0, 1, 15_000, 300_000))
            assert bits(collected(held, sid, t, until)) == bits([s for s in ordered if t < s[0] <= until])
            last = [s for s in ordered if s[0] <= t][-1:]
            got = newest(held, sid, t)
            assert bits([got] if got else []) == bits(last)
    assert held.samples() == sum(map(len, expected))


@pytest.mark.parametrize("seed", range(20))
def test_trimming_lets_go_of_nothing_newer_and_of_most_that_is_older(seed: int) -> None:
    random, series = Random(seed), 3
    held, expected, before_ms = head(series), [dict[int, float]() for _ in range(series)], 0
    for _ in range(8):
        for sid, t, v in (rows := random_rows(random, 400, series)):
            if t not in expected[sid] or beats(v, expected[sid][t]):
                expected[sid][t] = v
        held.append(block(rows))
        before_ms = max(before_ms, NOW_MS + random.randrange(6_000_000))
        held.trim(before_ms)
        for sid in range(series):
            got = collected(held, sid)
            assert bits([s for s in got if s[0] > before_ms]) == bits(
                [s for s in sorted(expected[sid].items()) if s[0] > before_ms]
            )
            assert len([s for s in got if s[0] <= before_ms]) < kernel.LARGEST
            expected[sid] = dict(got)
        assert held.samples() == sum(map(len, expected))
    held.trim(1 << 60)
    assert held.samples() == 0
    assert not held.holding(np.arange(series, dtype=np.int32)).any()


def test_trimmed_memory_is_used_again() -> None:
    held = head(100)
    for hour in range(30):
        for k in range(240):
            t = NOW_MS + hour * 3_600_000 + k * 15_000
            held.append(Block(np.arange(100, dtype=np.int32), np.full(100, t), np.full(100, float(k))))
        held.trim(NOW_MS + (hour - 1) * 3_600_000)
        if hour == 3:
            early = held.size_bytes()
    assert held.size_bytes() <= 1.1 * early


def test_times_weeks_apart_fit_in_one_series() -> None:
    rows = [(0, NOW_MS + day * DAY_MS, float(day)) for day in (0, 30, 31, 90)]
    held = head(1)
    held.append(block(rows))
    assert collected(held, 0) == [(t, v) for _, t, v in rows]
    held = head(1)
    held.append(block(rows[::-1]))
    assert collected(held, 0) == [(t, v) for _, t, v in rows]


@pytest.mark.parametrize("seed", range(10))
def test_times_weeks_apart_in_any_order_stay_in_order(seed: int) -> None:
    random = Random(seed)
    times = random.sample(range(200), 100)
    held = head(1)
    held.append(block([(0, NOW_MS + t * DAY_MS, float(t)) for t in times]))
    assert collected(held, 0) == [(NOW_MS + t * DAY_MS, float(t)) for t in sorted(times)]


def test_staleness_markers_keep_their_bits() -> None:
    held = head(1)
    held.append(block([(0, NOW_MS, STALE), (0, NOW_MS + 1, math.nan)]))
    values = np.array([v for _, v in collected(held, 0)])
    assert is_stale(values).tolist() == [True, False]


def test_240_samples_of_a_series_cost_at_most_20_bytes_each() -> None:
    series = 1000
    held = head(series)
    labels_bytes = held.size_bytes()
    for k in range(240):
        t = np.full(series, NOW_MS + k * 15_000)
        held.append(Block(np.arange(series, dtype=np.int32), t, np.random.default_rng(k).normal(size=series)))
    assert (held.size_bytes() - labels_bytes) / (240 * series) <= 20


def test_a_series_with_one_sample_and_eight_labels_costs_at_most_1_KB() -> None:
    table, series = SeriesTable(), 2000
    for i in range(series):
        more = [(f"label{k}", f"value-{k}-{i % (k * 20 + 1)}") for k in range(6)]
        table.intern(tuple(sorted([("__name__", "sensor_reading"), ("instance", f"host-{i}:9100"), *more])))
    held = Head(table, 1 << 26)
    held.append(Block(np.arange(series, dtype=np.int32), np.full(series, NOW_MS), np.ones(series)))
    assert held.size_bytes() / series <= 1024


def test_a_full_head_refuses_until_it_is_trimmed() -> None:
    held = head(10, max_bytes=200_000)
    t = NOW_MS
    with pytest.raises(Rejected, match=r"head\.max_bytes"):
        for _ in range(10_000):
            held.check_room()
            held.append(Block(np.arange(10, dtype=np.int32), np.full(10, t), np.ones(10)))
            t += 15_000
    assert held.samples() * 12 < 250_000
    held.trim(t)
    held.check_room()


def test_room_that_other_sizes_of_chunks_hold_free_is_not_promised_twice() -> None:
    """Chunks freed in one size are no room for another: the arena's end must be seen before it is passed."""
    held = head(10)
    arena = len(held._columns.dt)
    held._columns.counts[kernel.SLOTS] = arena - 1000
    with pytest.raises(Rejected):
        held.check_room()


@pytest.mark.parametrize("late", [False, True])
def test_a_block_that_the_arena_may_not_hold_is_refused_whole_and_what_is_held_stays_right(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    monkeypatch.setattr("precompute.head._SPARE_SAMPLES", 1 << 14)
    held, sids, taken = head(50, max_bytes=1 << 16), np.arange(50, dtype=np.int32), 0
    times = [NOW_MS + 1000 * (-k if late else k) for k in range(5000)]
    with pytest.raises(Rejected, match=r"raise head\.max_bytes"):
        for t in times:
            held.append(Block(sids, np.full(50, t), np.full(50, float(t))))
            taken += 1
    assert held.samples() == 50 * taken > 5000
    assert held._columns.counts[kernel.SLOTS] <= len(held._columns.dt)
    for sid in (0, 49):
        assert collected(held, sid) == sorted((t, float(t)) for t in times[:taken])


def test_readers_beside_a_writer_never_see_half_an_append() -> None:
    """Each block puts the same number at the same time into every series; a reader must find them all or none."""
    series = 8
    held = head(series)
    sids = np.arange(series, dtype=np.int32)
    held.append(Block(sids, np.full(series, NOW_MS), np.full(series, -1.0)))

    def read() -> None:
        with held.reading(held.table) as columns:
            seen = [kernel.newest(columns, s, 1 << 60) for s in range(series)]
            assert len({columns.val[slot] for slot, _ in seen}) == 1
            assert len({int(t) for _, t in seen}) == 1
            assert len({int(n) for n in columns.held[:series]}) == 1

    with beside(3, read):
        for k in range(1, 1500):
            held.append(Block(sids, np.full(series, NOW_MS + k * 1000), np.full(series, float(k))))
            if k % 100 == 99:
                held.trim(NOW_MS + (k - 50) * 1000)


def test_ids_of_a_table_that_was_replaced_are_refused_and_living_series_keep_their_samples() -> None:
    held = head(3)
    old = held.table
    held.append(block([(0, NOW_MS, 1.0), (2, NOW_MS, 3.0)]))
    new = SeriesTable()
    moved = np.array([new.intern(old.labels_of(0)), -1, new.intern(old.labels_of(2))], np.int32)
    held.replace_table(new, moved)
    with pytest.raises(TableReplaced), held.reading(old):
        pass
    assert [collected(held, sid) for sid in range(2)] == [[(NOW_MS, 1.0)], [(NOW_MS, 3.0)]]
    held.append(block([(0, NOW_MS + 1, 2.0)]))
    assert collected(held, 0) == [(NOW_MS, 1.0), (NOW_MS + 1, 2.0)]


def test_a_cleared_head_holds_nothing_and_takes_samples_again() -> None:
    cleared = head(2)
    cleared.append(block([(0, NOW_MS, 1.0), (1, NOW_MS, 2.0)]))
    cleared.clear()
    assert (cleared.samples(), cleared.extent_ms()) == (0, None)
    assert (collected(cleared, 0), collected(cleared, 1)) == ([], []), "readers know ids from before"
    cleared.append(block([(1, NOW_MS + 1, 3.0)]))
    assert (collected(cleared, 0), collected(cleared, 1)) == ([], [(NOW_MS + 1, 3.0)])
