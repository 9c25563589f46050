"""A session of Grafana, replayed against us and a real Prometheus that hold the same samples: the same answers.

Whole answers are compared, field by field and value by value, where both must say the same; else their shape.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from precompute.clock import SystemClock
from tests.e2e.grafana import Request, browsed, opened, panel, save_and_test
from tests.e2e.pair import Pair
from tests.e2e.talking import named, write
from tests.e2e.test_grafana_start import shape
from tests.running import Answer, Program, asap, prometheus

pytestmark = pytest.mark.e2e

SAMPLES = 60
INTERVAL_MS = 15_000
PLACE_MS = 137
"""No sample is on the edge of a range: queries are at whole seconds or half ones."""

BOUNDS = ("0.1", "1", "+Inf")
QUERIES = (
    "up",
    "sum(rate(http_requests_total[1m]))",
    'sum by (code, instance) (rate(http_requests_total{code=~"2..|5.."}[2m]))',
    "histogram_quantile(0.9, sum by (le) (rate(latency_seconds_bucket[5m])))",
    "temperature",
    "temperature > 20",
    "absent(no_such_metric)",
    "no_such_metric",
    "time()",
    "1.5e-9",
    "scalar(sum(up))",
    "topk(1, temperature{room='r2'})",
    "label_replace(up, 'host', '$1', 'instance', '(.*):.*')",
    "sum by (instance) (up) / on (instance) group_left (job) up",
)
REFUSED = (
    "sum(",
    "up + on (job) up",
    "rate(up)",
    "up[5m",
    "foo(up)",
    "",
)
GET_ONLY = (
    "label/job/values", "metadata", "rules", "alerts", "status/buildinfo", "status/config", "status/flags",
    "status/runtimeinfo", "status/tsdb",
)  # fmt: skip


@pytest.fixture(scope="module")
def both(prometheus_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both, with fifteen minutes of samples up to half a minute ago, taken in by the same remote write."""
    folder = tmp_path_factory.mktemp("replay")
    with (
        asap(folder / "asap") as ours,
        prometheus(
            prometheus_binary, folder / "prometheus", "global: {}\n", "--web.enable-remote-write-receiver"
        ) as theirs,
    ):
        for side in (ours, theirs):
            assert write(side, _series(), timeout_s=30).status == 204
        yield Pair(ours, theirs)


@pytest.fixture(scope="module")
def now_ms(both: Pair) -> int:
    """The end of the session's time range: half a second past a whole one."""
    return SystemClock().now_ms() // 1000 * 1000 - 30_500


def _series() -> list[tuple[Any, Any]]:
    end_ms = SystemClock().now_ms() // 1000 * 1000 - 30_000 + PLACE_MS
    times = [end_ms - INTERVAL_MS * k for k in reversed(range(SAMPLES))]
    out = []
    for k in range(3):
        target = {"job": "shop", "instance": f"shop-{k}:9090"}
        out.append((named("up", **target), [(t, 1.0 if k else 0.0) for t in times]))
        for code in ("200", "404", "500"):
            counted = [(t, float(n * (k + 1))) for n, t in enumerate(times)]
            out.append((named("http_requests_total", code=code, **target), counted))
        for b, bound in enumerate(BOUNDS):
            out.append(
                (named("latency_seconds_bucket", le=bound, **target), [(t, n * (b + 1.0)) for n, t in enumerate(times)])
            )
    for k, value in enumerate((18.25, float("nan"), float("inf"), -1e-7, 1e21)):
        out.append((named("temperature", room=f"r{k}", note='with "quotes" and é'), [(t, value) for t in times]))
    return out


def body(answer: Answer) -> Any:
    """The answer's JSON, an instant vector in order of its labels: Prometheus gives it in any."""
    parsed = answer.json() if answer.body else {}
    data = parsed.get("data")
    if isinstance(data, dict) and data.get("resultType") == "vector":
        data["result"].sort(key=lambda row: sorted(row["metric"].items()))
    return parsed


def assert_same(both: Pair, request: Request) -> None:
    ours, theirs = (request.asked(side) for side in (both.asap, both.prometheus))
    assert ours.status == theirs.status, f"{request}: {ours.body[:300]!r} here, {theirs.body[:300]!r} there"
    assert content_type(ours) == content_type(theirs) == ("application/json" if theirs.body else "")
    assert body(ours) == body(theirs), str(request)


