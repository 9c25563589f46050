"""What belongs to no shard: constants, notes of metrics, metadata."""

from collections.abc import Iterator
from typing import Any

import pytest

from precompute.clock import ManualClock, SystemClock
from precompute.cluster import shared
from precompute.cluster.server import Server, ServerDown
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
        described.note([("f", Family("gauge", "", ""))])
        assert (notes.histogram_metrics(), notes.partial_metrics()) == ({"h"}, {"p"})
        assert shards.first.ask("HLEN", "metadata") == 1
        shards.first.ask("DEL", "histograms", "partial", "metadata")


def test_a_metric_is_received_since_it_was_first_noted(shards: Shards) -> None:
    notes = SharedNotes(shards.first, SystemClock())
    notes.note_received({"a": 5, "b": 7})
    notes.note_received({"a": 4, "c": 1})
    assert notes.received_since() == {"a": 5, "b": 7, "c": 1}


def test_metrics_beyond_the_bound_are_not_known_to_be_received(
    shards: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST_NOTED_METRICS", 3)
    notes = SharedNotes(shards.first, SystemClock())
    notes.note_received({"a": 1, "b": 2})
    notes.note_received({"a": 9, "c": 3, "d": 4, "e": 5})
    notes.note_received({"f": 6})
    assert notes.received_since() == {"a": 1, "b": 2, "c": 3}


def test_since_when_metrics_are_received_is_read_when_it_has_changed(
    shards: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = (SharedNotes(shards.first, SystemClock()) for _ in range(2))
    asked, ask = list[str](), Server.ask
    monkeypatch.setattr(Server, "ask", lambda server, *command: (asked.append(command[0]), ask(server, *command))[1])
    for first_ms, reads in (({"a": 1}, 1), ({"a": 2}, 1), ({"b": 3}, 2), ({"a": 4, "b": 5}, 2)):
        writer.note_received(first_ms)
        assert reader.received_since() == reader.received_since() == {"a": 1} | ({"b": 3} if reads > 1 else {})
        assert asked.count("HGETALL") == reads


def test_what_a_server_has_lost_is_not_known_to_be_received(shards: Shards) -> None:
    writer, reader = (SharedNotes(shards.first, SystemClock()) for _ in range(2))
    writer.note_received({"a": 1})
    rev = shards.first.ask("GET", "received_rev")
    writer.note_received({"b": 2})
    assert reader.received_since() == {"a": 1, "b": 2}
    shards.first.ask_all([("HDEL", "received", "b"), ("SET", "received_rev", rev)])
    writer.note_received({"b": 7})
    assert reader.received_since() == {"a": 1, "b": 7}
    shards.first.ask("DEL", "received", "received_rev")
    assert reader.received_since() == {}


def test_what_an_older_version_notes_is_seen(shards: Shards) -> None:
    notes = SharedNotes(shards.first, SystemClock())
    notes.note_received({"a": 1})
    assert notes.received_since() == {"a": 1}
    shards.first.ask("HSETNX", "received", "b", 2)
    assert notes.received_since() == {"a": 1, "b": 2}


def test_descriptions_are_seen_by_others_within_seconds(shards: Shards, clock: ManualClock) -> None:
    writer, reader = SharedMetadata(shards.first, clock), SharedMetadata(shards.first, clock)
    assert reader.all() == {}
    writer.note([("b", Family("counter", 'ü "/" \\', "s")), ("a", Family("gauge", "", ""))])
    assert reader.all() == {}
    clock.advance(5000)
    assert list(reader.all().items()) == [("a", [Family("gauge", "", "")]), ("b", [Family("counter", 'ü "/" \\', "s")])]


def test_a_family_keeps_its_last_four_descriptions(shards: Shards, clock: ManualClock) -> None:
    for at in (0, 1, 2, 3, 1, 4):
        SharedMetadata(shards.first, clock).note([("f", Family("gauge", f"help {at}", ""))])
    described = SharedMetadata(shards.first, clock).all()["f"]
    assert [family.help for family in described] == ["help 2", "help 3", "help 1", "help 4"]


def test_families_beyond_the_bound_are_let_go(
    shards: Shards, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST_FAMILIES", 2)
    SharedMetadata(shards.first, clock).note([(name, Family("gauge", f"of {name}", "")) for name in "abca"])
    assert list(SharedMetadata(shards.first, clock).all()) == ["a", "b"]


def test_a_silent_server_is_asked_once_for_all_families_and_then_left_alone(
    shards: Shards, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata, is_silent, tries = SharedMetadata(shards.first, clock), True, 0
    send = Server._send

    def slow(*of: Any) -> Any:
        nonlocal tries
        tries += 1
        if is_silent:
            clock.advance(5000)
            raise ServerDown("no answer for 5 s")
        return send(*of)

    monkeypatch.setattr(Server, "_send", slow)
    families = [(f"f{k}", Family("gauge", "", "")) for k in range(500)]
    metadata.note(families[:300])
    metadata.note(families[300:])
    assert (tries, metadata.all()) == (1, {})
    is_silent = False
    clock.advance(10_000)
    metadata.note(families)
    taken = tries
    metadata.note(families)
    assert tries == taken <= 3, "one round, and one more to make the script known"
    assert len(metadata.all()) == 500


def test_descriptions_are_not_read_from_a_silent_server_again_and_again(
    shards: Shards, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata, tries = SharedMetadata(shards.first, clock), 0

    def slow(*_: Any) -> Any:
        nonlocal tries
        tries += 1
        clock.advance(5000)
        raise ServerDown("no answer for 5 s")

    monkeypatch.setattr(Server, "ask_all", slow)
    assert [metadata.all() for _ in range(10)] == [{}] * 10
    assert tries == 1
    clock.advance(10_000)
    metadata.all()
    assert tries == 2
