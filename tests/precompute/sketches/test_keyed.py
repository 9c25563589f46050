"""Runs of distinct keys and the best entries of each, against sets and sorts."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from precompute.sketches.keyed import NOWHERE, best_of_runs, find_in_runs, nth_of_runs, runs_of, sums_by_place
from tests.precompute.sketches.made import drawn

FEW_KEYS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9) | st.integers(2**64 - 3, 2**64 - 1)), max_size=200)


@drawn
@given(FEW_KEYS)
def test_a_row_has_its_distinct_keys_in_order_and_every_item_finds_its_own(items: list[tuple[int, int]]) -> None:
    row, key = np.array([r for r, _ in items], np.int32), np.array([k for _, k in items], np.uint64)
    runs = runs_of(row, key, 4)
    for r in range(4):
        assert runs.keys[runs.off[r] : runs.off[r + 1]].tolist() == sorted({k for own, k in items if own == r})
    assert (runs.keys[runs.place] == key).all()
    assert (runs.off[row] <= runs.place).all() and (runs.place < runs.off[row + 1]).all()
    assert find_in_runs(runs.off, runs.keys, row.astype(np.int64), key).tolist() == runs.place.tolist()


@drawn
@given(FEW_KEYS, st.integers(0, 6))
def test_a_row_over_the_limit_has_no_run_and_others_are_as_without_it(items: list[tuple[int, int]], limit: int) -> None:
    row, key = np.array([r for r, _ in items], np.int32), np.array([k for _, k in items], np.uint64)
    runs = runs_of(row, key, 4, limit)
    distinct = [sorted({k for own, k in items if own == r}) for r in range(4)]
    assert runs.over.tolist() == [len(keys) > limit for keys in distinct]
    assert runs.keys.tolist() == [k for keys in distinct if len(keys) <= limit for k in keys]
    assert (runs.place == NOWHERE).tolist() == runs.over[row].tolist()
    assert runs.dense[runs.over].tolist() == list(range(int(runs.over.sum())))


def test_a_row_that_is_said_to_be_over_has_no_run() -> None:
    runs = runs_of(np.zeros(3, np.int32), np.arange(3, dtype=np.uint64), 1, 10, np.array([True]))
    assert (runs.over.tolist(), len(runs.keys)) == ([True], 0)


def test_a_million_keys_that_differ_in_their_highest_bits_alone_are_told_apart() -> None:
    key = np.arange(1_000_000, dtype=np.uint64) << np.uint64(44)
    assert len(runs_of(np.zeros(len(key), np.int32), key[::-1].copy(), 1).keys) == 1_000_000


@drawn
@given(
    st.lists(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), max_size=100), max_size=4),
    st.integers(1, 80),
)
def test_the_best_of_each_run_come_first_and_of_equals_those_that_stand_first(runs: list[list[int]], k: int) -> None:
    off = np.cumsum([0, *map(len, runs)])
    picks, kept = best_of_runs(off, np.array([s for run in runs for s in run], np.int64), k)
    for r, run in enumerate(runs):
        best = sorted(range(len(run)), key=lambda i: (-run[i], i))[:k]
        assert picks[kept[r] : kept[r + 1]].tolist() == [off[r] + i for i in best]


def test_the_nth_of_a_run_counts_from_one_and_may_not_be_there() -> None:
    off, flat = np.array([0, 2, 2, 3]), np.array([9.0, 8.0, 7.0])
    for nth, right in ((1, [9.0, None, 7.0]), (2, [8.0, None, None]), (0, [None] * 3), (math.nan, [None] * 3)):
        assert [None if math.isnan(v) else v for v in nth_of_runs(off, flat, nth).tolist()] == right


def test_a_sum_by_place_is_compensated_and_an_overflow_is_infinite() -> None:
    place = np.array([0, 1, 0, 0, NOWHERE, 1])
    value = np.array([1e16, 1.7e308, 1.0, 1.0, 5.0, 1.7e308])
    assert sums_by_place(place, value, 3).tolist() == [1e16 + 2, math.inf, 0.0]
