"""What every store of definitions promises (precompute/definitions.py)."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.db import connections

from precompute.definitions import Definition, DefinitionStore, MemoryDefinitions
from precompute.errors import NotKept
from precompute.models import AggregationDefinition
from precompute.stores.definitions import DatabaseDefinitions

Reopen = Callable[[], DefinitionStore]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def reopen(request: pytest.FixtureRequest) -> Reopen:
    """Call it for the store; each further call is a restart on the same data (memory has none to lose)."""
    if request.param == "memory":
        memory = MemoryDefinitions()
        return lambda: memory
    alias = request.getfixturevalue(f"{request.param}_alias")
    AggregationDefinition.objects.using(alias).all().delete()
    return lambda: DatabaseDefinitions(alias)


def definition(name: str, **changed: Any) -> Definition:
    given = {
        "id": name, "expr": 'm{a="\\x00é"}', "labels": ("a", "b\0"), "without": False, "accumulators": ("sum",),
        "width_ms": 15_000, "lookback_ms": 300_000, "retention_ms": 10**14, "origin": "api", "pinned": True,
    }  # fmt: skip
    return Definition(**{**given, **changed})


def put(store: DefinitionStore, *written: Definition) -> None:
    """Whatever was there under their ids."""
    by_id = {one.id: one for one in written}
    assert store.change(by_id, lambda _: by_id) == by_id


def test_it_works(reopen: Reopen) -> None:
    assert reopen().definitions() == ()
    put(reopen(), definition("b"), definition("a", without=True))
    assert reopen().definitions() == (definition("a", without=True), definition("b"))


def test_a_change_sees_what_is_named_replaces_it_and_lets_go_of_what_it_leaves_out(reopen: Reopen) -> None:
    put(reopen(), definition("a"), definition("b"), definition("c"))
    seen: list[Mapping[str, Definition]] = []

    def settle(found: Mapping[str, Definition]) -> Mapping[str, Definition]:
        seen.append(found)
        return {"b": definition("b", pinned=False)}

    assert reopen().change(("a", "b", "none"), settle) == {"b": definition("b", pinned=False)}
    assert seen == [{"a": definition("a"), "b": definition("b")}]
    assert reopen().definitions() == (definition("b", pinned=False), definition("c"))


def test_a_change_that_cannot_be_settled_changes_nothing(reopen: Reopen) -> None:
    put(reopen(), definition("a"))

    def settle(found: Mapping[str, Definition]) -> Mapping[str, Definition]:
        raise NotKept("a")

    with pytest.raises(NotKept):
        reopen().change(["a"], settle)
    assert reopen().definitions() == (definition("a"),)


def test_nobody_changes_what_is_being_changed_even_where_it_is_new(
    request: pytest.FixtureRequest, reopen: Reopen
) -> None:
    """Four count at the same time, from nothing, on several."""
    names, rounds = ("a", "b", "c"), 15

    def counted(found: Mapping[str, Definition]) -> Mapping[str, Definition]:
        zero = definition("", retention_ms=0)
        before = {name: found.get(name, replace(zero, id=name)) for name in names}
        return {name: replace(one, retention_ms=one.retention_ms + 1) for name, one in before.items()}

    def count(which: int) -> None:
        try:
            for _ in range(rounds):
                reopen().change(names[:: 1 if which % 2 else -1], counted)
        finally:
            connections.close_all()

    with request.getfixturevalue("django_db_blocker").unblock(), ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4)))
    assert [one.retention_ms for one in reopen().definitions()] == [4 * rounds] * 3


def test_a_definition_that_cannot_be_read_is_left_out_and_logged(
    sqlite_alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows, store = AggregationDefinition.objects.using(sqlite_alias), DatabaseDefinitions(sqlite_alias)
    rows.all().delete()
    put(store, definition("a"))
    for place, content in enumerate((b"", b"{}", b"[1]", b'{"labels": 1}')):
        rows.create(aggregation_id=f"bad{place}", content=content)
    with caplog.at_level(logging.ERROR):
        assert store.definitions() == (definition("a"),)
    assert all(f"bad{place}" in caplog.text for place in range(4))
