"""Cross-origin headers and packed answers."""

import dataclasses
import gzip
from typing import Any

import pytest
from django.apps import apps
from django.test import Client

from query.api.transport import accepts_gzip
from query.origins import Origins
from tests.query.api.asking import get
from tests.query.served import NOW_MS, Served

pytestmark = pytest.mark.urls("query.urls")

LONG = {"query": 'label_replace(up, "long", "' + "x" * 2000 + '", "", "")'}


def test_a_browser_may_ask_beforehand_whatever_the_path(node: Served, client: Client) -> None:
    for path in ("/api/v1/query", "/api/v1/status/tsdb", "/api/v1/nowhere"):
        response = client.options(path, headers={"origin": "http://page"})
        assert (response.status_code, response.content) == (204, b"")
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert response.headers["Access-Control-Allow-Methods"] == "GET, POST, OPTIONS"
        assert response.headers["Access-Control-Allow-Headers"] == "Accept, Authorization, Content-Type, Origin"


def test_an_answer_says_who_may_read_it_only_where_an_origin_asks(node: Served, client: Client) -> None:
    asked = client.get("/api/v1/labels", headers={"origin": "http://page"})
    assert asked.headers["Access-Control-Allow-Origin"] == "*"
    assert "X-ASAP-Tier" in asked.headers["Access-Control-Expose-Headers"]
    plain = get(client, "/api/v1/labels")
    assert "Access-Control-Allow-Origin" not in plain.headers
    assert plain.headers["Vary"] == "Origin, Accept-Encoding"
    assert "Access-Control-Allow-Origin" not in client.get("/-/ready", headers={"origin": "http://page"}).headers


def test_only_the_origins_of_the_option_may_read(node: Served, client: Client, monkeypatch: Any) -> None:
    parts = dataclasses.replace(node.parts, origins=Origins("https?://(a|b)\\.org"))
    monkeypatch.setattr(apps.get_app_config("query"), "parts", parts)
    for origin, allowed in (("http://a.org", "http://a.org"), ("http://a.org.evil", None), ("null", None)):
        response = client.get("/api/v1/labels", headers={"origin": origin})
        assert response.status_code == 200
        assert response.headers.get("Access-Control-Allow-Origin") == allowed


def test_no_origin_is_let_in_by_an_empty_pattern() -> None:
    assert Origins("").allowed("http://a.org") is None


def test_a_large_answer_is_packed_for_those_who_accept_it(node: Served, client: Client) -> None:
    plain = get(client, "/api/v1/query", **LONG, time=NOW_MS / 1000)
    response = client.get("/api/v1/query", {**LONG, "time": NOW_MS / 1000}, headers={"accept-encoding": "gzip, br"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(response.content) == plain.content
    assert int(response.headers["Content-Length"]) == len(response.content) < len(plain.content)
    assert "Content-Encoding" not in plain.headers


def test_a_small_answer_is_not_packed(node: Served, client: Client) -> None:
    response = client.get("/api/v1/labels", headers={"accept-encoding": "gzip"})
    assert "Content-Encoding" not in response.headers


def test_metrics_are_packed_too(node: Served, client: Client) -> None:
    get(client, "/api/v1/labels")
    response = client.get("/metrics", headers={"accept-encoding": "gzip"})
    assert b"asap_query_seconds" in gzip.decompress(response.content)
    assert response.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("accepts", "packed"),
    [
        ("gzip", True), ("deflate, GZIP;q=0.5", True), ("x-gzip", True), ("gzip;q=0", False), ("gzip; q=0.00", False),
        ("gzipped", False), ("br", False), ("", False), ("identity, *;q=0", False),
    ],
)  # fmt: skip
def test_gzip_is_accepted_where_it_is_named(accepts: str, packed: bool) -> None:
    assert accepts_gzip({"HTTP_ACCEPT_ENCODING": accepts}) == packed
