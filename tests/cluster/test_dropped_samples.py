"""With an upstream, samples that are dropped leave holes in every shard, whatever Redis loses of them."""

from collections.abc import Callable

import pytest

from precompute.clock import ManualClock
from precompute.cluster.server import Call, Server, ServerDown
from precompute.cluster.shards import Shards
from precompute.errors import Rejected
from precompute.log.base import Hole
from tests.cluster.made_shards import LIMITS, NOW_MS
from tests.cluster.test_appender import clock as clock
from tests.cluster.test_appender import opened, some, write
from tests.cluster.test_appender import shards as shards

LATE = NOW_MS - LIMITS.acceptance_ms - 5000


def holes(shards: Shards) -> list[Hole]:
    return [hole for shard in shards.all for hole in shard.holes()]


def drop_keys(shards: Shards, name: str) -> None:
    shards.first.ask("DEL", *(f"{{{shard.number}}}{name}" for shard in shards.all))


def test_a_hole_that_redis_has_lost_is_noted_again(shards: Shards, clock: ManualClock) -> None:
    to = opened(shards, clock, has_upstream=True)
    write(to, [("a", LATE, 1.0)])
    noted = holes(shards)
    drop_keys(shards, "holes")
    write(to, [("a", LATE + 1, 1.0)])
    assert (len(noted), holes(shards)) == (1, []), "it is not asked for with each sample"
    clock.advance(10_000)
    write(to, [("a", LATE + 2, 1.0)])
    assert set(noted) <= set(holes(shards))


def test_after_a_shard_begins_anew_holes_are_noted_again(shards: Shards, clock: ManualClock) -> None:
    to = opened(shards, clock, has_upstream=True)
    write(to, [("a", LATE, 1.0)])
    noted = holes(shards)
    for name in ("holes", "m"):
        drop_keys(shards, name)
    write(to, [("a", LATE + 1, 1.0), *some(20)])
    write(to, [("a", LATE + 2, 1.0)])
    assert holes(shards) == noted


def before_holes(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Do this once, when the first holes of all are about to be sent."""
    run_all, left = Server.run_all, [do]

    def run(server: Server, calls: list[Call]) -> list[object]:
        if left and str(calls[0].arguments[-1]).startswith("="):
            left.pop()()
        return run_all(server, calls)

    monkeypatch.setattr(Server, "run_all", run)


def test_a_hole_for_a_shard_that_is_made_anew_meanwhile_is_noted(
    shards: Shards, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_holes(monkeypatch, lambda: drop_keys(shards, "m"))
    ahead_ms = NOW_MS + LIMITS.future_ms + 60_000
    assert write(opened(shards, clock, has_upstream=True), [("a", ahead_ms, 1.0)]).too_far_ahead == 1
    assert [hole.metric for hole in holes(shards)] == ["m"]


def test_a_sample_whose_hole_finds_no_room_is_sent_again(shards: Shards, clock: ManualClock) -> None:
    to = opened(shards, clock, has_upstream=True)
    for is_full in (True, False):
        for shard in shards.all:
            shards.first.ask("HSET", f"{{{shard.number}}}m", "cut", -LIMITS.log_max_bytes - 1 if is_full else 0)
        if is_full:
            with pytest.raises(Rejected, match=r"no room: log\.max_bytes"):
                write(to, [("a", LATE, 1.0)])
    assert write(to, [("a", LATE, 1.0)]).too_old == 1
    assert len(holes(shards)) == 1


def test_a_sample_whose_hole_is_not_answered_is_sent_again(
    shards: Shards, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = opened(shards, clock, has_upstream=True)

    def lost() -> None:
        before_holes(monkeypatch, down)  # the repetition too
        raise ServerDown("lost")

    def down() -> None:
        raise ServerDown("lost again")

    before_holes(monkeypatch, lost)
    with pytest.raises(Rejected, match="lost again"):
        write(to, [("a", LATE, 1.0)])
    assert write(to, [("a", LATE, 1.0)]).too_old == 1
    assert len(holes(shards)) == 1


def test_samples_ages_ahead_leave_no_hole(shards: Shards, clock: ManualClock) -> None:
    """Of a sender that takes nanoseconds for milliseconds: the hole would never be forgotten."""
    to = opened(shards, clock, has_upstream=True)
    write(to, [("a", NOW_MS * 1_000_000, 1.0), ("a", NOW_MS + 3_600_000, 1.0)])
    assert [hole.until_ms - NOW_MS < 2 * 3_600_000 for hole in holes(shards)] == [True]
