"""The Prometheus HTTP API over a real node."""

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from django.apps import apps
from django.http import HttpResponse
from django.test import Client, RequestFactory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from query.api.lists import unescaped
from query.api.views import internal_error
from tests.ports import free_port
from tests.query.answering import Server, answering
from tests.query.api.asking import data, error, get, heard
from tests.query.served import NOW_S, Served, served

pytestmark = pytest.mark.urls("query.urls")

PATHS = (
    "query", "query_range", "labels", "label/U__a/values", "series", "metadata", "rules", "alerts", "query_exemplars",
    "format_query", "parse_query", "status/tsdb", "status/flags",
)  # fmt: skip
PARAMETERS = (
    "query", "time", "start", "end", "step", "timeout", "limit", "match[]", "metric", "lookback_delta", "type",
    "group_limit", "limit_per_metric",
)  # fmt: skip
RANGE = {"query": "up", "start": NOW_S - 30, "end": NOW_S, "step": 15}


def test_it_works(node: Served, client: Client) -> None:
    response = get(client, "/api/v1/query", query="sum(up)", time=NOW_S)
    assert data(response) == {"resultType": "vector", "result": [{"metric": {}, "value": [NOW_S, "1"]}]}
    assert response.headers["X-ASAP-Tier"] == "head"
    assert response.headers["X-ASAP-Bound"].startswith("exact")
    assert node.count("asap_query_requests_total", endpoint="query", code="200") == 1
    assert node.count("asap_query_tier_total", tier="head") == 1
    assert node.count("asap_query_seconds_count", endpoint="query") == 1


def test_a_query_without_a_time_is_asked_for_now(node: Served, client: Client) -> None:
    assert data(get(client, "/api/v1/query", query="1"))["result"] == [NOW_S, "1"]


def test_a_range_query_answers_with_a_matrix_in_order_of_labels(node: Served, client: Client) -> None:
    result = data(get(client, "/api/v1/query_range", **RANGE))["result"]
    assert [series["metric"]["job"] for series in result] == ["a", "b"]
    assert result[0]["values"] == [[NOW_S - 30, "1"], [NOW_S - 15, "1"], [NOW_S, "1"]]


@pytest.mark.parametrize("path", ["query", "query_range", "labels", "series"])
def test_a_form_is_read_and_goes_before_the_url(node: Served, client: Client, path: str) -> None:
    form = {**RANGE, "time": NOW_S, "match[]": "up"}
    sent = client.post(f"/api/v1/{path}?query=sum(&start=x&limit=1", form)
    asked = get(client, f"/api/v1/{path}", **form, limit=1)
    assert data(cast(HttpResponse, sent)) == data(asked)
    urlencoded = client.post(
        f"/api/v1/{path}?limit=1", "&".join(f"{k}={v}" for k, v in form.items()), "application/x-www-form-urlencoded"
    )
    assert data(cast(HttpResponse, urlencoded)) == data(asked)


def test_scalars_and_strings_have_their_own_types(node: Served, client: Client) -> None:
    assert data(get(client, "/api/v1/query", query="1+1", time=0)) == {"resultType": "scalar", "result": [0, "2"]}
    assert data(get(client, "/api/v1/query", query='"é"', time=0)) == {"resultType": "string", "result": [0, "é"]}
    assert data(get(client, "/api/v1/query_range", **{**RANGE, "query": "1"}))["result"][0]["metric"] == {}


