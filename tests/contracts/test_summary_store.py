"""What every summary store promises (precompute/stores/base.py)."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precompute.clock import SystemClock
from precompute.cluster.ground import ShardGround
from precompute.cluster.partial_store import PartialStore
from precompute.cluster.replies import ShardLimits
from precompute.cluster.shards import Shards
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.models import SummaryPack
from precompute.stores.base import PACK_PANES, StoreError, SummaryStore
from precompute.stores.cached import CachedStore, PieceCache
from precompute.stores.database import DatabaseStore
from precompute.stores.memory import MemoryStore
from precompute.summaries import FAILED, HOLE, Summary, between, pack
from tests.precompute.made_summaries import ends, same, summary
from tests.precompute.stores import databases
from tests.servers import RedisServer

HOUR_MS, ENTRIES = 3_600_000, 4000
SMALL = ("sum", "quantile")
FOREVER = (-(2**62), 2**62)
CACHE_BYTES = 200_000
"""Less than the tests store, so that pieces are dropped and loaded again."""


Reopen = Callable[[], SummaryStore]


@pytest.fixture(params=["memory", "sqlite", "postgresql", "cached-sqlite", "cached-postgresql", "redis"])
def reopen(request: pytest.FixtureRequest) -> Reopen:
    """Call it for the store; each further call is a restart on the same data (memory has none to lose)."""
    kind, _, base = request.param.rpartition("-")
    if base == "memory":
        memory = MemoryStore()
        return lambda: memory
    if base == "redis":
        return partials(request.getfixturevalue("redis"))
    alias = request.getfixturevalue(f"{base}_alias")
    SummaryPack.objects.using(alias).all().delete()
    if kind == "cached":
        return lambda: CachedStore(DatabaseStore(alias), CACHE_BYTES)
    return lambda: DatabaseStore(alias)


def partials(redis: RedisServer) -> Reopen:
    """One shard's partials, and no long-term store beside them."""
    shards = Shards([redis.url], 1, ShardLimits(HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS, 1 << 30, 1 << 30))
    shards.create(complete=True)
    (shard,) = shards.all
    # what panes here say they have seen, since none is taken that has seen what the log has lost
    shard.server.ask_all([("XADD", shard.log_key, f"0-{entry}", "h", "") for entry in range(1, ENTRIES)])
    ground = ShardGround(shard, "one", Head(SeriesTable(shards=1), 1 << 20), 15_000, 100, SystemClock(), int)
    return lambda: PartialStore(shard, ground.commit, MemoryStore())


@pytest.fixture
def store(reopen: Reopen) -> SummaryStore:
    return reopen()


@pytest.fixture(params=["sqlite", "cached-sqlite", "postgresql"])
def on_disk(request: pytest.FixtureRequest) -> tuple[SummaryStore, str]:
    """A store and the alias of its database."""
    kind, _, base = request.param.rpartition("-")
    alias = request.getfixturevalue(f"{base}_alias")
    SummaryPack.objects.using(alias).all().delete()
    database = DatabaseStore(alias)
    return (CachedStore(database, CACHE_BYTES) if kind == "cached" else database), alias


def panes(first: int, last: int, seed: int = 0, flags: int = 0) -> Summary:
    return summary(ends(first, last), seed=seed, accumulators=SMALL, flags=flags)


def one_by_one(store: SummaryStore, name: str, first: int, last: int) -> None:
    """Commit as ticks do: a pane at a time, here in one transaction."""
    store.commit([(name, panes(n, n)) for n in range(first, last + 1)])


def held(store: SummaryStore, name: str = "a") -> Summary:
    return store.get(name, *FOREVER)


def singles(first: int, last: int) -> Summary:
    """What `one_by_one` commits, as one."""
    return pack([panes(n, n) for n in range(first, last + 1)])


def test_what_was_committed_is_read_back(store: SummaryStore) -> None:
    store.commit([("a", panes(1, 3)), ("b", panes(2, 2))])
    assert same(held(store, "a"), panes(1, 3))
    assert same(held(store, "b"), panes(2, 2))
    assert store.aggregations() == ("a", "b")


