"""Nothing that a client sends makes the server answer 500, crash, hang or grow; it goes on answering rightly."""

import random
import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from precompute.clock import SystemClock
from tests.e2e.hostile import ANSWERS_WITHIN_S, Reply, bodies, bombs, send_all
from tests.e2e.hostile_queries import queries
from tests.e2e.talking import children, instant, named, points, write
from tests.running import Program, asap, drawn_seed

pytestmark = pytest.mark.e2e

BODIES, SOUPS = 10_000, 1400
GROWS_MB = 300
REFUSALS = frozenset({200, 204, 400, 404, 405, 411, 413, 414, 415, 422, 431})


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A server that knows one series x, and its memory after the first queries."""
    aggregations = [{"expr": "x", "by": ["a"], "accumulators": ["sum", "count", "quantile"]}]
    with asap(tmp_path_factory.mktemp("hostile"), {"aggregations": aggregations}) as running:
        yield running


def resident_mb(program: Program) -> float:
    """Memory of the process that holds everything."""
    lines = [Path(f"/proc/{pid}/status").read_text() for pid in children(program.process.pid)]
    return max(float(text.split("VmRSS:")[1].split()[0]) for text in lines if "VmRSS:" in text) / 1024


def still_right(program: Program) -> None:
    """A sample written now is found at once."""
    now_ms = SystemClock().now_ms()
    assert write(program, [(named("x", a="1"), [(now_ms, 42.0)])]).status == 204
    assert points(instant(program, "x * 2", now_ms)) == {((("a", "1"),), now_ms): 84.0}
    assert program.process.poll() is None
    assert "Traceback" not in program.log()


def bad(replies: list[Reply]) -> list[str]:
    """Those that should not be: another status, a closed connection, or too late."""
    allowed = {False: REFUSALS, True: REFUSALS | {0}}
    return [
        str(reply)
        for reply in replies
        if not (reply.status in allowed[reply.request.is_long] or _timed_out(reply)) or reply.took_s > ANSWERS_WITHIN_S
    ]


def _timed_out(reply: Reply) -> bool:
    """Whether it asked for no time at all, and was told that this is up."""
    return "timeout=-1" in reply.request.path and reply.status == 503 and b'"errorType":"timeout"' in reply.text


def test_ten_thousand_malformed_bodies(target: Program) -> None:
    seed = drawn_seed()
    still_right(target)
    before_mb = resident_mb(target)
    replies = send_all(target, [*bodies(random.Random(seed), BODIES), *bombs()])
    assert not bad(replies)[:10]
    assert sum(reply.status == 400 for reply in replies) > BODIES // 2
    assert sum(reply.status in (413, 415) for reply in replies) >= 9
    assert resident_mb(target) < before_mb + GROWS_MB
    still_right(target)


def test_two_thousand_hostile_queries(target: Program) -> None:
    seed = drawn_seed()
    still_right(target)
    before_mb = resident_mb(target)
    replies = send_all(target, list(queries(random.Random(seed), SOUPS)))
    assert len(replies) >= 2000
    assert not bad(replies)[:10]
    assert resident_mb(target) < before_mb + GROWS_MB
    still_right(target)


HEAD = b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"
RAW = {
    "chunked, without a length": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "a bad chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "a length of 10 TB": HEAD + b"Content-Length: 10995116277760\r\n\r\n",
    "a length of 2^64": HEAD + b"Content-Length: 18446744073709551616\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\nhello",
    "a length that is no number": HEAD + b"Content-Length: five\r\n\r\nhello",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300) + b"\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost a\r\n\r\n",
    "10,000 headers": b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % k for k in range(10_000)) + b"\r\n",
    "a header of 2 MB": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (2 << 20) + b"\r\n\r\n",
    "a URL of 2 MB": b"GET /" + b"a" * (2 << 20) + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "bytes in the URL": b"GET /api/v1/query?query=\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    "a host that is none": b"GET /api/v1/query?query=1 HTTP/1.1\r\nHost: \xff/..\r\n\r\n",
    "an expectation": HEAD + b"Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n",
    "an upgrade": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
}


def connected(program: Program) -> socket.socket:
    address = urllib.parse.urlsplit(program.url)
    return socket.create_connection((str(address.hostname), address.port or 0), ANSWERS_WITHIN_S)


def raw(program: Program, sent: bytes) -> bytes:
    """The beginning of what comes back for these bytes; b"" where the server only hung up."""
    with suppress(ConnectionError), closing(connected(program)) as talking:
        talking.sendall(sent)
        return talking.recv(65536)
    return b""


@pytest.mark.parametrize("sent", RAW.values(), ids=RAW)
def test_bytes_that_are_hardly_http_get_a_refusal_or_a_closed_connection(target: Program, sent: bytes) -> None:
    got = raw(target, sent)
    assert not got or int(got.split(b" ", 2)[1]) in REFUSALS | {100}, got[:500]
    still_right(target)


def test_a_length_above_the_limit_is_refused_before_the_body_comes(target: Program) -> None:
    with closing(connected(target)) as talking:
        talking.sendall(HEAD + b"Content-Length: 99999999999\r\n\r\n")
        assert talking.recv(65536).split(b" ", 2)[1] == b"413"


def test_two_hundred_stalled_senders_block_nobody(target: Program) -> None:
    stalled: list[socket.socket] = []
    try:
        for _ in range(200):
            stalled.append(connected(target))
            stalled[-1].sendall(HEAD + b"Content-Length: 1000\r\n\r\nhalf")
        still_right(target)
    finally:
        for talking in stalled:
            talking.close()
    still_right(target)
