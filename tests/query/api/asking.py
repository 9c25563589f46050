"""Requests of the API over a node with a few samples of `up`, and what came back."""

import json
from typing import Any, cast

from django.http import HttpResponse
from django.test import Client

from precompute.metadata import Family
from tests.query.answering import Server
from tests.query.served import NOW_MS, Served


def fill(node: Served) -> None:
    for job, value in (("a", 1.0), ("b", 0.0)):
        points = [(NOW_MS - 15_000 * k, value) for k in range(4, -1, -1)]
        node.write({"__name__": "up", "job": job, "zone": "é"}, points)
    node.metadata.note([("up", Family("gauge", "Whether it is up.", ""))])


def get(client: Client, path: str, **params: Any) -> HttpResponse:
    return cast(HttpResponse, client.get(path, params))


def data(response: HttpResponse) -> Any:
    assert response.status_code == 200, response.content
    assert response.headers["Content-Type"] == "application/json"
    return json.loads(response.content)["data"]


def error(response: HttpResponse) -> tuple[int, str, str]:
    body = json.loads(response.content)
    assert (body["status"], response.headers["Content-Type"]) == ("error", "application/json")
    return response.status_code, body["errorType"], body["error"]


def heard(behind: Server, path: str) -> tuple[str, dict[str, list[str]]]:
    """Method and parameters of the one request that an upstream got under a path of the API."""
    (found,) = [(method, form) for method, asked, form, _ in behind.asked if asked == f"/api/v1/{path}"]
    return found
