"""The result cache: what was kept under a stamp is found under that stamp alone, to the bit, in bounded memory."""

import threading
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from precompute.evaluate.values import Scalar, Vector
from precompute.labels import Labels
from precompute.samples import I64, STALE
from query.answers import Answer
from query.api import encode
from query.cache import ResultCache
from query.join import join_steps
from query.questions import Question
from tests.precompute.made_node import LOOKBACK_MS
from tests.query.made_vectors import bits_by_step, vector

A, B, C = ((("g", "a"),), (("g", "b"),), (("h", "c"), ("x", "1")))
MANY_BYTES = 1 << 24


def named(text: str) -> Question:
    return Question(text, LOOKBACK_MS, False, None)


ASKED = named("up")


def times(*steps: int) -> I64:
    return np.array(steps, np.int64)


def stamp(*columns: int) -> I64:
    """One number for each step."""
    return np.array([columns], np.int64)


def test_what_was_kept_is_found_at_the_steps_that_are_kept() -> None:
    cache = ResultCache(MANY_BYTES)
    cache.keep(ASKED, times(10, 30), stamp(1, 1), vector([{A: 1.0}, {A: 2.0, B: 3.0}]))
    hit, found = cache.find(ASKED, times(0, 10, 20, 30, 40), stamp(1, 1, 1, 1, 1))
    assert hit.tolist() == [False, True, False, True, False]
    assert bits_by_step(found) == bits_by_step(vector([{A: 1.0}, {A: 2.0, B: 3.0}]))


def test_a_step_is_found_under_the_very_stamp_it_was_kept_with() -> None:
    cache = ResultCache(MANY_BYTES)
    kept = np.array([[1, 1, 1], [5, 5, 5]], np.int64)
    cache.keep(ASKED, times(10, 20, 30), kept, vector([{A: 1.0}, {A: 2.0}, {A: 3.0}]))
    now = np.array([[1, 2, 1], [5, 5, 4]], np.int64)
    assert cache.find(ASKED, times(10, 20, 30), now)[0].tolist() == [True, False, False]
    assert not cache.find(ASKED, times(10, 20, 30), kept[:1])[0].any()


def test_a_step_kept_again_has_its_new_value_alone() -> None:
    cache = ResultCache(MANY_BYTES)
    cache.keep(ASKED, times(10, 20), stamp(1, 1), vector([{A: 1.0}, {A: 2.0}]))
    cache.keep(ASKED, times(20), stamp(2), vector([{B: 5.0}]))
    assert cache.find(ASKED, times(10, 20), stamp(1, 1))[0].tolist() == [True, False]
    hit, found = cache.find(ASKED, times(10, 20), stamp(1, 2))
    assert hit.all()
    assert bits_by_step(found) == bits_by_step(vector([{A: 1.0}, {B: 5.0}]))


def test_a_step_without_any_row_is_an_answer_too() -> None:
    cache = ResultCache(MANY_BYTES)
    cache.keep(ASKED, times(10), stamp(1), vector([{}]))
    hit, found = cache.find(ASKED, times(10), stamp(1))
    assert hit.all()
    assert isinstance(found, Vector)
    assert found.values.shape == (0, 1)


def test_values_come_back_to_the_bit() -> None:
    odd = [-0.0, 0.0, np.nan, -np.nan, STALE, np.inf, 5e-324, float(np.uint64(0x7FF8000000000ABC).view(np.float64))]
    cache, steps = ResultCache(MANY_BYTES), times(*range(len(odd)))
    cache.keep(ASKED, steps, np.zeros((1, len(odd)), np.int64), vector([{A: value} for value in odd]))
    found = cache.find(ASKED, steps, np.zeros((1, len(odd)), np.int64))[1]
    assert bits_by_step(found) == bits_by_step(vector([{A: value} for value in odd]))


def test_scalars_are_kept_as_scalars() -> None:
    cache = ResultCache(MANY_BYTES)
    cache.keep(ASKED, times(10, 20), stamp(1, 1), Scalar(np.array([1.0, -0.0])))
    found = cache.find(ASKED, times(5, 20), stamp(1, 1))[1]
    assert isinstance(found, Scalar)
    assert bits_by_step(found) == bits_by_step(Scalar(np.array([-0.0])))


def test_two_questions_do_not_meet() -> None:
    cache, other = ResultCache(MANY_BYTES), Question("up", LOOKBACK_MS, False, (0, 60_000, 15_000))
    cache.keep(ASKED, times(10), stamp(1), vector([{A: 1.0}]))
    hit, found = cache.find(other, times(10), stamp(1))
    assert not hit.any()
    assert found is None


