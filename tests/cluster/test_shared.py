"""What belongs to no shard: constants, notes of metrics, metadata."""

from collections.abc import Iterator

import pytest

from precompute.clock import ManualClock, SystemClock
from precompute.cluster import shared
from precompute.cluster.shards import Shards
from precompute.cluster.shared import SharedMetadata, SharedNotes, agree, take_places
from precompute.errors import InstallMismatch, Rejected
from precompute.metadata import Family
from tests.cluster.made_shards import LIMITS, NOW_MS, made_shards
from tests.servers import RedisServer, redis_server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def shards(redis: RedisServer, clock: ManualClock) -> Iterator[Shards]:
    made = made_shards(redis.url, clock)
    yield made
    made.close()


def test_constants_are_fixed_by_the_first_and_the_same_for_all(shards: Shards) -> None:
    agree(shards, {"shards": 16, "hash_seed": 0})
    agree(shards, {"shards": 16, "hash_seed": 0, "window_size": 15_000})
    with pytest.raises(InstallMismatch, match="shards is 32, but this install was made with 16: set it back"):
        agree(shards, {"shards": 32, "hash_seed": 0})
    agree(shards, {"shards": 16})


def test_servers_in_another_order_are_refused(redis: RedisServer) -> None:
    with redis_server() as second:
        for urls in ([redis.url, second.url], [redis.url, second.url]):
            take_places(Shards(urls, 2, LIMITS))
        with pytest.raises(InstallMismatch, match="is number 0 and was number 1 when this install was made"):
            take_places(Shards([second.url, redis.url], 2, LIMITS))


def test_a_server_that_is_named_twice_is_refused(redis: RedisServer) -> None:
    with pytest.raises(InstallMismatch, match="is number 1 and was number 0"):
        take_places(Shards([redis.url, redis.url.replace("127.0.0.1", "localhost")], 2, LIMITS))


def test_noted_metrics_are_seen_by_others_and_bounded(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MOST_NOTED_METRICS", 3)
    notes, reader = SharedNotes(shards.first, SystemClock()), SharedNotes(shards.first, SystemClock())
    notes.note_histograms(["a", "b"])
    notes.note_partial(["c"])
    SharedNotes(shards.first, SystemClock()).note_histograms(["b", "d"])
    with pytest.raises(Rejected, match="more than 3 metrics"):
        notes.note_histograms(["e"])
    assert reader.histogram_metrics() == {"a", "b", "d"}
    assert reader.partial_metrics() == {"c"}


def test_what_the_server_has_lost_is_noted_again_when_it_comes_again(shards: Shards, clock: ManualClock) -> None:
    notes, described = SharedNotes(shards.first, clock), SharedMetadata(shards.first, clock)
    for wait_ms in (0, 600_000):
        clock.advance(wait_ms)
        notes.note_histograms(["h"])
        notes.note_partial(["p"])
        described.note("f", "gauge", "", "")
        assert (notes.histogram_metrics(), notes.partial_metrics()) == ({"h"}, {"p"})
        assert shards.first.ask("HLEN", "metadata") == 1
        shards.first.ask("DEL", "histograms", "partial", "metadata")


def test_a_metric_is_received_since_it_was_first_noted(shards: Shards) -> None:
    notes = SharedNotes(shards.first, SystemClock())
    notes.note_received({"a": 5, "b": 7})
    notes.note_received({"a": 4, "c": 1})
    assert notes.received_since() == {"a": 5, "b": 7, "c": 1}


def test_descriptions_are_seen_by_others_within_seconds(shards: Shards, clock: ManualClock) -> None:
    writer, reader = SharedMetadata(shards.first, clock), SharedMetadata(shards.first, clock)
    assert reader.all() == {}
    writer.note("b", "counter", 'ü "/" \\', "s")
    writer.note("a", "gauge", "", "")
    assert reader.all() == {}
    clock.advance(5000)
    assert list(reader.all().items()) == [("a", [Family("gauge", "", "")]), ("b", [Family("counter", 'ü "/" \\', "s")])]


def test_a_family_keeps_its_last_four_descriptions(shards: Shards, clock: ManualClock) -> None:
    for at in (0, 1, 2, 3, 1, 4):
        SharedMetadata(shards.first, clock).note("f", "gauge", f"help {at}", "")
    described = SharedMetadata(shards.first, clock).all()["f"]
    assert [family.help for family in described] == ["help 2", "help 3", "help 1", "help 4"]


def test_families_beyond_the_bound_are_let_go(
    shards: Shards, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST_FAMILIES", 2)
    for name in "abca":
        SharedMetadata(shards.first, clock).note(name, "gauge", f"of {name}", "")
    assert list(SharedMetadata(shards.first, clock).all()) == ["a", "b"]
