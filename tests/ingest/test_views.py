"""Remote write over HTTP, as far as Django goes."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from django.apps import apps
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from ingest.views import write
from tests.ingest.node import NOW_MS, Node, make_node
from tests.ingest.wire import encode_write_request, snappy, varint, zstd

pytestmark = pytest.mark.urls("ingest.urls")

UP = (("__name__", "up"), ("job", "a"))
BODY = snappy(encode_write_request([(UP, [(NOW_MS, 1.0)])]))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = make_node(tmp_path)
    monkeypatch.setattr(apps.get_app_config("ingest"), "remote_write", node.remote_write)
    return node


@pytest.fixture
def client() -> Client:
    return Client(enforce_csrf_checks=True)


def post(client: Client, body: bytes, path: str = "/api/v1/write", **headers: str) -> HttpResponse:
    headers = {"content-encoding": "snappy", "x-prometheus-remote-write-version": "0.1.0", **headers}
    kind = headers.pop("type", "application/x-protobuf")
    return cast(HttpResponse, client.post(path, body, content_type=kind, headers=headers))


@pytest.mark.parametrize("path", ["/api/v1/write", "/receive"])
def test_it_works(node: Node, client: Client, path: str) -> None:
    response = post(client, BODY, path)
    assert (response.status_code, response.content) == (204, b"")
    assert node.kept() == {UP: [(NOW_MS, 1.0)]}
    assert node.count("asap_ingest_requests_total", code="204") == 1


def test_zstd_is_read(node: Node, client: Client) -> None:
    body = zstd(encode_write_request([(UP, [(NOW_MS, 1.0)])]))
    assert post(client, body, **{"content-encoding": "zstd"}).status_code == 204


@pytest.mark.parametrize("method", ["get", "put", "delete", "head", "patch"])
def test_only_post_is_allowed(node: Node, client: Client, method: str) -> None:
    response = getattr(client, method)("/api/v1/write")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


def test_a_node_that_is_starting_says_later(client: Client) -> None:
    response = post(client, BODY)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")


def test_a_node_that_is_stopping_says_later(node: Node, client: Client) -> None:
    node.intake.stop()
    response = post(client, BODY)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert b"shutting down" in response.content


def test_refused_samples_are_told_after_the_others_were_kept(node: Node, client: Client) -> None:
    bad = (("job", "a"),)
    response = post(client, snappy(encode_write_request([(bad, [(NOW_MS, 1.0)]), (UP, [(NOW_MS, 1.0)])])))
    assert response.status_code == 400
    assert b"refused 1 of 2 samples" in response.content
    assert node.kept() == {UP: [(NOW_MS, 1.0)]}


def test_a_dropped_replica_is_no_error(node: Node, client: Client) -> None:
    for replica in "ab":
        labels = (("__name__", "x"), ("__replica__", replica), ("cluster", "c"))
        assert post(client, snappy(encode_write_request([(labels, [(NOW_MS, 1.0)])]))).status_code == 204


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (415, {"type": "application/json"}),
        (415, {"type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}),
        (415, {"content-encoding": "gzip"}),
        (204, {"type": "application/x-protobuf;proto=prometheus.WriteRequest"}),
    ],
)
def test_types_are_told_apart(node: Node, client: Client, status: int, headers: dict[str, str]) -> None:
    assert post(client, BODY, **headers).status_code == status


@pytest.mark.parametrize("body", [b"no snappy", BODY[:-1], snappy(b"\x0a\x7f")])
def test_a_damaged_body_is_a_bad_request(node: Node, client: Client, body: bytes) -> None:
    assert post(client, body).status_code == 400


@pytest.mark.parametrize("body", [bytes((1 << 20) + 1), varint(1 << 31) + b"x", snappy(bytes((1 << 20) + 1))])
def test_a_body_that_is_too_large_packed_or_unpacked_is_told_so(node: Node, client: Client, body: bytes) -> None:
    assert post(client, body).status_code == 413


class _Unread(BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        raise AssertionError("the body was read")


class _Broken(BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        raise OSError("the sender is gone")


def raw(length: str | None, stream: BytesIO) -> HttpResponse:
    request: WSGIRequest = RequestFactory().generic("POST", "/receive", BODY, content_type="application/x-protobuf")
    environ = {**request.environ, "wsgi.input": stream}
    environ.pop("CONTENT_LENGTH")
    if length is not None:
        environ["CONTENT_LENGTH"] = length
    return write(WSGIRequest(environ))


def test_the_announced_length_is_checked_before_the_body_is_read(node: Node) -> None:
    assert raw(str((1 << 20) + 1), _Unread(BODY)).status_code == 413
    assert raw("9" * 19, _Unread(BODY)).status_code == 413


@pytest.mark.parametrize("length", ["-1", "1e3", "x", "9" * 30, "²", "1_0"])
def test_a_length_that_is_no_number_is_a_bad_request(node: Node, length: str) -> None:
    assert raw(length, _Unread(BODY)).status_code == 400


def test_a_body_without_a_length_is_asked_for_one(node: Node) -> None:
    response = raw(None, _Unread(BODY))
    assert (response.status_code, response.content) == (411, b"a Content-Length is needed\n")


def test_a_sender_that_goes_away_leaves_nothing(node: Node) -> None:
    assert raw(str(len(BODY)), _Broken()).status_code == 400
    assert raw(str(len(BODY)), BytesIO(BODY[:-1])).status_code == 400
    assert node.kept() == {}


@pytest.fixture
def noise() -> Iterator[bytes]:
    rng = np.random.default_rng(3)
    return (rng.bytes(int(rng.integers(1, 200))) for _ in range(500))


def test_noise_is_answered_with_a_status_of_the_senders_fault(
    node: Node, client: Client, noise: Iterator[bytes]
) -> None:
    codes = {
        post(client, body, **{"content-encoding": encoding}).status_code
        for body in noise
        for encoding in ("snappy", "zstd")
    }
    assert codes <= {204, 400, 413}
    assert 400 in codes
