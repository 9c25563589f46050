"""Which series there are, by matchers and by time."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from precompute.errors import TimedOut
from precompute.evaluate.expr import Matcher
from precompute.metadata import Family
from precompute.selection import Check
from query.series import ALWAYS, MatcherSet, Newest, SeriesQueries
from tests.query.served import NOW_MS, Served, served

UP_A = {"__name__": "up", "job": "a"}
UP_B = {"__name__": "up", "job": "b", "zone": "é"}
LOAD = {"__name__": "load", "host": "h1"}
UP = (Matcher("__name__", "=", "up"),)
NO_ZONE = (Matcher("zone", "=", ""), Matcher("__name__", "=", "up"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as node:
        node.write(UP_A, [(NOW_MS - 1000 * k, 1.0) for k in range(200, 100, -1)])
        node.write(UP_B, [(NOW_MS - 50_000, 1.0), (NOW_MS - 10_000, 1.0)])
        node.write(LOAD, [(NOW_MS, 0.5)])
        yield node


@pytest.fixture
def series(node: Served) -> SeriesQueries:
    return node.parts.series


def test_it_works(series: SeriesQueries) -> None:
    assert series.names((), *ALWAYS) == ["__name__", "host", "job", "zone"]
    assert series.values("job", (), *ALWAYS) == ["a", "b"]
    assert series.series((UP,), *ALWAYS) == [tuple(sorted(UP_A.items())), tuple(sorted(UP_B.items()))]


def test_matchers_narrow_and_sets_of_them_widen(series: SeriesQueries) -> None:
    load = (Matcher("__name__", "=~", "lo.*"),)
    assert series.names((NO_ZONE,), *ALWAYS) == ["__name__", "job"]
    assert series.names((load, NO_ZONE, load), *ALWAYS) == ["__name__", "host", "job"]
    assert series.values("__name__", (load, UP), *ALWAYS) == ["load", "up"]
    assert series.series(((Matcher("job", "=", "none"),),), *ALWAYS) == []


def test_whatever_is_listed_ends_when_its_time_is_over(series: SeriesQueries) -> None:
    sets = (UP, (Matcher("__name__", "=~", ".*"),))

    def over() -> None:
        raise TimedOut("over")

    for ask in (series.names, series.series, partial(series.values, "job"), partial(_newest, series)):
        with pytest.raises(TimedOut):
            ask(sets, *ALWAYS, over)


def _newest(series: SeriesQueries, sets: tuple[MatcherSet, ...], _: int, __: int, check: Check) -> Newest:
    return series.newest(sets, NOW_MS, 300_000, 1000, check)


def test_a_label_that_nobody_has_has_no_values(series: SeriesQueries) -> None:
    assert series.values("none", (), *ALWAYS) == []


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "jobs"),
    [
        (NOW_MS - 300_000, NOW_MS, ["a", "b"]),
        (NOW_MS - 300_000, NOW_MS - 200_000, ["a"]),
        (NOW_MS - 300_000, NOW_MS - 200_001, []),
        (NOW_MS - 150_500, NOW_MS - 150_400, []),
        (NOW_MS - 150_000, NOW_MS - 150_000, ["a"]),
        (NOW_MS - 101_000, NOW_MS - 50_000, ["a", "b"]),
        (NOW_MS - 100_999, NOW_MS - 50_001, []),
        (NOW_MS - 40_000, NOW_MS - 20_000, []),
        (NOW_MS - 10_000, NOW_MS, ["b"]),
        (NOW_MS, NOW_MS - 300_000, []),
    ],
)
def test_a_series_counts_where_it_has_a_sample_both_ends_included(
    series: SeriesQueries, start_ms: int, end_ms: int, jobs: list[str]
) -> None:
    assert series.values("job", (UP,), start_ms, end_ms) == jobs


def test_a_series_that_is_known_but_holds_no_sample_does_not_count(node: Served) -> None:
    node.node.head.table.intern((("__name__", "empty"),))
    assert "empty" not in node.parts.series.values("__name__", (), *ALWAYS)


def test_metadata_is_of_all_families_or_of_one(node: Served) -> None:
    up, total = Family("gauge", "Whether it is up.", ""), Family("counter", "How many.", "s")
    node.metadata.note([("up", up), ("c_total", total)])
    assert list(node.parts.series.metadata()) == ["c_total", "up"]
    assert [one.help for one in node.parts.series.metadata("up")["up"]] == ["Whether it is up."]
    assert node.parts.series.metadata("none") == {}