def test_a_store_without_panes_answers_with_none(store: SummaryStore) -> None:
    assert held(store).panes == 0
    assert store.ends("a", *FOREVER).tolist() == []
    assert [column.tolist() for column in store.seen("a", *FOREVER)] == [[], [], []]
    assert store.failed("a", *FOREVER).tolist() == []
    assert (store.aggregations(), store.size_bytes("a")) == ((), 0)
    store.commit([("a", panes(1, 0))])
    store.seal("a", 10**9)
    store.drop("a", 10**9)
    assert store.aggregations() == ()


@pytest.mark.parametrize("sealed", [False, True])
def test_intervals_are_left_open_and_right_closed(store: SummaryStore, sealed: bool) -> None:
    one_by_one(store, "a", 1, PACK_PANES)
    if sealed:
        store.seal("a", FOREVER[1])
    two, four = ends(2, 2)[0], ends(4, 4)[0]
    assert same(store.get("a", two, four), singles(3, 4))
    assert store.ends("a", two, four).tolist() == ends(3, 4)
    assert store.ends("a", two, four - 1).tolist() == ends(3, 3)
    assert store.get("a", two, two).panes == 0


def test_a_pane_without_rows_is_kept(store: SummaryStore) -> None:
    nothing = summary(ends(1, 1), accumulators=SMALL, present=0.0)
    store.commit([("a", nothing)])
    assert store.ends("a", *FOREVER).tolist() == ends(1, 1)
    assert same(held(store), nothing)


def test_a_commit_replaces_panes_and_never_merges_them(store: SummaryStore) -> None:
    store.commit([("a", panes(1, 5))])
    store.commit([("a", panes(3, 3, seed=9))])
    store.commit([("a", panes(3, 3, seed=9))])
    old = panes(1, 5)
    before, after = between(old, 0, ends(2, 2)[0]), between(old, ends(3, 3)[0], FOREVER[1])
    assert same(held(store), pack([before, panes(3, 3, seed=9), after]))


def test_the_later_of_two_in_one_commit_wins(store: SummaryStore) -> None:
    store.commit([("a", panes(1, 2)), ("a", panes(2, 3, seed=5))])
    assert same(held(store), pack([between(panes(1, 2), 0, ends(1, 1)[0]), panes(2, 3, seed=5)]))


def test_seen_and_plan_are_told_without_the_summaries(store: SummaryStore) -> None:
    store.commit([("a", panes(1, 3, seed=40))])
    store.commit([("a", panes(2, 2, seed=70))])
    found, seen, plan = store.seen("a", 0, ends(2, 2)[0])
    plans = [1, 1] if isinstance(store, PartialStore) else [3, 3]
    assert (found.tolist(), seen.tolist(), plan.tolist()) == (ends(1, 2), [40, 70], plans)


def test_failed_panes_are_told(store: SummaryStore) -> None:
    store.commit([("a", panes(1, 1, flags=FAILED | HOLE)), ("a", panes(2, 2, flags=HOLE)), ("a", panes(3, 3))])
    assert store.failed("a", *FOREVER).tolist() == ends(1, 1)
    assert held(store).flags.tolist() == [FAILED | HOLE, HOLE, 0]


def test_sealing_changes_no_answer_and_survives_a_second_time(reopen: Reopen) -> None:
    store = reopen()
    last = 2 * PACK_PANES + 7
    one_by_one(store, "a", 1, last)
    before = held(store)
    for _ in range(2):
        store.seal("a", ends(last - 3, last - 3)[0])
        assert same(held(store), before)
        assert same(held(reopen()), before)
    assert store.ends("a", *FOREVER).tolist() == ends(1, last)


def test_sealed_panes_are_a_handful_of_rows_and_the_rest_stays_single(on_disk: tuple[SummaryStore, str]) -> None:
    store, alias = on_disk
    one_by_one(store, "a", 1, 2 * PACK_PANES + 20)
    rows = SummaryPack.objects.using(alias).filter(aggregation_id="a").order_by("last_end_ms")
    store.seal("a", ends(PACK_PANES - 1, PACK_PANES - 1)[0])
    assert rows.count() == 2 * PACK_PANES + 20
    store.seal("a", ends(2 * PACK_PANES + 9, 2 * PACK_PANES + 9)[0])
    assert rows.count() == 2 + 20
    ids = list(rows.values_list("pk", flat=True))
    store.seal("a", ends(2 * PACK_PANES + 9, 2 * PACK_PANES + 9)[0])
    assert list(rows.values_list("pk", flat=True)) == ids


