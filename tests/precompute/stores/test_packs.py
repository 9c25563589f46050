"""Packs that several writers put into one database, and readers who find out about them."""

import threading
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from django.db import connections

from precompute.clock import ManualClock
from precompute.cluster.pack_reader import PackReader
from precompute.cluster.packs import Packs
from precompute.models import SummaryPack
from precompute.samples import I64
from precompute.stores import database
from precompute.stores.base import StoreError
from precompute.stores.database import DatabaseStore
from tests.precompute.made_summaries import ends, same, summary

SMALL = ("sum", "quantile")
EVER = (0, 1 << 60)


@pytest.fixture(params=["sqlite", "postgresql"])
def alias(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_alias")
    SummaryPack.objects.using(found).all().delete()
    return found


def made(alias: str, clock: ManualClock | None = None) -> Packs:
    return Packs(PackReader(DatabaseStore(alias), 1 << 24), clock or ManualClock(1000))


def test_of_two_writers_of_a_pack_the_first_one_counts(alias: str) -> None:
    first, packs = summary(ends(1, 60), accumulators=SMALL), made(alias)
    for content in (first, summary(ends(1, 60), accumulators=SMALL, seed=1)):
        DatabaseStore(alias).insert("a", content)
    assert SummaryPack.objects.using(alias).count() == 1
    assert packs.refresh() and same(packs.get("a", *EVER), first)


def test_a_reader_knows_of_new_packs_when_it_has_looked(alias: str) -> None:
    packs, wanted = made(alias), np.array(ends(60, 62), np.int64)
    assert packs.refresh() and not packs.has("a", wanted).any()
    DatabaseStore(alias).insert("a", summary(ends(1, 60), accumulators=SMALL))
    assert not packs.has("a", wanted).any()
    assert packs.refresh() and packs.has("a", wanted).tolist() == [True, False, False]
    assert packs.size_bytes("a") > 0 and packs.get("b", *EVER).panes == 0


def test_a_row_that_comes_into_sight_after_one_with_a_larger_number_is_found(alias: str) -> None:
    clock = ManualClock(1000)
    packs, store = made(alias, clock), DatabaseStore(alias)
    store.insert("a", summary(ends(1, 60), accumulators=SMALL))
    store.insert("a", summary(ends(61, 120), accumulators=SMALL))
    late = SummaryPack.objects.using(alias).earliest("pk")
    number = late.pk
    late.delete()
    packs.refresh()
    clock.advance(30_000)
    late.pk = number
    late.save(using=alias, force_insert=True)
    packs.refresh()
    assert len(packs.ends("a", *EVER)) == 120


def test_only_new_rows_are_read_again(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = ManualClock(1000), []
    packs, rows, outlines, read = made(alias, clock), DatabaseStore.rows, DatabaseStore.outlines, list[int]()
    monkeypatch.setattr(DatabaseStore, "rows", lambda self, after: asked.append(after) or rows(self, after))  # type: ignore[func-returns-value]
    monkeypatch.setattr(DatabaseStore, "outlines", lambda self, of, panes: read.extend(of) or outlines(self, of, panes))  # type: ignore[func-returns-value]
    DatabaseStore(alias).insert("a", summary(ends(1, 60), accumulators=SMALL))
    for _ in range(4):
        packs.refresh()
        clock.advance(61_000)
    row = SummaryPack.objects.using(alias).get().pk
    assert asked == [0, row, row, row]
    clock.advance(600_000)
    packs.refresh()
    assert asked[-1] == 0
    assert read == [row]


def test_of_any_packs_the_same_panes_are_known_as_are_there(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ROWS_PER_QUERY", 3)
    packs, store, whole = made(alias), DatabaseStore(alias), np.array(ends(1, 60))
    kinds = {
        "whole": range(60), "few": range(7), "one": [30], "with a gap": [*range(20), *range(25, 60)],
        "every other": range(1, 60, 2), "both ends": [0, 59],
    }  # fmt: skip
    for number, places in enumerate(kinds.values()):
        store.insert("a", summary((whole + number * 900_000)[list(places)].tolist(), accumulators=SMALL, seed=number))
    store.insert("b", summary((whole + 15_000).tolist(), accumulators=SMALL))  # 60 panes, of two stretches
    packs.refresh()
    for name in ("a", "b"):
        for after_ms, until_ms in (EVER, (ends(3, 3)[0], ends(200, 200)[0]), (ends(29, 29)[0], ends(150, 150)[0])):
            assert packs.ends(name, after_ms, until_ms).tolist() == store.ends(name, after_ms, until_ms).tolist()
            assert same(packs.get(name, after_ms, until_ms), store.get(name, after_ms, until_ms))


def test_of_a_whole_pack_a_few_numbers_are_read_and_held(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packs, read = made(alias), list[bytes]()
    for number in range(50):
        DatabaseStore(alias).insert("a", summary(ends(60 * number + 1, 60 * number + 60), accumulators=SMALL))
    monkeypatch.setattr(database, "index_from_bytes", read.append)
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        packs.refresh()
        used = tracemalloc.take_snapshot().compare_to(before, "filename")
    finally:
        tracemalloc.stop()
    held = sum(one.size_diff for one in used if "/precompute/cluster/" in one.traceback[0].filename)
    assert not read and len(packs.ends("a", *EVER)) == 3000
    assert held < 50 * 200


def test_a_damaged_index_is_a_gap_and_kept_aside(alias: str) -> None:
    packs, store = made(alias), DatabaseStore(alias)
    store.insert("a", summary(ends(1, 50), accumulators=SMALL))
    SummaryPack.objects.using(alias).update(panes=b"not what it says it is")
    store.insert("a", summary(ends(61, 120), accumulators=SMALL))
    assert packs.refresh() and packs.ends("a", *EVER).tolist() == ends(61, 120)
    assert SummaryPack.objects.using(alias).filter(damaged=True).count() == 1


def test_packs_that_were_dropped_are_gaps_before_and_after_it_is_known(alias: str) -> None:
    packs, store = made(alias), DatabaseStore(alias)
    store.insert("a", summary(ends(1, 60), accumulators=SMALL))
    store.insert("a", summary(ends(61, 120), accumulators=SMALL))
    packs.refresh()
    store.drop("a", ends(60, 60)[0])
    assert packs.get("a", *EVER).ends_ms.tolist() == ends(61, 120)
    assert packs.ends("a", *EVER).tolist() == ends(61, 120)
    store.drop("a", ends(120, 120)[0])
    packs.refresh()
    assert not len(packs.ends("a", *EVER))


def test_while_the_database_is_away_nothing_is_there_and_it_is_counted(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs = made(alias)
    DatabaseStore(alias).insert("a", summary(ends(1, 60), accumulators=SMALL))
    packs.refresh()

    def away(*_: object) -> None:
        raise StoreError("away")

    with monkeypatch.context() as context:
        for name in ("rows", "load", "size_bytes"):
            context.setattr(DatabaseStore, name, away)
        assert (packs.get("a", *EVER).panes, packs.refresh(), packs.size_bytes("a"), packs.failures) == (0, False, 0, 2)
        assert len(packs.ends("a", *EVER)) == 60
    assert packs.refresh() and packs.get("a", *EVER).panes == 60
    packs.release()


def test_once_the_database_failed_no_query_asks_it_until_a_refresh_succeeded(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs, asked = made(alias), list[str]()
    for first in (1, 61):
        DatabaseStore(alias).insert("a", summary(ends(first, first + 59), accumulators=SMALL))
    packs.refresh()
    first_one = packs.get("a", 0, ends(60, 60)[0])

    def away(name: str) -> Callable[..., None]:
        def fail(*_: object) -> None:
            asked.append(name)
            raise StoreError("away")

        return fail

    with monkeypatch.context() as context:
        for name in ("rows", "load", "size_bytes"):
            context.setattr(DatabaseStore, name, away(name))
        for _ in range(3):
            assert same(packs.get("a", *EVER), first_one), "what is in memory is served"
            assert (packs.refresh_for_query(), packs.size_bytes("a")) == (False, 0)
    assert asked == ["load"]
    assert packs.get("a", *EVER).panes == 60
    assert packs.refresh() and packs.get("a", *EVER).panes == 120


def test_a_query_does_not_wait_for_another_that_asks_the_database(
    sqlite_alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs, asked, may_answer = made(sqlite_alias), threading.Event(), threading.Event()

    def slow(*_: object) -> I64:
        asked.set()
        assert may_answer.wait(60)
        return np.zeros(0, np.int64)

    monkeypatch.setattr(DatabaseStore, "rows", slow)
    asks = threading.Thread(target=packs.refresh)
    asks.start()
    try:
        assert asked.wait(60)
        assert not packs.refresh_for_query() and not packs.get("a", *EVER).panes
    finally:
        may_answer.set()
        asks.join()


def test_postgresql_stores_blobs_as_they_are(postgresql_alias: str) -> None:
    with connections[postgresql_alias].cursor() as cursor:
        of_blob = "attrelid = 'precompute_summarypack'::regclass AND attname = 'blob'"
        cursor.execute(f"SELECT attstorage FROM pg_attribute WHERE {of_blob}")
        assert cursor.fetchone() in (("e",), (b"e",))
