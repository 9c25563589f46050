"""How many connections to PostgreSQL a process has: however many threads ask."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections

from asap_project.config import Config
from asap_project.database import database
from asap_project.postgresql import places
from asap_project.postgresql.places import NoPlace, Places
from precompute.stores.base import StoreError
from precompute.stores.database import DatabaseStore
from precompute.stores.definitions import DatabaseDefinitions
from tests.precompute.made_summaries import ends, summary
from tests.precompute.stores import databases
from tests.running import poll_until
from tests.servers import PostgreSQLServer, postgresql_server

THREADS, MOST = 60, 6
WAIT_S = 60.0


@pytest.fixture
def served(django_db_blocker: Any) -> Iterator[tuple[PostgreSQLServer, str]]:
    """A server of the test's own, and what Django calls its database."""
    with (
        django_db_blocker.unblock(),
        postgresql_server() as server,
        databases.migrated("counted", database(Config(database={"url": server.url()}))) as alias,
    ):
        connections[alias].close()
        yield server, alias


def at_once(ask: Callable[[], Any]) -> list[Any]:
    """What many threads are answered that live on, as a server's do; texts of StoreErrors among it."""
    found, done, all_told = list[Any](), threading.Semaphore(0), threading.Event()

    def one() -> None:
        try:
            found.append(ask())
        except StoreError as error:
            found.append(str(error))
        done.release()
        all_told.wait(WAIT_S)

    threads = [threading.Thread(target=one) for _ in range(THREADS)]
    try:
        for thread in threads:
            thread.start()
        assert all(done.acquire(timeout=WAIT_S) for _ in threads)
        return found
    finally:
        all_told.set()
        for thread in threads:
            thread.join()


def connected(alias: str) -> int:
    """Clients of the server, but for this one."""
    others = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {others}")
        (count,) = cursor.fetchone()
    return int(count)


def most_seen(alias: str, over: threading.Event) -> int:
    seen = 0
    while not over.wait(0.01):
        seen = max(seen, connected(alias))
    return seen


def test_many_threads_share_few_connections_and_give_them_back(served: tuple[PostgreSQLServer, str]) -> None:
    _, alias = served
    store, definitions = DatabaseStore(alias), DatabaseDefinitions(alias)
    store.insert("a", summary(ends(1, 60), accumulators=("sum",)))
    (row,) = [ref.row for ref in store.refs()]
    over, seen = threading.Event(), list[int]()

    def ask() -> tuple[int, int, int]:
        return store.load([row])[row].panes, len(definitions.definitions()), int(store.size_bytes("a") > 0)

    counts = threading.Thread(target=lambda: (seen.append(most_seen(alias, over)), connections[alias].close()))
    counts.start()
    try:
        assert at_once(ask) == [(60, 0, 1)] * THREADS
    finally:
        over.set()
        counts.join()
    assert 0 < seen[0] <= 2 * MOST  # the server counts those that are just ending, too
    poll_until(lambda: not connected(alias), WAIT_S, "all were given back")


def test_what_is_asked_together_takes_one_connection(served: tuple[PostgreSQLServer, str]) -> None:
    _, alias = served
    store = DatabaseStore(alias)
    with store.together():
        first = connections[alias].connection
        store.refs()
        store.insert("a", summary(ends(1, 60), accumulators=("sum",)))
        assert connections[alias].connection is first is not None
    assert connections[alias].connection is None


def test_who_finds_no_place_in_time_is_told_so(
    served: tuple[PostgreSQLServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, alias = served
    monkeypatch.setattr(places, "WAIT_S", 0.2)
    room = connections[alias]._places
    taken = [room.take() for _ in range(MOST)]
    with pytest.raises(StoreError, match="all 6 connections of this process were in use"):
        DatabaseStore(alias).refs()
    room.leave(taken.pop(), failed=False)
    assert DatabaseStore(alias).refs() == []


def test_when_a_silent_server_fails_one_all_who_wait_for_a_place_are_told(
    served: tuple[PostgreSQLServer, str],
) -> None:
    server, alias = served
    with server.paused():
        began_s = time.monotonic()
        found = at_once(DatabaseStore(alias).refs)
        took_s = time.monotonic() - began_s
        gc.collect()  # else some sockets stay open for a while, and the server does not end
    assert all("the database of summaries failed" in str(error) for error in found)
    assert took_s < 20, "not one after the other"


def test_a_place_that_is_forgotten_is_free() -> None:
    room = Places(1)
    place = room.take()
    del place
    room.leave(room.take(), failed=False)


def test_a_failure_before_somebody_waits_is_not_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WAIT_S", 0.0)
    room = Places(1)
    room.leave(room.take(), failed=True)
    held = room.take()
    with pytest.raises(NoPlace, match="in use"):
        room.take()
    room.leave(held, failed=False)