@pytest.mark.parametrize(
    ("path", "params", "expected"),
    [
        (
            "query",
            {"query": "up", "time": "x"},
            (
                400,
                "bad_data",
                'invalid parameter "time": invalid time value for \'time\': cannot parse "x" to a valid timestamp',
            ),
        ),
        ("query", {}, (400, "bad_data", 'invalid parameter "query": parse error: no expression found in input')),
        (
            "query",
            {"query": 'up{a=~"("}'},
            (400, "bad_data", 'invalid parameter "query": error parsing regexp: missing ): ('),
        ),
        (
            "query_range",
            {**RANGE, "step": 0},
            (
                400,
                "bad_data",
                'invalid parameter "step": zero or negative query '
                "resolution step widths are not accepted. Try a positive integer",
            ),
        ),
        (
            "query_range",
            {**RANGE, "query": '"s"'},
            (
                400,
                "bad_data",
                'invalid parameter "query": invalid expression type '
                '"string" for range query, must be Scalar or instant Vector',
            ),
        ),
        ("query", {"query": "start_timestamp(x)"}, (422, "execution", "the function start_timestamp is not supported")),
        ("query", {"query": "(" * 200}, (422, "execution", "the query is nested deeper than 100 levels")),
        ("query", {"query": "up" * 40_000}, (422, "execution", "the query has 80000 characters; the limit is 65536")),
        ("series", {}, (400, "bad_data", "no match[] parameter provided")),
        ("labels", {"match[]": "up["}, (400, "bad_data", "parse error: unexpected end of input inside brackets")),
        (
            "labels",
            {"limit": "x"},
            (400, "bad_data", 'invalid parameter "limit": strconv.Atoi: parsing "x": invalid syntax'),
        ),
        ("none", {}, (404, "not_found", "there is no /api/v1/none here")),
        ("label/a/b/values", {}, (404, "not_found", "there is no /api/v1/label/a/b/values here")),
    ],
)
def test_errors_are_prometheus_own(
    node: Served, client: Client, path: str, params: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    assert error(get(client, f"/api/v1/{path}", **params)) == expected


@pytest.mark.parametrize(("path", "method"), [("query", "put"), ("query_range", "delete"), ("metadata", "post")])
def test_other_methods_are_not_allowed(node: Served, client: Client, path: str, method: str) -> None:
    response = getattr(client, method)(f"/api/v1/{path}")
    assert response.status_code == 405
    assert "GET" in response.headers["Allow"]


@pytest.mark.parametrize("path", ["/api/v1/query", "/api/v1/labels", "/-/ready", "/-/healthy", "/metrics"])
def test_before_the_node_has_started_nothing_is_answered(client: Client, path: str) -> None:
    response = get(client, path, query="up")
    assert (response.status_code, b"starting" in response.content) == (503, True)


def test_while_the_head_is_rebuilt_nothing_is_answered(
    node: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilding = dataclasses.replace(node.parts, ready=lambda: "the head is being rebuilt")
    monkeypatch.setattr(apps.get_app_config("query"), "parts", rebuilding)
    assert error(get(client, "/api/v1/query", query="up")) == (503, "unavailable", "the head is being rebuilt")
    assert get(client, "/-/ready").status_code == 503
    assert get(client, "/-/healthy").status_code == 200


def test_labels_values_series_and_metadata_are_listed(node: Served, client: Client) -> None:
    assert data(get(client, "/api/v1/labels")) == ["__name__", "job", "zone"]
    assert data(get(client, "/api/v1/label/job/values")) == ["a", "b"]
    assert data(get(client, "/api/v1/label/none/values")) == []
    assert data(get(client, "/api/v1/series", **{"match[]": 'up{job="a"}'})) == [
        {"__name__": "up", "job": "a", "zone": "é"}
    ]
    expected = {"up": [{"type": "gauge", "help": "Whether it is up.", "unit": ""}]}
    assert data(get(client, "/api/v1/metadata")) == data(get(client, "/api/v1/metadata", metric="up")) == expected
    assert data(get(client, "/api/v1/metadata", metric="none")) == {}
    assert data(get(client, "/api/v1/metadata", limit=0)) == {}
    assert data(get(client, "/api/v1/metadata", limit=-1, limit_per_metric=0)) == expected


def test_lists_are_narrowed_by_time_and_match(node: Served, client: Client) -> None:
    later = {"start": NOW_S + 1, "end": NOW_S + 2}
    assert data(get(client, "/api/v1/labels", **later)) == []
    assert data(get(client, "/api/v1/label/job/values", **{"match[]": ['{job="b"}', '{job="none"}']})) == ["b"]


def test_a_query_may_have_a_lookback_of_its_own(node: Served, client: Client) -> None:
    later = {"query": "count(up)", "time": NOW_S + 20}
    assert len(data(get(client, "/api/v1/query", **later))["result"]) == 1
    assert data(get(client, "/api/v1/query", **later, lookback_delta="20s"))["result"] == []
    assert len(data(get(client, "/api/v1/query", **later, lookback_delta="21s"))["result"]) == 1
    ranged = {**RANGE, "end": NOW_S + 60, "lookback_delta": "16s"}
    assert [t for t, _ in data(get(client, "/api/v1/query_range", **ranged))["result"][0]["values"]] == [
        NOW_S - 30, NOW_S - 15, NOW_S, NOW_S + 15
    ]  # fmt: skip


def test_whatever_a_client_accepts_it_gets_json(node: Served, client: Client) -> None:
    for path in ("labels", "status/buildinfo", "rules"):
        response = client.get(f"/api/v1/{path}", headers={"accept": "text/html"})
        assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")


def test_a_limit_says_that_it_has_cut_off(node: Served, client: Client) -> None:
    for path, params in (("labels", {}), ("label/job/values", {}), ("series", {"match[]": "up"})):
        body = json.loads(get(client, f"/api/v1/{path}", **params, limit=1).content)
        assert (len(body["data"]), body["warnings"]) == (1, ["results truncated due to limit"])


@pytest.mark.parametrize(
    ("path", "name"),
    [("job", "job"), ("U__http_2e_status", "http.status"), ("U__a__b", "a_b"), ("U___1F600_", "😀"),
     ("U__a_b", "U__a_b"), ("U___D800_", "U___D800_"), ("U__a-b", "U__a-b"), ("U___1234567_", "U___1234567_")],
)  # fmt: skip
def test_a_label_name_in_a_path_may_be_escaped(path: str, name: str) -> None:
    assert unescaped(path) == name


def test_pages_beside_the_api(node: Served, client: Client) -> None:
    assert get(client, "/-/ready").content == b"ASAP is ready.\n"
    assert get(client, "/-/healthy").content == b"ASAP is healthy.\n"
    assert client.head("/-/healthy").status_code == 200
    get(client, "/api/v1/labels")
    assert b'asap_query_requests_total{code="200",endpoint="labels"} 1.0' in get(client, "/metrics").content
    page = get(client, "/")
    assert page.headers["Content-Type"].startswith("text/html")
    assert b"/api/v1/query?query=up" in page.content


def test_health_is_that_of_the_ticks(node: Served, client: Client) -> None:
    node.clock.advance(61_000)
    response = get(client, "/-/healthy")
    assert (response.status_code, b"tick" in response.content) == (503, True)


def test_a_query_that_finds_no_place_in_time_times_out(
    node: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, release = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        with node.parts.slots.taken(1000):
            held.release()
            release.wait(120)

    holders = [threading.Thread(target=hold) for _ in range(2)]
    for holder in holders:
        holder.start()
        held.acquire()
    response = get(client, "/api/v1/query", query="up", timeout="10ms")
    assert error(response) == (503, "timeout", "query timed out in query queue")
    monkeypatch.setattr(apps.get_app_config("query"), "parts", dataclasses.replace(node.parts, timeout_ms=10))
    for path in ("labels", "label/job/values", "series"):
        response = get(client, f"/api/v1/{path}", **{"match[]": "up"})
        assert error(response) == (503, "timeout", "query timed out in query queue")
    release.set()
    for holder in holders:
        holder.join()
    assert get(client, "/api/v1/query", query="up").status_code == 200


def test_a_form_that_is_too_large_or_broken_is_refused(node: Served, client: Client) -> None:
    for body, kind in (
        ("query=" + "x" * (1 << 20), "application/x-www-form-urlencoded"),
        ("no boundary", "multipart/form-data"),
        ("x", "multipart/form-data; boundary="),
        ("&".join(f"a{k}" for k in range(20_000)), "application/x-www-form-urlencoded"),
    ):
        response = cast(HttpResponse, client.post("/api/v1/query", body, content_type=kind))
        status, kind, text = error(response)
        assert (status, kind, text.startswith("error parsing form values: ")) == (400, "bad_data", True)


def test_a_defect_of_ours_is_told_without_its_trace() -> None:
    response = internal_error(RequestFactory().get("/api/v1/query"))
    assert error(response) == (500, "internal", "an unexpected error; the log has more")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(PATHS),
    st.dictionaries(
        st.sampled_from(PARAMETERS),
        st.one_of(st.text(max_size=12), st.floats().map(str), st.sampled_from(["up", "up[5m]", "-up", "{}", "1e18"])),
    ),
    st.booleans(),
)
def test_no_parameters_end_in_a_defect(
    node: Served, client: Client, path: str, params: dict[str, str], post: bool
) -> None:
    send = client.post if post else client.get
    assert send(f"/api/v1/{path}", params).status_code in (200, 204, 400, 405, 422)


# -- with an upstream


def test_what_we_cannot_answer_the_upstream_does(proxy: Served, behind: Server, client: Client) -> None:
    behind.reply = answering(422, b'{"status":"error"}', Content_Type="application/json; v=1")
    response = client.get(
        "/api/v1/query", {"query": "rate(up[5m:1m])", "time": NOW_S}, headers={"authorization": "Bearer t"}
    )
    assert (response.status_code, response.content) == (422, b'{"status":"error"}')
    assert response.headers["Content-Type"] == "application/json; v=1"
    assert response.headers["X-ASAP-Tier"] == "upstream"
    method, path, form, headers = next(asked for asked in behind.asked if asked[1] == "/api/v1/query")
    assert (method, path, form["query"], form["time"]) == ("POST", "/api/v1/query", ["rate(up[5m:1m])"], [str(NOW_S)])
    assert headers["Authorization"] == "Bearer t"
    assert proxy.count("asap_query_tier_total", tier="upstream") == 1


def test_an_upstream_that_is_down_is_named(proxy: Served, client: Client, tmp_path: Path, monkeypatch: Any) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with served(tmp_path / "other", prometheus_server=url) as node:
        monkeypatch.setattr(apps.get_app_config("query"), "parts", node.parts)
        response = get(client, "/api/v1/query", query="rate(up[5m:1m])")
        assert error(response) == (503, "unavailable", f"the upstream {url} cannot be asked: Connection refused")
        body = json.loads(get(client, "/api/v1/labels").content)
        assert body["data"] == []
        assert "only what was received here" in body["warnings"][0]


@pytest.mark.parametrize(
    ("path", "theirs", "both"),
    [
        ("labels", ["instance", "job"], ["__name__", "instance", "job", "zone"]),
        ("label/job/values", ["a", "node"], ["a", "b", "node"]),
        (
            "series",
            [{"job": "b", "__name__": "up", "zone": "é"}, {"__name__": "down"}],
            [{"__name__": "down"}, *({"__name__": "up", "job": job, "zone": "é"} for job in "ab")],
        ),
        (
            "metadata",
            {
                "up": [{"type": "gauge", "help": "Whether it is up.", "unit": ""}],
                "x": [{"type": "t", "help": "h", "unit": ""}],
            },
            {
                "up": [{"type": "gauge", "help": "Whether it is up.", "unit": ""}],
                "x": [{"type": "t", "help": "h", "unit": ""}],
            },
        ),
    ],
)
def test_lists_are_ours_and_theirs(
    proxy: Served, behind: Server, client: Client, path: str, theirs: Any, both: Any
) -> None:
    behind.reply = answering(200, json.dumps({"status": "success", "data": theirs, "warnings": ["slow"]}).encode())
    response = get(client, f"/api/v1/{path}", **{"match[]": ["up", "down", "x"]})
    assert data(response) == both
    assert json.loads(response.content)["warnings"] == ["slow"]
    method, form = heard(behind, path)
    assert (method, form["match[]"]) == ("GET", ["up", "down", "x"])


def test_a_joined_list_keeps_to_the_interval_and_the_limit(proxy: Served, behind: Server, client: Client) -> None:
    theirs = {"status": "success", "data": ["a", "zone"], "warnings": ["results truncated due to limit"]}
    behind.reply = answering(200, json.dumps(theirs).encode())
    asked = {"start": NOW_S + 1, "end": NOW_S + 2, "limit": 2}
    response = get(client, "/api/v1/labels", **asked)
    assert data(response) == ["a", "zone"]
    assert heard(behind, "labels") == ("GET", {name: [str(value)] for name, value in asked.items()})
    response = get(client, "/api/v1/labels", limit=3)
    assert data(response) == ["__name__", "a", "job"]
    assert json.loads(response.content)["warnings"] == ["results truncated due to limit"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"data":1}', b'{"data":[1,null]}', b'"x"'])
def test_a_list_that_is_none_adds_nothing(proxy: Served, behind: Server, client: Client, body: bytes) -> None:
    behind.reply = answering(200, body)
    for path in ("labels", "series", "metadata"):
        assert len(data(get(client, f"/api/v1/{path}", **{"match[]": "up"}))) > 0


def test_a_list_that_the_upstream_refuses_is_refused(proxy: Served, behind: Server, client: Client) -> None:
    behind.reply = answering(401, b"who are you", Content_Type="text/plain")
    response = get(client, "/api/v1/labels")
    assert (response.status_code, response.content) == (401, b"who are you")


def test_what_only_an_upstream_knows_is_asked_there(proxy: Served, behind: Server, client: Client) -> None:
    response = get(client, "/api/v1/rules", type="alert")
    assert (response.status_code, response.headers["X-ASAP-Tier"]) == (200, "upstream")
    assert heard(behind, "rules") == ("GET", {"type": ["alert"]})
    assert error(get(client, "/api/v1/targets"))[:2] == (404, "not_found")
