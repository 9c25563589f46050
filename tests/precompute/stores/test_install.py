"""An install begins once: whoever finds its logs missing later does not take it for a new one."""

from pathlib import Path
from typing import Any

from precompute.stores.definitions import DatabaseInstall
from tests.precompute.stores import databases

NOW_MS = 1_764_500_000_000


def test_an_install_is_new_until_it_has_begun_and_for_those_who_start_with_it(
    django_db_blocker: Any, tmp_path: Path
) -> None:
    with django_db_blocker.unblock(), databases.migrated("install", databases.sqlite(tmp_path)) as using:
        one, other = DatabaseInstall(using), DatabaseInstall(using)
        assert one.is_new(NOW_MS) and other.is_new(NOW_MS)
        one.begin(NOW_MS)
        assert other.is_new(NOW_MS + 10_000)
        other.begin(NOW_MS + 10_000)
        assert not one.is_new(NOW_MS + 60_000)
        one.begin(NOW_MS + 120_000)
        assert not one.is_new(NOW_MS + 120_000)


def test_a_database_is_the_single_nodes_that_claims_it_first(django_db_blocker: Any, tmp_path: Path) -> None:
    with django_db_blocker.unblock(), databases.migrated("claimed", databases.sqlite(tmp_path)) as using:
        one, other = DatabaseInstall(using), DatabaseInstall(using)
        assert [one.claim("a"), other.claim("b"), one.claim("a")] == ["a", "a", "a"]
        assert one.is_new(NOW_MS), "of a cluster it says nothing"
