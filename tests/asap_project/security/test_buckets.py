"""Token buckets: bursts, refills, forgetting."""

import pytest

from asap_project.security import buckets
from asap_project.security.buckets import Buckets
from asap_project.security.errors import OverLimit
from precompute.clock import ManualClock


def taken(made: Buckets, client: str, times: int) -> int:
    """How many of these come through."""
    through = 0
    for _ in range(times):
        try:
            made.take(client)
        except OverLimit:
            continue
        through += 1
    return through


def test_a_burst_and_then_the_rate() -> None:
    clock = ManualClock(0)
    made = Buckets(2, 5, clock, "too many")
    assert taken(made, "a", 9) == 5
    clock.advance(1000)
    assert taken(made, "a", 9) == 2
    clock.advance(3_600_000)
    assert taken(made, "a", 9) == 5


def test_clients_do_not_share() -> None:
    made = Buckets(1, 3, ManualClock(0), "too many")
    assert [taken(made, client, 4) for client in ("a", "b")] == [3, 3]


def test_the_time_to_wait_is_the_time_until_one_more_is_let_through() -> None:
    clock = ManualClock(0)
    made = Buckets(0.1, 1, clock, "too many")
    made.take("a")
    clock.advance(2_500)
    with pytest.raises(OverLimit, match="too many") as refused:
        made.take("a")
    assert refused.value.retry_after_s == 8
    clock.advance(7_400)
    assert taken(made, "a", 1) == 0
    clock.advance(600)
    assert taken(made, "a", 1) == 1


def test_what_is_given_back_does_not_count() -> None:
    made = Buckets(1, 2, ManualClock(0), "too many")
    for _ in range(10):
        made.take("a")
        made.give_back("a")
    assert taken(made, "a", 5) == 2


def test_the_client_that_was_quiet_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MOST_CLIENTS", 3)
    made = Buckets(1, 1, ManualClock(0), "too many")
    for client in ("a", "b", "c", "a", "d"):
        taken(made, client, 1)
    assert [taken(made, client, 1) for client in ("a", "c", "d")] == [0, 0, 0]
    assert taken(made, "b", 1) == 1
