"""Requests that nobody should send: bodies, queries, and bytes that are hardly HTTP. All from a seed."""

import http.client
import random
import struct
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import cramjam

from tests.e2e.talking import FORM, SNAPPY, named
from tests.ingest.wire import encode_metadata, encode_write_request, snappy, varint, zstd
from tests.ingest.wire import field as protobuf
from tests.running import Program

ANSWERS_WITHIN_S = 15.0
CLIENTS = 3
MAX_FORM_BYTES, MAX_URL_BYTES = 1 << 20, 1 << 16
NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Request:
    """One request as a client library sends it."""

    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ""

    @property
    def is_long(self) -> bool:
        """Whether the server may hang up instead of reading on."""
        return len(self.body or b"") > MAX_FORM_BYTES or len(self.path) > MAX_URL_BYTES

    @property
    def verb(self) -> str:
        return self.method or ("GET" if self.body is None else "POST")


@dataclass(frozen=True)
class Reply:
    """How a request was answered; status 0 where the connection was closed instead, before all of it was sent."""

    request: Request
    status: int
    took_s: float
    text: bytes

    def __str__(self) -> str:
        asked = f"{self.request.verb} {self.request.path[:200]} {dict(self.request.headers)}"
        body = (self.request.body or b"")[:200]
        return f"{self.status} after {self.took_s:.1f} s: {asked} {body!r}: {self.text[:200]!r}"


