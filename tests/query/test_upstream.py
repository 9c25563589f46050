"""The upstream is asked over HTTP, and its answers are passed on."""

import base64
import contextlib
import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry

from precompute.clock import SystemClock
from precompute.errors import TimedOut
from query.answers import Forwarded
from query.errors import UpstreamDown
from query.metrics import QueryMetrics
from query.slots import Slots
from query.tiers import upstream as upstream_module
from query.tiers.upstream import Upstream
from tests import running
from tests.ports import free_port
from tests.query.answering import Server, answering, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


Maker = Callable[..., Upstream]


@pytest.fixture
def upstream_at() -> Iterator[Maker]:
    """Makes upstreams, and closes them at the end."""
    with contextlib.ExitStack() as made:

        def make(url: str, timeout_ms: int = 10_000, ca_file: str = "", slots: Slots | None = None) -> Upstream:
            upstream = Upstream(
                url, timeout_ms, ca_file, SystemClock(), slots or Slots(1), QueryMetrics(CollectorRegistry())
            )
            made.callback(upstream.close)
            return upstream

        yield make


def ask(upstream: Upstream, timeout_ms: int = 10_000, **headers: str) -> Forwarded:
    return upstream.query("query", {"query": "up", "time": "1"}, headers, timeout_ms)


def test_it_works(server: Server, upstream_at: Maker) -> None:
    answer = ask(upstream_at(server.url))
    assert answer == Forwarded(200, "application/json", b'{"status":"success"}')
    method, path, form, _ = server.asked[0]
    assert (method, path) == ("POST", "/api/v1/query")
    assert form == {"query": ["up"], "time": ["1"], "timeout": ["10000ms"]}


def test_a_catalogue_request_is_a_get_with_repeated_parameters(server: Server, upstream_at: Maker) -> None:
    upstream_at(server.url).get("series", {"match[]": ["a", "b&c"]}, {}, 1000)
    assert server.asked[0][:3] == ("GET", "/api/v1/series", {"match[]": ["a", "b&c"]})


def test_a_path_prefix_is_kept(server: Server, upstream_at: Maker) -> None:
    ask(upstream_at(server.url + "/select/0/prometheus/"))
    assert server.asked[0][1] == "/select/0/prometheus/api/v1/query"


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500, 503])
def test_status_type_and_body_pass_through(server: Server, status: int, upstream_at: Maker) -> None:
    server.reply = answering(status, b"no such luck", Content_Type="text/plain; charset=utf-8")
    assert ask(upstream_at(server.url)) == Forwarded(status, "text/plain; charset=utf-8", b"no such luck")


def test_credentials_in_the_url_become_basic_auth_and_are_not_shown(server: Server, upstream_at: Maker) -> None:
    upstream = upstream_at(server.url.replace("//", "//us%20er:pa%40ss@"))
    ask(upstream)
    expected = "Basic " + base64.b64encode(b"us er:pa@ss").decode()
    assert server.asked[0][3]["Authorization"] == expected
    assert upstream.name == server.url


def test_who_asks_passes_through_and_beats_the_urls_credentials(server: Server, upstream_at: Maker) -> None:
    caller = {"Authorization": "Bearer t", "X-Scope-OrgID": "team", "Accept-Encoding": "br", "Host": "asap"}
    ask(upstream_at(server.url.replace("//", "//user:pass@")), **caller)
    sent = server.asked[0][3]
    assert (sent["Authorization"], sent["X-Scope-OrgID"], sent["Accept-Encoding"]) == ("Bearer t", "team", "identity")
    assert sent["Host"] == urlsplit(server.url).netloc


def test_connections_are_kept_open(server: Server, upstream_at: Maker) -> None:
    upstream = upstream_at(server.url)
    for _ in range(5):
        ask(upstream)
    assert (len(server.asked), server.connections) == (5, 1)


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(server: Server, upstream_at: Maker) -> None:
    upstream = upstream_at(server.url)
    whole = server.reply

    def reply_and_hang_up(request: http.server.BaseHTTPRequestHandler) -> None:
        whole(request)
        request.close_connection = True

    server.reply = reply_and_hang_up
    for _ in range(3):
        assert ask(upstream).status == 200
    assert server.connections == 3


def test_a_body_without_a_length_ends_with_the_connection(server: Server, upstream_at: Maker) -> None:
    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nall of it")
        request.close_connection = True

    server.reply = reply
    assert ask(upstream_at(server.url)).body == b"all of it"


