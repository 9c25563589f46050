"""Queries told back over HTTP."""

import json

import pytest
from django.test import Client

from tests.query.answering import Server, answering
from tests.query.api.asking import data, error, get, heard
from tests.query.served import Served

pytestmark = pytest.mark.urls("query.urls")


def test_a_query_is_formatted(node: Served, client: Client) -> None:
    assert data(get(client, "/api/v1/format_query", query="foo/bar")) == "foo / bar"
    posted = client.post("/api/v1/format_query", {"query": "sum(x)by(y)"})
    assert json.loads(posted.content)["data"] == "sum by (y) (x)"


def test_a_query_is_parsed_with_its_keys_in_order(node: Served, client: Client) -> None:
    response = get(client, "/api/v1/parse_query", query="-(1)")
    number = b'{"type":"numberLiteral","val":"1"}'
    tree = b'{"expr":{"expr":%s,"type":"parenExpr"},"op":"-","type":"unaryExpr"}' % number
    assert response.content == b'{"status":"success","data":%s}' % tree


@pytest.mark.parametrize("path", ["format_query", "parse_query"])
def test_a_wrong_query_is_refused_as_when_it_is_asked(node: Served, client: Client, path: str) -> None:
    status, kind, text = error(get(client, f"/api/v1/{path}", query="sum("))
    assert (status, kind) == (400, "bad_data")
    assert text.startswith('invalid parameter "query": parse error: ')
    assert error(get(client, f"/api/v1/{path}", query="m anchored"))[:2] == (422, "execution")


def test_the_upstream_tells_what_the_parser_does_not_know(proxy: Served, behind: Server, client: Client) -> None:
    behind.reply = answering(200, b'{"status":"success","data":"m anchored"}')
    assert data(get(client, "/api/v1/format_query", query="m anchored")) == "m anchored"
    assert heard(behind, "format_query") == ("GET", {"query": ["m anchored"]})
