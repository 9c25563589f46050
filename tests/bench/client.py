"""The measuring client: one connection, kept alive, one request at a time."""

import http.client
import json
import time
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

REQUEST_S = 600.0
WRITE_HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


@dataclass(frozen=True)
class Reply:
    """An answer and the seconds from the request's first byte sent to the answer's last byte read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    took_s: float

    def json(self) -> Any:
        return json.loads(self.body)

    def checked(self, status: int = 200) -> Self:
        """Itself; AssertionError with the text when it has another status."""
        assert self.status == status, f"answered {self.status}: {self.body[:500]!r}"
        return self


class Client:
    """Speaks to one server."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=REQUEST_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        begun_s = time.perf_counter()
        self._connection.request(method, path, body, dict(headers or {}))
        with self._connection.getresponse() as answer:
            text = answer.read()
            took_s = time.perf_counter() - begun_s
            return Reply(answer.status, dict(answer.getheaders()), text, took_s)

    def get(self, path: str, **parameters: str) -> Reply:
        return self.request("GET", f"{path}?{urllib.parse.urlencode(parameters)}" if parameters else path)

    def send(self, path: str, bodies: Iterable[bytes]) -> float:
        """Write all bodies, each of which must be taken with 204; the seconds that the requests took together."""
        took_s = 0.0
        for body in bodies:
            took_s += self.request("POST", path, body, WRITE_HEADERS).checked(204).took_s
        return took_s

    def metric(self, name: str) -> float:
        """A metric without labels, from /metrics."""
        for line in self.get("/metrics").checked().body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(f"/metrics has no {name}")
