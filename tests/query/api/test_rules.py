"""Rules, alerts and exemplars: the upstream's, or those of a server that has none."""

import json
from typing import Any

import pytest
from django.test import Client

from tests.query.answering import Server, answering
from tests.query.api.asking import data, error, get, heard
from tests.query.served import Served

pytestmark = pytest.mark.urls("query.urls")


@pytest.mark.parametrize(
    ("path", "params", "expected"),
    [
        ("rules", {}, {"groups": []}),
        ("rules", {"type": "alert", "exclude_alerts": "true", "group_limit": "5"}, {"groups": []}),
        ("alerts", {}, {"alerts": []}),
        ("query_exemplars", {"query": "rate(up[5m])"}, []),
    ],
)
def test_without_an_upstream_there_are_none(
    node: Served, client: Client, path: str, params: dict[str, str], expected: Any
) -> None:
    assert data(get(client, f"/api/v1/{path}", **params)) == expected


def test_exemplars_of_a_query_that_reads_nothing_are_no_content(node: Served, client: Client) -> None:
    response = get(client, "/api/v1/query_exemplars", query="1")
    assert (response.status_code, response.content) == (204, b"")


def test_wrong_parameters_are_refused_although_there_is_nothing_to_list(node: Served, client: Client) -> None:
    wrong = {"rules": {"type": "x"}, "query_exemplars": {"query": "up["}}
    for path, params in wrong.items():
        assert error(get(client, f"/api/v1/{path}", **params))[:2] == (400, "bad_data")
    later = error(get(client, "/api/v1/query_exemplars", query="up", start="2", end="1"))
    assert later == (400, "bad_data", "end timestamp must not be before start timestamp")


@pytest.mark.parametrize("path", ["rules", "alerts", "query_exemplars"])
def test_an_upstreams_answer_is_passed_on(proxy: Served, behind: Server, client: Client, path: str) -> None:
    behind.reply = answering(418, b'{"status":"error","data":"theirs"}')
    response = get(client, f"/api/v1/{path}", query="up", type="alert")
    assert (response.status_code, json.loads(response.content)["data"]) == (418, "theirs")
    assert response.headers["X-ASAP-Tier"] == "upstream"
    assert heard(behind, path) == ("GET", {"query": ["up"], "type": ["alert"]})
    assert proxy.count("asap_query_requests_total", endpoint=path, code="418") == 1
