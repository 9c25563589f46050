"""What every store of definitions promises (precompute/definitions.py)."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from precompute.definitions import Definition, DefinitionStore, MemoryDefinitions
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


def test_it_works(reopen: Reopen) -> None:
    assert reopen().definitions() == ()
    reopen().save([definition("b"), definition("a", without=True)], [])
    assert reopen().definitions() == (definition("a", without=True), definition("b"))


def test_what_is_saved_replaces_what_has_its_id_and_what_is_gone_is_forgotten(reopen: Reopen) -> None:
    reopen().save([definition("a"), definition("b"), definition("c")], [])
    reopen().save([definition("b", pinned=False)], ["a", "none"])
    assert reopen().definitions() == (definition("b", pinned=False), definition("c"))


def test_a_definition_that_cannot_be_read_is_left_out_and_logged(
    sqlite_alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows, store = AggregationDefinition.objects.using(sqlite_alias), DatabaseDefinitions(sqlite_alias)
    rows.all().delete()
    store.save([definition("a")], [])
    for place, content in enumerate((b"", b"{}", b"[1]", b'{"labels": 1}')):
        rows.create(aggregation_id=f"bad{place}", content=content)
    with caplog.at_level(logging.ERROR):
        assert store.definitions() == (definition("a"),)
    assert all(f"bad{place}" in caplog.text for place in range(4))