def test_a_sealed_pane_can_still_be_replaced_and_a_gap_be_filled(reopen: Reopen) -> None:
    store = reopen()
    store.commit([("a", panes(n, n)) for n in range(1, PACK_PANES + 2) if n != 17])
    store.seal("a", FOREVER[1])
    store.commit([("a", panes(17, 17)), ("a", panes(100, 100, seed=8))])
    whole = pack([panes(n, n, seed=8 if n == 100 else 0) for n in range(1, PACK_PANES + 2)])
    assert same(held(store), whole)
    store.seal("a", FOREVER[1])
    assert same(held(store), whole)
    assert same(held(reopen()), whole)
    assert same(store.get("a", ends(15, 15)[0], ends(18, 18)[0]), singles(16, 18))


def test_a_long_commit_is_cut_into_pieces(store: SummaryStore) -> None:
    whole = panes(1, 3 * PACK_PANES + 1)
    store.commit([("a", whole)])
    assert same(held(store), whole)


def test_dropping_forgets_old_panes_and_only_those(store: SummaryStore) -> None:
    one_by_one(store, "a", 1, 10)
    one_by_one(store, "b", 1, 10)
    store.drop("a", ends(4, 4)[0])
    assert store.ends("a", *FOREVER).tolist() == ends(5, 10)
    assert store.ends("b", *FOREVER).tolist() == ends(1, 10)
    store.drop("a", FOREVER[1])
    assert store.aggregations() == ("b",)
    assert held(store).panes == 0


def test_a_pack_is_dropped_when_all_its_panes_are_old(store: SummaryStore) -> None:
    one_by_one(store, "a", 1, PACK_PANES + 1)
    store.seal("a", FOREVER[1])
    store.drop("a", ends(PACK_PANES - 1, PACK_PANES - 1)[0])
    assert store.ends("a", *FOREVER)[-2:].tolist() == ends(PACK_PANES, PACK_PANES + 1)
    store.drop("a", ends(PACK_PANES, PACK_PANES)[0])
    assert store.ends("a", *FOREVER).tolist() == ends(PACK_PANES + 1, PACK_PANES + 1)


@pytest.mark.parametrize("last", [0, 2, 3, 5, 9])
def test_rewinding_forgets_new_panes_and_only_those(reopen: Reopen, last: int) -> None:
    store = reopen()
    store.commit([("a", panes(1, 3)), ("b", panes(1, 5))])
    store.commit([("a", panes(4, 5))])
    store.rewind("a", ends(last, last)[0])
    for again in (store, reopen()):
        assert again.ends("a", *FOREVER).tolist() == ends(1, min(last, 5))
        assert again.ends("b", *FOREVER).tolist() == ends(1, 5)
        assert same(held(again, "a"), pack([panes(1, 3), panes(4, 5)])) or last < 5
    store.commit([("a", panes(3, 3, seed=1))])
    assert same(store.get("a", ends(2, 2)[0], ends(3, 3)[0]), panes(3, 3, seed=1))


@pytest.mark.parametrize("sealed", [False, True])
def test_discarding_forgets_the_panes_named_and_only_those(reopen: Reopen, sealed: bool) -> None:
    store = reopen()
    store.commit([("a", panes(1, 5)), ("b", panes(1, 5)), ("a", panes(7, 7))])
    if sealed:
        store.seal("a", FOREVER[1])
    store.discard("a", np.array([*ends(2, 3), *ends(6, 7)], np.int64))
    whole = panes(1, 5)
    left = pack([between(whole, 0, ends(1, 1)[0]), between(whole, ends(3, 3)[0], FOREVER[1])])
    for again in (store, reopen()):
        assert same(held(again), left)
        assert again.ends("a", *FOREVER).tolist() == [*ends(1, 1), *ends(4, 5)]
        assert same(held(again, "b"), whole)
    store.discard("c", np.array(ends(1, 1), np.int64))
    store.commit([("a", panes(2, 2, seed=1))])
    assert same(store.get("a", ends(1, 1)[0], ends(2, 2)[0]), panes(2, 2, seed=1))


