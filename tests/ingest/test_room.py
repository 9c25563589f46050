"""Bodies beside one another have room up to a bound."""

import threading

import pytest

from ingest.room import Room
from precompute.errors import Rejected


def test_what_passes_the_bound_is_refused_and_has_room_later() -> None:
    room = Room(100, wait_s=0)
    with room.taken(60), room.taken(40):
        with pytest.raises(Rejected, match="100 bytes") as refused, room.taken(1):
            pass
        assert refused.value.retry_after_s == 1
    with room.taken(100):
        pass


def test_one_body_has_room_whatever_its_size() -> None:
    with Room(100, wait_s=0).taken(1000):
        pass


def test_a_failure_inside_gives_the_room_back() -> None:
    room = Room(100, wait_s=0)
    with pytest.raises(ValueError, match="inside"), room.taken(100):
        raise ValueError("inside")
    with room.taken(100):
        pass


def test_a_body_waits_for_another_to_end() -> None:
    room, inside = Room(100, wait_s=60), threading.Event()

    def second() -> None:
        with room.taken(100):
            inside.set()

    with room.taken(100):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not inside.is_set()
    waiting.join(60)
    assert inside.is_set()