def test_a_label_set_that_stands_twice_at_a_step_is_not_kept() -> None:
    cache = ResultCache(MANY_BYTES)
    twice = vector([{A: 1.0, B: 2.0}]).take(np.array([0, 0]))
    cache.keep(ASKED, times(10), stamp(1), twice)
    assert not cache.find(ASKED, times(10), stamp(1))[0].any()


def test_what_was_found_does_not_change_when_more_is_kept() -> None:
    cache = ResultCache(MANY_BYTES)
    cache.keep(ASKED, times(10), stamp(1), vector([{A: 1.0}]))
    found = cache.find(ASKED, times(10), stamp(1))[1]
    for step in range(20, 2000, 10):
        cache.keep(ASKED, times(10, step), stamp(step, step), vector([{A: 2.0, C: 4.0}, {B: float(step)}]))
    assert bits_by_step(found) == [{A: 0x3FF0000000000000}]


def test_hits_misses_bytes_and_evictions_are_counted() -> None:
    cache = ResultCache(100_000)
    cache.keep(ASKED, times(10, 20), stamp(1, 1), vector([{A: 1.0}, {A: 2.0}]))
    cache.find(ASKED, times(10, 20, 30), stamp(1, 1, 1))
    assert (cache.hits, cache.misses, cache.evictions) == (2, 1, 0)
    one = cache.bytes
    assert 0 < one <= 100_000
    for k in range(100):
        cache.keep(named(f"q{k}"), times(10, 20), stamp(1, 1), vector([{A: 1.0}, {A: 2.0}]))
    assert cache.bytes <= 100_000
    assert cache.evictions == 101 - cache.bytes // one


def test_the_question_that_was_not_asked_for_longest_goes_first() -> None:
    cache = ResultCache(100_000)
    for k in range(100):
        cache.keep(named(f"q{k}"), times(10), stamp(1), vector([{A: 1.0}]))
        cache.find(named("q0"), times(10), stamp(1))
    assert cache.find(named("q0"), times(10), stamp(1))[0].all()
    assert not cache.find(named("q1"), times(10), stamp(1))[0].any()


def test_what_is_too_large_is_not_kept_and_leaves_the_rest_where_it_is() -> None:
    cache = ResultCache(400_000)
    cache.keep(ASKED, times(10), stamp(1), vector([{A: 1.0}]))
    wide = vector([{(("i", str(k)),): 1.0 for k in range(2000)}] * 30)
    cache.keep(named("wide"), np.arange(30), np.ones((1, 30), np.int64), wide)
    assert not cache.find(named("wide"), np.arange(30), np.ones((1, 30), np.int64))[0].any()
    assert cache.find(ASKED, times(10), stamp(1))[0].all()
    assert cache.evictions == 0


def test_a_question_that_has_grown_too_large_begins_again_with_its_newest_steps() -> None:
    cache = ResultCache(400_000)
    rows = {(("i", str(k)),): 1.0 for k in range(100)}
    for step in range(0, 2000, 20):
        steps = np.arange(step, step + 20)
        cache.keep(ASKED, steps, np.ones((1, 20), np.int64), vector([rows] * 20))
        assert cache.find(ASKED, steps, np.ones((1, 20), np.int64))[0].all()
        assert cache.bytes < 200_000
    assert not cache.find(ASKED, np.arange(20), np.ones((1, 20), np.int64))[0].any()


def test_a_cache_of_no_bytes_keeps_nothing() -> None:
    cache = ResultCache(0)
    cache.keep(ASKED, times(10), stamp(1), vector([{A: 1.0}]))
    assert not cache.find(ASKED, times(10), stamp(1))[0].any()
    assert cache.bytes == 0


def test_a_window_that_moves_on_for_long_takes_no_more_room_in_the_end() -> None:
    """Steps that nobody asks for go, and so do label sets that only they had."""
    cache, sizes = ResultCache(MANY_BYTES), list[int]()
    for end in range(100, 3000):
        asked = np.arange(end - 100, end)
        hit, _ = cache.find(ASKED, asked, asked[None])
        assert int(hit.sum()) == (99 if end > 100 else 0)
        fresh = [{A: float(t), (("pod", f"pod-{t // 50}"),): 1.0} for t in asked[~hit].tolist()]
        cache.keep(ASKED, asked[~hit], asked[None, ~hit], vector(fresh))
        sizes.append(cache.bytes)
    assert max(sizes[1500:]) <= max(sizes[:1500])