def test_sizes_follow_what_is_kept(store: SummaryStore) -> None:
    store.commit([("a", panes(1, 1)), ("b", panes(1, 1))])
    one = store.size_bytes("a")
    assert one > 0
    store.commit([("a", panes(2, 2))])
    assert store.size_bytes("a") > one
    store.drop("a", ends(1, 1)[0])
    store.drop("a", FOREVER[1])
    assert store.size_bytes("a") == 0 < store.size_bytes("b")


def test_what_was_committed_is_there_after_a_restart(reopen: Reopen) -> None:
    store = reopen()
    store.commit([("a", panes(1, 3)), ("b", panes(1, 1))])
    store.commit([("a", panes(2, 2, seed=4))])
    again = reopen()
    assert same(held(again), held(store))
    assert again.aggregations() == ("a", "b")
    assert [c.tolist() for c in again.seen("a", *FOREVER)] == [c.tolist() for c in store.seen("a", *FOREVER)]


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["commit", "commit", "seal", "drop"]), st.integers(1, 12), st.integers(0, 5)), max_size=12
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_history_reads_like_a_dict_of_panes(
    reopen: Reopen, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packs of 4 panes, so that short histories meet every seam."""
    monkeypatch.setattr("precompute.stores.pieces.PACK_PANES", 4)
    store = reopen()
    store.drop("a", FOREVER[1])
    model: dict[int, int] = {}
    for seed, (step, first, more) in enumerate(steps):
        end = ends(first, first)[0]
        if step == "commit":
            store.commit([("a", panes(first, first + more, seed=100 * seed))])
            model |= {e: 100 * seed + i for i, e in enumerate(ends(first, first + more))}
        elif step == "seal":
            store.seal("a", end)
        else:
            store.drop("a", end)
            kept = store.ends("a", *FOREVER).tolist()
            assert set(kept) >= {e for e in model if e > end}
            model = {e: seen for e, seen in model.items() if e in kept}
        for reader in (store, reopen()):
            found, seen, _ = reader.seen("a", *FOREVER)
            assert dict(zip(found.tolist(), seen.tolist(), strict=True)) == dict(sorted(model.items()))
            assert held(reader).seen.tolist() == seen.tolist()
            assert reader.get("a", end - 1, end).seen.tolist() == [model[e] for e in [end] if e in model]


def test_readers_beside_a_writer_see_each_commit_whole(reopen: Reopen) -> None:
    """The writer replaces all panes by those of the next seed, and packs and drops on the way."""
    store, rounds, last = reopen(), 15, 12
    if isinstance(store, PartialStore):
        pytest.skip("partials are whole pane by pane; readers of several shards judge each pane alone")
    store.commit([("a", panes(1, last, seed=0))])
    stop, wrong = threading.Event(), []

    def read() -> None:
        newest = 0
        while not stop.is_set():
            try:
                got = held(store)
                seen = got.seen - np.arange(got.panes)
                expected = panes(1, last, seed=int(seen[0]))
                if not same(got, expected) or seen[0] < newest:
                    wrong.append(f"panes of {seen.tolist()} after {newest}")
                newest = int(seen[0])
            except (StoreError, IndexError, ValueError) as e:
                wrong.append(repr(e))
        connections.close_all()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for seed in range(1, rounds):
        store.commit([("a", panes(1, last, seed=seed * 1000))])
        store.commit([("b", panes(seed, seed))])
        store.drop("b", ends(seed, seed)[0])
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong, wrong[0]


def test_a_commit_that_fails_leaves_everything_as_it_was(
    on_disk: tuple[SummaryStore, str],
) -> None:
    store, alias = on_disk
    store.commit([("a", panes(1, 2)), ("b", panes(1, 1))])
    too_long = "x" * 10_000
    with refusing_long_ids(alias), pytest.raises(StoreError):
        store.commit([("a", panes(1, 3, seed=5)), (too_long, panes(1, 1))])
    assert same(held(store), panes(1, 2))
    assert same(held(DatabaseStore(alias)), panes(1, 2))
    assert store.aggregations() == ("a", "b")
    store.commit([("a", panes(3, 3))])
    assert store.ends("a", *FOREVER).tolist() == ends(1, 3)


@contextmanager
def refusing_long_ids(alias: str) -> Iterator[None]:
    """The database refuses ids over 128 characters; SQLite, where widths do not count, by a trigger."""
    if connections[alias].vendor != "sqlite":
        yield
        return
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON precompute_summarypack WHEN length(NEW.aggregation_id) > 128 "
            "BEGIN SELECT RAISE(ABORT, 'too long'); END"
        )
    try:
        yield
    finally:
        with connections[alias].cursor() as cursor:
            cursor.execute("DROP TRIGGER refuse")


@pytest.mark.parametrize("column", ["blob", "panes"])
def test_damaged_bytes_are_a_gap_from_then_on_and_are_kept_aside(
    on_disk: tuple[SummaryStore, str], column: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, alias = on_disk
    one_by_one(store, "a", 1, 3)
    row = SummaryPack.objects.using(alias).get(last_end_ms=ends(2, 2)[0])
    data = bytearray(getattr(row, column))
    data[len(data) // 2] ^= 4
    SummaryPack.objects.using(alias).filter(pk=row.pk).update(**{column: bytes(data)})
    fresh = CachedStore(DatabaseStore(alias), CACHE_BYTES) if isinstance(store, CachedStore) else store
    with caplog.at_level(logging.ERROR):
        assert same(held(fresh), pack([panes(1, 1), panes(3, 3)]))
    assert "set aside" in caplog.text
    assert fresh.ends("a", *FOREVER).tolist() == [*ends(1, 1), *ends(3, 3)]
    fresh.commit([("a", panes(2, 2))])
    assert same(held(fresh), singles(1, 3))
    assert SummaryPack.objects.using(alias).filter(damaged=True).count() == 1


def test_the_cache_stays_within_its_bytes_and_its_answers_are_the_databases(sqlite_alias: str) -> None:
    SummaryPack.objects.using(sqlite_alias).all().delete()
    database = DatabaseStore(sqlite_alias)
    for max_bytes in (0, 5_000, 10**9):
        store = CachedStore(database, max_bytes)
        store.commit([("a", panes(n, n)) for n in range(1, 40)])
        assert same(held(store), held(database))
        assert store.cache_bytes() <= max_bytes
        store.drop("a", FOREVER[1])
        assert store.cache_bytes() == 0


def test_what_was_just_committed_or_read_is_answered_without_the_database(sqlite_alias: str) -> None:
    SummaryPack.objects.using(sqlite_alias).all().delete()
    store = CachedStore(DatabaseStore(sqlite_alias), 10**9)
    store.commit([("a", panes(n, n)) for n in range(1, 10)])
    again = CachedStore(DatabaseStore(sqlite_alias), 10**9)
    held(again)
    for reader in (store, again):
        with CaptureQueriesContext(connections[sqlite_alias]) as queries:
            assert same(held(reader), singles(1, 9))
            reader.seal("a", FOREVER[1])
            reader.drop("a", 0)
        assert not queries.captured_queries


def test_a_piece_that_two_readers_loaded_counts_once() -> None:
    cache, piece = PieceCache(10**9), panes(1, 1)
    cache.put(7, piece)
    cache.put(7, panes(1, 1))
    assert cache.size_bytes == piece.size_bytes()


def test_a_database_that_is_gone_is_a_store_error(tmp_path: Path, sqlite_alias: str) -> None:
    entry = databases.sqlite(tmp_path)
    with databases.migrated("store_gone", entry) as alias:
        store = DatabaseStore(alias)
        store.commit([("a", panes(1, 1))])
        with connections[alias].cursor() as cursor:
            cursor.execute("DROP TABLE precompute_summarypack")
        with pytest.raises(StoreError, match="database of summaries"):
            held(store)
        with pytest.raises(StoreError):
            store.commit([("a", panes(1, 1))])