def content_type(answer: Answer) -> str:
    return {name.lower(): text for name, text in answer.headers.items()}.get("content-type", "")


def test_save_and_test(both: Pair) -> None:
    health, build = save_and_test()
    assert_same(both, health)
    ours, theirs = (build.asked(side).json() for side in (both.asap, both.prometheus))
    assert shape(theirs) == shape({**ours, "data": {key: ours["data"][key] for key in theirs["data"]}})
    assert not ours["data"].get("features"), "features would make Grafana take it for Mimir"


def test_a_data_source_is_opened(both: Pair, now_ms: int) -> None:
    for request in opened(now_ms):
        assert_same(both, request)
        assert request.asked(both.asap).status == 200


@pytest.mark.parametrize(
    ("selector", "label"),
    [("http_requests_total", "code"), ('{job="shop",code=~".+"}', "instance"), ("temperature", "note")],
)
def test_names_and_values_are_browsed(both: Pair, now_ms: int, selector: str, label: str) -> None:
    for request in browsed(now_ms, selector, label):
        assert_same(both, request)


@pytest.mark.parametrize("query", QUERIES)
def test_a_panel_of(both: Pair, now_ms: int, query: str) -> None:
    for step_s in (15, 0.5):
        for request in panel(now_ms, query, step_s):
            assert_same(both, request)


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_refused_is_refused_with_prometheus_status_and_type_by_post_and_by_get(
    both: Pair, now_ms: int, query: str
) -> None:
    for request in panel(now_ms, query)[:2]:
        for sent in (request, request.as_get()):
            ours, theirs = (sent.send(side) for side in (both.asap, both.prometheus))
            kinds = [(answer.status, answer.json()["status"], answer.json()["errorType"]) for answer in (ours, theirs)]
            assert kinds[0] == kinds[1]
            assert ours.json().keys() == theirs.json().keys()


@pytest.mark.parametrize("path", GET_ONLY)
def test_what_is_for_get_alone_sends_grafana_from_post_to_get(both: Pair, path: str) -> None:
    """A POST there is answered with 405, as by Prometheus, and the same by GET with 200."""
    request = Request(path, "url", f"/api/v1/{path}")
    assert [request.send(side).status for side in (both.asap, both.prometheus)] == [405, 405]
    assert [request.asked(side).status for side in (both.asap, both.prometheus)] == [200, 200]


def test_the_kind_of_a_result_comes_before_the_result(both: Pair, now_ms: int) -> None:
    """Grafana's parser reads the body as a stream, and decides by the kind how to read what follows."""
    for request in panel(now_ms, "up")[:2]:
        text = request.send(both.asap).body
        assert 0 <= text.index(b'"status"') < text.index(b'"resultType"') < text.index(b'"result":')


def test_what_alerting_and_its_lists_ask_for(both: Pair) -> None:
    for path in ("rules", "rules?type=alert", "rules?type=record", "alerts"):
        assert_same(both, Request(path, "get", f"/api/v1/{path}"))


@pytest.mark.parametrize("query", ["sum(up)by(job)", "rate( up [5m]  offset 1m )", "up{a='b'}  >bool 1"])
def test_a_query_is_formatted_alike(both: Pair, query: str) -> None:
    for how in ("get", "form"):
        assert_same(both, Request("format", how, "/api/v1/format_query", [("query", query)]))


@pytest.mark.parametrize("path", ["status/runtimeinfo", "status/flags", "status/config", "status/tsdb"])
def test_the_pages_of_the_status_have_prometheus_shape(both: Pair, path: str) -> None:
    ours, theirs = (_status(side, path) for side in (both.asap, both.prometheus))
    if path == "status/flags":
        assert {type(value) for value in ours.values()} == {type(value) for value in theirs.values()} == {str}
    else:
        assert not theirs.keys() - ours.keys()
        assert {key: shape(ours[key]) for key in theirs} == {key: shape(theirs[key]) for key in theirs}


def _status(side: Program, path: str) -> dict[str, Any]:
    answer = side.get(f"/api/v1/{path}")
    assert answer.status == 200, answer.body[:300]
    data: dict[str, Any] = json.loads(answer.body)["data"]
    return data