def test_a_reload_is_written_as_the_same_bytes() -> None:
    steps = [{A: 1.0, B: 2.0}, {C: -0.0}, {B: np.nan, C: 1e300}, {}, {A: 5.0}]
    cache, at = ResultCache(MANY_BYTES), times(0, 10, 20, 30, 40)
    for part in ([4], [1, 3], [0]):
        cache.keep(ASKED, at[part], at[None, part], vector([steps[k] for k in part]))
    hit, found = cache.find(ASKED, at, at[None])
    assert hit.tolist() == [True, True, False, True, True]
    assert isinstance(found, Vector)
    joined = join_steps([(hit, found), (~hit, vector(steps[2:3]))], 5)
    whole, cached = (Answer(value, at, "range", ("head",), "exact") for value in (vector(steps), joined))
    assert encode.answer(cached) == encode.answer(whole)


LABELS = st.sampled_from([(), A, B, C, (("g", "a"), ("h", "c")), *((("i", str(k)),) for k in range(6))])
VALUES = st.floats(allow_nan=True) | st.sampled_from([-0.0, STALE])
STEP = st.dictionaries(LABELS, VALUES, max_size=5)
KEEP = st.tuples(st.just("keep"), st.integers(0, 2), st.dictionaries(st.integers(0, 40), STEP, min_size=1, max_size=12))
FIND = st.tuples(st.just("find"), st.integers(0, 2), st.sets(st.integers(0, 40), min_size=1))


class Model:
    """What was kept last: by question and step a stamp and the values' bits."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, int], tuple[tuple[int, ...], dict[Labels, int]]] = {}

    def keep(self, asked: int, steps: Sequence[int], stamps: I64, value: Vector) -> None:
        for step, column, bits in zip(steps, stamps.T.tolist(), bits_by_step(value), strict=True):
            self.kept[asked, step] = tuple(column), bits

    def check(self, cache: ResultCache, asked: int, steps: Sequence[int], stamps: I64, keeps_all: bool) -> None:
        hit, found = cache.find(named(str(asked)), np.array(steps), stamps)
        known = [self.kept.get((asked, step), ((), {})) for step in steps]
        same = [old == tuple(now) for (old, _), now in zip(known, stamps.T.tolist(), strict=True)]
        assert all(there for there, is_hit in zip(same, hit.tolist(), strict=True) if is_hit)
        assert not keeps_all or hit.tolist() == same
        assert bits_by_step(found) == [bits for (_, bits), is_hit in zip(known, hit.tolist(), strict=True) if is_hit]


@settings(max_examples=300)
@given(st.lists(KEEP | FIND, max_size=50), st.randoms(use_true_random=False), st.sampled_from([30_000, MANY_BYTES]))
def test_random_keeping_and_finding_is_as_a_dictionary_says(acts: list, random, max_bytes: int) -> None:  # type: ignore[no-untyped-def, type-arg]
    cache, model = ResultCache(max_bytes), Model()
    for act, asked, what in acts:
        steps = sorted(what)
        stamps = np.array([[random.randrange(3) for _ in steps], [random.randrange(2) for _ in steps]], np.int64)
        if act == "keep":
            value = vector([what[step] for step in steps])
            cache.keep(named(str(asked)), np.array(steps), stamps, value)
            model.keep(asked, steps, stamps, value)
        else:
            model.check(cache, asked, steps, stamps, keeps_all=max_bytes == MANY_BYTES)
        assert cache.bytes <= max_bytes


def test_lookups_beside_a_thread_that_keeps_find_whole_values() -> None:
    """Each value says its own step and stamp, in rows that come and go."""
    cache, wrong, done = ResultCache(MANY_BYTES), list[str](), threading.Event()

    def keep() -> None:
        for stamped in range(600):
            steps = np.arange(stamped, stamped + 20)
            rows = [{A: float(step), (("i", str(stamped % 37)),): float(stamped)} for step in steps.tolist()]
            cache.keep(ASKED, steps, np.full((1, 20), stamped), vector(rows))
        done.set()

    writer = threading.Thread(target=keep)
    writer.start()
    while not done.is_set():
        for stamped in range(0, 600, 7):
            steps = np.arange(stamped, stamped + 20)
            hit, found = cache.find(ASKED, steps, np.full((1, 20), stamped))
            expected = [{A: float(s), (("i", str(stamped % 37)),): float(stamped)} for s in steps[hit].tolist()]
            if bits_by_step(found) != (bits_by_step(vector(expected)) if hit.any() else []):
                wrong.append(str(stamped))
    writer.join()
    assert not wrong