def send_all(program: Program, requests: Sequence[Request]) -> list[Reply]:
    """All of them, over a few connections that are kept alive."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        shares = clients.map(lambda k: _send(program, requests[k::CLIENTS]), range(CLIENTS))
        return [reply for share in shares for reply in share]


def _send(program: Program, requests: Sequence[Request]) -> list[Reply]:
    address = urllib.parse.urlsplit(program.url).netloc
    with closing(http.client.HTTPConnection(address, timeout=ANSWERS_WITHIN_S)) as connection:
        answers = ((request, _answered(connection, request) or _answered(connection, request)) for request in requests)
        return [answer or Reply(request, 0, 0.0, b"") for request, answer in answers]


def _answered(connection: http.client.HTTPConnection, request: Request) -> Reply | None:
    """None where the connection was closed: the server hangs up after an answer that it gave without reading on."""
    begun_s = time.monotonic()
    try:
        connection.putrequest(request.verb, request.path, skip_accept_encoding=True)
        for name, text in request.headers.items():
            connection.putheader(name, text)
        if request.body is not None:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        with connection.getresponse() as answer:
            return Reply(request, answer.status, time.monotonic() - begun_s, answer.read())
    except (http.client.HTTPException, ConnectionError):
        connection.close()
        return None


def bodies(draw: random.Random, count: int) -> Iterator[Request]:
    """Writes that are broken in one way or another."""
    kinds: tuple[Callable[[random.Random], tuple[bytes, str]], ...] = (
        _truncated, _bit_flipped, _flipped_inside, _cut_inside, _wrong_lengths, _wrong_types, _noise, _bad_labels,
        _lying_header, _deep,
    )  # fmt: skip
    for _ in range(count):
        body, encoding = draw.choice(kinds)(draw)
        yield Request("/api/v1/write", body, {**SNAPPY, "Content-Encoding": encoding})


def bombs() -> Iterator[Request]:
    """Small bodies that unpack, or say that they do, to more than any limit; and headers that fit no body."""
    zeros = bytes(1 << 28)
    for packed, encoding in ((bytes(cramjam.zstd.compress(zeros)), "zstd"), (snappy(zeros), "snappy")):
        yield Request("/api/v1/write", packed, {**SNAPPY, "Content-Encoding": encoding})
    for length in (1 << 31, 1 << 32, 1 << 63, (1 << 70) - 1):
        yield Request("/api/v1/write", varint(length) + b"\x00a", SNAPPY)
    for headers in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"},
        {**SNAPPY, "Content-Encoding": "br"},
        {**SNAPPY, "Content-Encoding": "snappy, snappy"},
        {**SNAPPY, "Content-Type": "application/x-protobuf; proto=;;="},
        {},
    ):
        yield Request("/api/v1/write", snappy(b"a"), headers)


def _fine(draw: random.Random) -> bytes:
    """A right request, unpacked, whose samples are too old to be taken."""
    series = [
        (named(f"m{draw.randrange(9)}", a="b" * draw.randrange(9)), [(NOW_MS + k, draw.random()) for k in range(3)])
        for _ in range(draw.randrange(1, 5))
    ]
    return encode_write_request(series) + encode_metadata(1, "m", "help")


def _packed(raw: bytes, draw: random.Random) -> tuple[bytes, str]:
    return (snappy(raw), "snappy") if draw.random() < 0.8 else (zstd(raw), "zstd")


def _truncated(draw: random.Random) -> tuple[bytes, str]:
    body, encoding = _packed(_fine(draw), draw)
    return body[: draw.randrange(len(body))], encoding


def _flipped(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _bit_flipped(draw: random.Random) -> tuple[bytes, str]:
    body, encoding = _packed(_fine(draw), draw)
    return _flipped(body, draw), encoding


def _flipped_inside(draw: random.Random) -> tuple[bytes, str]:
    return _packed(_flipped(_fine(draw), draw), draw)


def _cut_inside(draw: random.Random) -> tuple[bytes, str]:
    raw = _fine(draw)
    return _packed(raw[: draw.randrange(len(raw))], draw)


def _wrong_lengths(draw: random.Random) -> tuple[bytes, str]:
    length = draw.choice((1 << 7, 1 << 20, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1, draw.randrange(300)))
    inner = draw.choice((b"\x0a", b"\x12", b"\x1a")) + varint(length) + b"x" * draw.randrange(20)
    return _packed(draw.choice((inner, protobuf(1, inner), protobuf(1, protobuf(1, inner)))), draw)


def _wrong_types(draw: random.Random) -> tuple[bytes, str]:
    tag = varint(draw.randrange(1, 20) << 3 | draw.randrange(8))
    inner = tag + bytes(draw.randrange(256) for _ in range(draw.randrange(12)))
    return _packed(_fine(draw) + draw.choice((inner, protobuf(1, inner), protobuf(3, inner))), draw)


def _noise(draw: random.Random) -> tuple[bytes, str]:
    raw = draw.randbytes(draw.randrange(200))
    return draw.choice(((raw, "snappy"), (raw, "zstd"), _packed(raw, draw)))


def _bad_labels(draw: random.Random) -> tuple[bytes, str]:
    text = draw.choice((b"", b"\xff\xfe", b"\xed\xa0\x80", b"\x00", b"n" * 5000, "ł".encode()))
    label = protobuf(1, protobuf(1, draw.choice((text, b"__name__"))) + protobuf(2, text))
    sample = b"\x12\x0a\x09" + struct.pack("<d", draw.random()) + b"\x10"
    return _packed(protobuf(1, label * draw.randrange(1, 90) + sample + varint(draw.getrandbits(64))), draw)


def _lying_header(draw: random.Random) -> tuple[bytes, str]:
    packed = snappy(_fine(draw))
    return varint(draw.getrandbits(draw.randrange(1, 64))) + packed[1:], "snappy"


def _deep(draw: random.Random) -> tuple[bytes, str]:
    inner = b""
    for _ in range(draw.randrange(2000)):
        inner = protobuf(draw.randrange(1, 6), inner)
    return _packed(inner + b"\x0b" * draw.randrange(2000), draw)


def form(**params: str) -> bytes:
    return urllib.parse.urlencode(params).encode()


def posted(path: str, body: bytes, content_type: str = FORM["Content-Type"]) -> Request:
    return Request(path, body, {"Content-Type": content_type})
