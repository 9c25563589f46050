"""What Grafana's Prometheus data source asks at "save & test" and in Explore: answers of Prometheus' own shape."""

import http.client
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from precompute.clock import SystemClock
from tests.e2e.pair import Pair, pair
from tests.e2e.shop import open_shop
from tests.e2e.talking import posted, seconds
from tests.running import Answer, Program, poll_until

pytestmark = pytest.mark.e2e

DELAYED_ACKNOWLEDGEMENT_S = 0.04
LABELS_OF_DATA = frozenset({"metric", "family"})


@pytest.fixture(scope="module")
def both(prometheus_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with open_shop() as (target, shop), pair(prometheus_binary, tmp_path_factory.mktemp("grafana"), target) as running:
        poll_until(lambda: shop.scrapes > 3, 30, "scrapes of the shop")
        running.await_all(SystemClock().now_ms() - 1000)
        yield running


def shape(value: Any, keys_are_data: bool = False) -> Any:
    """Fields and types of an answer; of a list and of a mapping by names from the data only the first item counts."""
    if isinstance(value, dict):
        items = [("*", v) for v in list(value.values())[:1]] if keys_are_data else value.items()
        return {key: shape(v, key in LABELS_OF_DATA) for key, v in items}
    if isinstance(value, list):
        pair_of_time_and_value = len(value) == 2 and isinstance(value[0], (int, float))
        return [shape(item) for item in (value if pair_of_time_and_value else value[:1])]
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def asked(side: Program, how: str, path: str, **params: Any) -> Answer:
    answer = side.get(path, **params) if how == "GET" else posted(side, path, **params)
    assert answer.status == 200, answer.body[:500]
    assert answer.headers.get("content-type", answer.headers.get("Content-Type", "")).startswith("application/json")
    return answer


def now() -> tuple[int, dict[str, str]]:
    """A recent time, ms, and Explore's window up to it."""
    now_ms = SystemClock().now_ms()
    return now_ms, {"start": seconds(now_ms - 60_000), "end": seconds(now_ms)}


def assert_same_shape(both: Pair, how: str, path: str, **params: Any) -> None:
    ours, theirs = (shape(asked(side, how, path, **params).json()) for side in (both.asap, both.prometheus))
    assert ours == theirs
    assert theirs["data"], "nothing to compare"


@pytest.mark.parametrize("how", ["GET", "POST"])
def test_save_and_test_asks_for_one_plus_one_at_time_four(both: Pair, how: str) -> None:
    ours, theirs = (
        asked(side, how, "/api/v1/query", query="1+1", time=4).json() for side in (both.asap, both.prometheus)
    )
    assert ours == theirs == {"status": "success", "data": {"resultType": "scalar", "result": [4, "2"]}}


def test_build_information_is_prometheus_with_a_version_of_3(both: Pair) -> None:
    ours, theirs = (asked(side, "GET", "/api/v1/status/buildinfo").json() for side in (both.asap, both.prometheus))
    assert ours["data"].keys() >= theirs["data"].keys()
    assert ours["data"]["version"].startswith("3.")


def test_metric_names_for_the_picker(both: Pair) -> None:
    _, window = now()
    assert_same_shape(both, "GET", "/api/v1/label/__name__/values", **window)
    names = asked(both.asap, "GET", "/api/v1/label/__name__/values", **window).json()["data"]
    assert names == sorted(names)
    assert {"up", "shop_temperature_celsius", "asap_head_series"} <= set(names)


@pytest.mark.parametrize("how", ["GET", "POST"])
def test_label_names_of_a_metric(both: Pair, how: str) -> None:
    _, window = now()
    chosen = {"match[]": "shop_temperature_celsius", **window}
    assert_same_shape(both, how, "/api/v1/labels", **chosen)
    labels = asked(both.asap, how, "/api/v1/labels", **chosen).json()["data"]
    assert labels == ["__name__", "floor", "instance", "job", "room", "site"]


def test_metadata_for_the_hints(both: Pair) -> None:
    poll_until(lambda: both.asap.get("/api/v1/metadata").json()["data"], 60, "metadata")
    ours, theirs = (asked(side, "GET", "/api/v1/metadata").json()["data"] for side in (both.asap, both.prometheus))
    assert shape(ours, keys_are_data=True) == shape(theirs, keys_are_data=True)


@pytest.mark.parametrize("how", ["GET", "POST"])
@pytest.mark.parametrize(
    "query", ["up", "sum(rate(shop_requests_total[5s]))", "shop_odd", "1", "absent_metric", "sum(up) > 100"]
)
def test_a_graph_is_a_range_query_with_a_step(both: Pair, how: str, query: str) -> None:
    now_ms, _ = now()
    window = {"start": seconds(now_ms - 4000), "end": seconds(now_ms), "step": "1"}
    ours, theirs = (
        shape(asked(side, how, "/api/v1/query_range", query=query, **window).json())
        for side in (both.asap, both.prometheus)
    )
    assert ours == theirs


@pytest.mark.parametrize("query", ["up", "sum by (job) (up)", "-1.5e10", "'text'", "absent_metric"])
def test_a_table_is_an_instant_query(both: Pair, query: str) -> None:
    now_ms, _ = now()
    params = {"query": query, "time": seconds(now_ms), "timeout": "30s"}
    ours, theirs = (
        shape(asked(side, "POST", "/api/v1/query", **params).json()) for side in (both.asap, both.prometheus)
    )
    assert ours == theirs


@pytest.mark.parametrize("how", ["GET", "POST"])
def test_series_of_several_selectors(both: Pair, how: str) -> None:
    _, window = now()
    chosen = {"match[]": ['up{job="shop"}', "shop_odd"], **window}
    ours, theirs = (
        asked(side, how, "/api/v1/series", **chosen).json()["data"] for side in (both.asap, both.prometheus)
    )
    without_site = [{name: text for name, text in one.items() if name != "site"} for one in ours]
    assert sorted(map(repr, map(sorted, map(dict.items, without_site)))) == sorted(
        map(repr, map(sorted, map(dict.items, theirs)))
    )


@pytest.mark.parametrize(
    ("path", "params", "status", "kind"),
    [
        ("/api/v1/query", {"query": "sum("}, 400, "bad_data"),
        ("/api/v1/query", {"query": "up", "time": "soon"}, 400, "bad_data"),
        ("/api/v1/query_range", {"query": "up", "start": "1", "end": "0", "step": "1"}, 400, "bad_data"),
        ("/api/v1/query_range", {"query": "up", "start": "0", "end": "20000", "step": "1"}, 400, "bad_data"),
        ("/api/v1/series", {}, 400, "bad_data"),
        ("/api/v1/query", {"query": "up / on (site) up{job='shop'}"}, 422, "execution"),
    ],
)
def test_errors_have_prometheus_status_and_type(
    both: Pair, path: str, params: dict[str, str], status: int, kind: str
) -> None:
    for side in (both.asap, both.prometheus):
        answer = posted(side, path, **params)
        assert (answer.status, answer.json()["status"], answer.json()["errorType"]) == (status, "error", kind)
        assert answer.json()["error"]


def test_an_answer_does_not_wait_for_an_acknowledgement(both: Pair) -> None:
    """Over a connection that is kept alive, the last piece of an answer leaves at once.

    If it waited, all but the first would be late; on a busy machine some are anyway.
    """
    took_s = []
    with closing(http.client.HTTPConnection(urllib.parse.urlsplit(both.asap.url).netloc, timeout=30)) as connection:
        for _ in range(15):
            begun_s = time.perf_counter()
            connection.request("GET", "/api/v1/query?query=1")
            connection.getresponse().read()
            took_s.append(time.perf_counter() - begun_s)
    assert min(took_s[1:]) < DELAYED_ACKNOWLEDGEMENT_S / 2
