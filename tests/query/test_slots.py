"""A place is lent while a query waits for another system, and taken again."""

import threading
from collections.abc import Callable

import pytest

from precompute.errors import TimedOut
from query.slots import Slots


def left(ms: int) -> Callable[[], int]:
    return lambda: ms


def is_free(slots: Slots) -> bool:
    """Whether another thread can have a place now."""
    found: list[bool] = []

    def ask() -> None:
        try:
            with slots.taken(1):
                found.append(True)
        except TimedOut:
            found.append(False)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


def test_a_lent_place_is_free_inside_and_held_after() -> None:
    slots = Slots(1)
    with slots.taken(1):
        with slots.lent(left(1000)):
            assert is_free(slots)
        assert not is_free(slots)
    assert is_free(slots)


def test_it_is_held_again_after_a_failure_too() -> None:
    slots = Slots(1)
    with slots.taken(1):
        with pytest.raises(KeyError), slots.lent(left(1000)):
            raise KeyError
        assert not is_free(slots)
    assert is_free(slots)


class Taker:
    """Another thread that holds the one place until it is told to let go."""

    def __init__(self, slots: Slots) -> None:
        self._slots, self._has, self._release = slots, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def begin(self) -> None:
        self._thread.start()
        assert self._has.wait(60)

    def _hold(self) -> None:
        with self._slots.taken(1000):
            self._has.set()
            self._release.wait(120)

    def end(self) -> None:
        self._release.set()
        self._thread.join()


def test_a_place_that_is_not_free_again_in_time_ends_the_query() -> None:
    slots = Slots(1)
    other = Taker(slots)
    with slots.taken(1), pytest.raises(TimedOut, match="queue"), slots.lent(left(20)):
        other.begin()
    other.end()
    assert is_free(slots)


def test_the_blocks_own_failure_is_told_rather_than_the_wait() -> None:
    slots = Slots(1)
    other = Taker(slots)
    with slots.taken(1), pytest.raises(KeyError), slots.lent(left(20)):
        other.begin()
        raise KeyError
    other.end()
    assert is_free(slots)


def test_a_place_is_waited_for() -> None:
    slots = Slots(1)
    other = Taker(slots)
    with slots.taken(1):
        with slots.lent(left(60_000)):
            other.begin()
            threading.Timer(0.05, other.end).start()
        assert not is_free(slots)
    assert is_free(slots)


def test_who_holds_no_place_lends_none() -> None:
    slots = Slots(1)
    with slots.lent(left(0)):
        assert is_free(slots)
    assert is_free(slots)