def test_a_chunked_body_is_put_together(server: Server, upstream_at: Maker) -> None:
    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")

    server.reply = reply
    upstream = upstream_at(server.url)
    assert [ask(upstream).body, ask(upstream).body] == [b"abcde", b"abcde"]
    assert server.connections == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
        b"",
    ],
)
def test_a_broken_answer_is_no_answer(server: Server, raw: bytes, upstream_at: Maker) -> None:
    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        request.wfile.write(raw)
        request.close_connection = True

    server.reply = reply
    with pytest.raises(UpstreamDown, match=f"the upstream {server.url} "):
        ask(upstream_at(server.url))


def test_a_redirect_is_not_followed(server: Server, upstream_at: Maker) -> None:
    server.reply = answering(302, b"", Location="https://elsewhere/")
    with pytest.raises(UpstreamDown, match="sends us elsewhere, to https://elsewhere/"):
        ask(upstream_at(server.url))
    assert len(server.asked) == 1


def test_nobody_there_is_told_with_name_and_reason(upstream_at: Maker) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UpstreamDown, match=f"the upstream {url} cannot be asked: Connection refused"):
        ask(upstream_at(url))


@pytest.mark.parametrize("late", ["head", "body"])
def test_a_late_answer_is_a_timeout(server: Server, late: str, upstream_at: Maker) -> None:
    release = threading.Event()

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        if late == "body":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        release.wait(120)
        request.close_connection = True

    server.reply = reply
    with pytest.raises(TimedOut, match=r"did not answer within 0\.1s"):
        ask(upstream_at(server.url, timeout_ms=100))
    with pytest.raises(TimedOut, match=r"did not answer within 0\.05s"):
        ask(upstream_at(server.url), timeout_ms=50)
    release.set()


def test_an_answer_that_trickles_in_is_a_timeout_too(server: Server, upstream_at: Maker) -> None:
    stop = threading.Event()

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
        while not stop.wait(0.02):
            request.wfile.write(b"x")

    server.reply = reply
    with pytest.raises(TimedOut):
        ask(upstream_at(server.url, timeout_ms=200))
    stop.set()


def test_an_answer_beyond_the_bound_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch, upstream_at: Maker
) -> None:
    monkeypatch.setattr(upstream_module, "MAX_BODY_BYTES", 1000)
    server.reply = answering(200, b"x" * 1001)
    with pytest.raises(UpstreamDown, match="more than 1000 bytes"):
        ask(upstream_at(server.url))


def test_a_waiting_query_holds_no_place(server: Server, upstream_at: Maker) -> None:
    slots = Slots(1)
    upstream = upstream_at(server.url, timeout_ms=60_000, slots=slots)
    arrived, release = threading.Event(), threading.Event()
    whole = server.reply

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        arrived.set()
        release.wait(120)
        whole(request)

    def query() -> None:
        with slots.taken(1000):
            ask(upstream, 60_000)

    server.reply = reply
    thread = threading.Thread(target=query)
    thread.start()
    assert arrived.wait(60)
    with slots.taken(100):
        pass
    release.set()
    thread.join()
    with slots.taken(100), pytest.raises(TimedOut, match="query timed out in query queue"), slots.taken(1):
        pass


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://a", "http://", "http://a:b", ""])
def test_what_is_no_url_is_refused(url: str, upstream_at: Maker) -> None:
    with pytest.raises(ValueError, match=r"URL|port|Port"):
        upstream_at(url)


def test_https_trusts_the_ca_file_and_nobody_else(tmp_path: Path, upstream_at: Maker) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with serving(context) as server:
        assert ask(upstream_at(server.url, ca_file=str(cert))).status == 200
        with pytest.raises(UpstreamDown, match=r"certificate is not trusted.*prometheus_ca_file"):
            ask(upstream_at(server.url))


@pytest.mark.e2e
def test_a_real_prometheus_answers_through_us(tmp_path: Path, prometheus_binary: str, upstream_at: Maker) -> None:
    with running.prometheus(prometheus_binary, tmp_path, "global: {scrape_interval: 1s}") as prometheus:
        upstream = upstream_at(prometheus.url)
        made = upstream.query("query_range", {"query": "1+1", "start": "0", "end": "30", "step": "15"}, {}, 5000)
        points = json.loads(made.body)["data"]["result"][0]["values"]
        assert (made.status, points) == (200, [[0, "2"], [15, "2"], [30, "2"]])
        wrong = upstream.query("query", {"query": "sum("}, {}, 5000)
        assert (wrong.status, json.loads(wrong.body)["errorType"]) == (400, "bad_data")
        assert json.loads(upstream.get("labels", {}, {}, 5000).body)["status"] == "success"
