"""What is kept, listed and changed over HTTP."""

import json
from typing import Any, cast

import pytest
from django.http import HttpResponse
from django.test import Client

from precompute.sinks import DirectSink
from tests.query.api.asking import data, error, get
from tests.query.served import NOW_S, Served

PATH = "/api/v1/aggregations"
UP = {"expr": "up", "by": ["zone", "job"], "accumulators": ["sum", "count"]}


def sent(client: Client, method: str, path: str, body: Any) -> HttpResponse:
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    return cast(HttpResponse, client.generic(method, path, text, content_type="application/json"))


def created(client: Client, **more: Any) -> dict[str, Any]:
    response = sent(client, "POST", PATH, {**UP, **more})
    assert response.status_code == 201, response.content
    return cast(dict[str, Any], json.loads(response.content)["data"])


def test_what_is_created_is_listed_with_all_that_it_defaults_to(client: Client, node: Served) -> None:
    assert data(get(client, PATH)) == []
    made = created(client)
    assert made == {
        "id": made["id"], "expr": "up", "by": ["job", "zone"], "accumulators": ["sum", "count"], "width": "15s",
        "reach": "5m", "lookback": "5m", "retention": "1d", "origin": "api", "pinned": True, "in_service": True,
        "panes": 0, "groups": 0, "bytes": 0, "hits": 0, "last_used": None, "queries": [],
    }  # fmt: skip
    assert data(get(client, PATH)) == [made]
    assert data(get(client, f"{PATH}/{made['id']}")) == made


def test_it_serves_after_a_tick_and_says_so(client: Client, node: Served) -> None:
    made = created(client, without=["zone"], by=None)
    node.node.engine.run(DirectSink(node.node.store))
    response = get(client, "/api/v1/query", query="sum(up)", time=NOW_S - 20)
    assert (response.headers["X-ASAP-Tier"], data(response)["result"][0]["value"][1]) == ("summary", "1")
    found = data(get(client, f"{PATH}/{made['id']}"))
    assert (found["hits"], found["last_used"], found["queries"]) == (1, NOW_S, ["sum(up)"])
    assert (found["groups"], found["without"]) == (2, ["zone"])
    assert found["panes"] > 1
    assert found["bytes"] > 0


def test_the_same_created_again_is_one_with_the_new_retention(client: Client, node: Served) -> None:
    first, second = created(client, pinned=False), created(client, by=["job", "zone"], retention="2h", width="15s")
    assert (first["id"], first["pinned"]) == (second["id"], False)
    assert data(get(client, PATH)) == [second]
    assert (second["retention"], second["pinned"]) == ("2h", True)


def test_pinning_and_unpinning(client: Client, node: Served) -> None:
    path = f"{PATH}/{created(client)['id']}"
    for pinned in (False, False, True):
        assert data(sent(client, "PATCH", path, {"pinned": pinned}))["pinned"] is pinned
        assert data(get(client, path))["pinned"] is pinned


def test_what_is_deleted_is_gone(client: Client, node: Served) -> None:
    path = f"{PATH}/{created(client)['id']}"
    response = client.delete(path)
    assert (response.status_code, response.content) == (204, b"")
    assert data(get(client, PATH)) == []
    for again in (client.delete(path), get(client, path), sent(client, "PATCH", path, {"pinned": True})):
        assert error(again)[:2] == (404, "not_found")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"expr": "up +"}, "aggregations: up +: "),
        ({"expr": "sum(up)"}, "an aggregation operator inside"),
        ({"expr": "rate(up[5h])"}, "looks back 5h; engine.minibatch.max_reach is 1h: raise it"),
        ({"expr": 1}, "expr should be a valid string"),
        ({"expr": "(" * 5000}, "nest"),
        ({"without": ["a"]}, "should have exactly one of by, without and series: true"),
        ({"by": "job"}, "by should be a list"),
        ({"by": ["job", 1]}, "by[1] should be a valid string"),
        ({"by": ["job", "job"]}, "by names one thing twice"),
        ({"accumulators": []}, "accumulators it should have at least 1 item"),
        ({"accumulators": ["median"]}, "accumulators[0]"),
        ({"width": 15}, "width should be a duration with a unit"),
        ({"width": "20s"}, "width should be a multiple of engine.minibatch.window_size, 15s"),
        ({"retention": "14s"}, "retention should not be shorter than its width"),
        ({"retention": "999999999999999y"}, "retention should be at most 3650d"),
        ({"labels": ["a"]}, "labels is no key here"),
        ({"pinned": "yes"}, "should be true or false"),
        ({"accuracy_sla": 2}, "accuracy_sla should be less than 1"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_key_and_the_reason(
    client: Client, node: Served, changed: dict[str, Any], text: str
) -> None:
    status, kind, message = error(sent(client, "POST", PATH, {**UP, **changed}))
    assert (status, kind) == (400, "bad_data")
    assert text in message
    assert data(get(client, PATH)) == []


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"a": NaN}', b"\xff", "[" * 100_000, " " * 200_000])
def test_a_body_that_is_no_json_object_is_refused(client: Client, node: Served, body: str | bytes) -> None:
    path = f"{PATH}/{created(client)['id']}"
    for method, where in (("POST", PATH), ("PATCH", path)):
        assert error(sent(client, method, where, body))[:2] == (400, "bad_data")


def test_a_form_is_refused(client: Client, node: Served) -> None:
    for response in (client.post(PATH, {"expr": "up"}), client.post(PATH, "expr=up", "text/plain")):
        status, _, message = error(cast(HttpResponse, response))
        assert (status, "Content-Type: application/json" in message) == (400, True)


@pytest.mark.parametrize("body", [{}, {"pinned": 1}, {"pinned": True, "expr": "up"}])
def test_nothing_but_the_pin_can_be_changed(client: Client, node: Served, body: Any) -> None:
    path = f"{PATH}/{created(client)['id']}"
    assert error(sent(client, "PATCH", path, body))[:2] == (400, "bad_data")


def test_other_methods_are_refused(client: Client, node: Served) -> None:
    assert client.put(PATH).status_code == 405
    assert client.post(f"{PATH}/x").status_code == 405
