"""Panes as arithmetic, what touched them, and which have a summary; against slow definitions."""

from random import Random

import numpy as np
import pytest

from precompute.pane_book import NONE, PaneBook
from precompute.panes import ends_between, last_end, last_touched, on_grid, pane_end
from precompute.touched import Touched

W = 15


def test_a_pane_is_left_open_and_right_closed() -> None:
    # width 15:  0         15         30
    #            (----A----](----B----]
    assert [pane_end(t, W) for t in (-15, -14, 0, 1, 15, 16, 30)] == [-15, 0, 0, 15, 15, 30, 30]
    assert [last_end(t, W) for t in (-1, 0, 14, 15, 29)] == [-15, 0, 0, 15, 15]
    assert [t for t in range(-20, 40) if on_grid(t, W)] == [-15, 0, 15, 30]


@pytest.mark.parametrize(("after", "until", "ends"), [
    (0, 30, [15, 30]), (1, 30, [15, 30]), (15, 30, [30]), (15, 29, []), (14, 15, [15]), (30, 0, []), (-16, 0, [-15, 0]),
])  # fmt: skip
def test_ends_between_leave_out_the_left_and_take_the_right(after: int, until: int, ends: list[int]) -> None:
    assert list(ends_between(after, until, W)) == ends


def test_the_last_pane_that_a_sample_touches_is_the_last_whose_reach_holds_it() -> None:
    for reach in (1, 14, 15, 16, 40, 45):
        for t in range(-40, 40):
            seen = [end for end in range(-90, 120, W) if end - reach < t <= end]
            if seen:
                assert last_touched(t, W, reach) == seen[-1]


@pytest.mark.parametrize("seed", range(20))
def test_touched_knows_at_least_the_newest_entry_of_each_interval_and_none_that_is_a_stretch_away(seed: int) -> None:
    random, touched, noted, forgotten = Random(seed), Touched(W), list[tuple[int, int]](), -(10**9)
    for entry in range(1, 60):
        centre = random.randrange(-2000, 2000)
        times = [max(forgotten + 1, centre + random.randrange(200)) for _ in range(random.randint(1, 5))]
        touched.note(np.array(times, np.int64), entry)
        noted += [(t, entry) for t in times]
        if random.random() < 0.1:
            forgotten = max(forgotten, random.randrange(-2000, 0) // W * W)
            touched.forget(forgotten)
        for reach in (W, 40, 300):
            shift = random.randrange(W)
            ends = np.array([e + shift for e in range(-2100, 2400, W) if e + shift - reach >= forgotten], np.int64)
            for end, newest in zip(ends.tolist(), touched.newest(ends - reach, ends).tolist(), strict=True):
                exact = max((e for t, e in noted if end - reach < t <= end), default=0)
                last = -last_end(-end, W)
                wider = max((e for t, e in noted if last_end(end - reach, W) < t <= last), default=0)
                assert newest == wider >= exact


def test_what_is_renewed_was_touched_by_that_entry_wherever_it_was_touched() -> None:
    touched, ends = Touched(W), np.arange(W, 10 * W, W)
    touched.note(ends[2:4], 3)
    touched.renew(9)
    assert (touched.newest(ends[2:4] - W, ends[2:4]) == 9).all()
    touched.note(ends[2:3], 10)
    assert touched.newest(ends[2:4] - W, ends[2:4]).tolist() == [10, 9]


@pytest.mark.parametrize("seed", range(20))
def test_a_book_is_what_was_committed_last(seed: int) -> None:
    random, book, held = Random(seed), PaneBook(W), dict[int, int]()
    for _ in range(40):
        ends = random.sample(range(-3000, 3000, W), random.randint(1, 6))
        seen = [random.randrange(100) for _ in ends]
        book.commit(np.array(ends, np.int64), np.array(seen, np.int64))
        held.update(zip(ends, seen, strict=True))
        if random.random() < 0.2:
            until = random.randrange(-3000, 0)
            book.forget(until)
            held = {end: s for end, s in held.items() if end > until}
        if random.random() < 0.3:
            gone = [end for end in range(-3600, 3600, W) if random.random() < 0.7]
            book.drop(np.array(gone, np.int64))
            held = {end: s for end, s in held.items() if end not in gone}
        every = np.arange(-3000, 3000, W)
        assert book.seen(every).tolist() == [held.get(end, NONE) for end in every.tolist()]
        assert book.panes() == len(held)
        assert book.newest_ms() == max(held, default=None)
        after = random.randrange(-3000, 3000)
        assert book.ends(after, after + 900).tolist() == sorted(end for end in held if after < end <= after + 900)
        newest = np.array([random.randrange(100) for _ in every])
        assert book.dirty(every, newest).tolist() == [
            end not in held or n > held[end] for end, n in zip(every.tolist(), newest.tolist(), strict=True)
        ]
