"""How a role is, over HTTP: its health, whether it is ready, and its metrics.

Worker and scheduler, which have no HTTP API, serve this from a few threads of their own.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from asap_project.config.schema import Cluster

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 16
"""More at the same time are closed at once."""

SLOWEST_S = 5.0
"""How long a client may take to send its request, or to take the answer."""

NOT_HERE = b"here are /-/healthy, /-/ready and /metrics\n"

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Condition:
    """What a role says of itself. The functions give None where all is well, else why it is not."""

    healthy: Callable[[], str | None]
    ready: Callable[[], str | None]
    registry: CollectorRegistry


class Page(NamedTuple):
    """An answer."""

    status: int
    media_type: str
    body: bytes


def page(condition: Condition, path: str) -> Page | None:
    """What a GET of `path` is answered with; None where there is no such page."""
    if path == "/-/healthy":
        return _state("ASAP is healthy.", condition.healthy())
    if path == "/-/ready":
        return _state("ASAP is ready.", condition.ready())
    if path == "/metrics":
        return Page(200, CONTENT_TYPE_LATEST, generate_latest(condition.registry))
    return None


def _state(fine: str, why_not: str | None) -> Page:
    return Page(503 if why_not else 200, _TEXT, f"{why_not or fine}\n".encode())


class HealthServer:
    """Serves a condition until `stop`, or until the process ends: nothing of it keeps the process alive."""

    def __init__(self, host: str, port: int, condition: Condition) -> None:
        """Listens at once; port 0 is one that is free. Raises OSError where it cannot."""
        self._server = _Server(host, port, _handler(condition))
        self._thread = threading.Thread(target=self._server.serve_forever, name="asap-health", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Listen no more; answers that are under way are not waited for."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A thread for each connection, and a bound on them."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Without the base's look-up of the host's name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "asap", int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; a collector that failed is."""
        level = logging.DEBUG if isinstance(sys.exc_info()[1], ConnectionError) else logging.ERROR
        logger.log(level, "a health page could not be answered", exc_info=True)


def _handler(condition: Condition) -> type[BaseHTTPRequestHandler]:
    """What answers one connection: one request, then it is closed."""

    class Handler(BaseHTTPRequestHandler):
        timeout = SLOWEST_S

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, with_body: bool) -> None:
            found = page(condition, urlsplit(self.path).path) or Page(404, _TEXT, NOT_HERE)
            self.send_response(found.status)
            self.send_header("Content-Type", found.media_type)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body if with_body else b"")

        def log_message(self, *_: Any) -> None:
            """Requests are no news."""

    return Handler


def serve_health(config: Cluster, condition: Condition) -> HealthServer | None:
    """A server where `cluster.health_host` and `health_port` say, started; None where the port is 0.

    Exits with 1 and a line when it cannot listen there.
    """
    if not config.health_port:
        return None
    try:
        server = HealthServer(config.health_host, config.health_port, condition)
    except OSError as error:
        where = f"{config.health_host}:{config.health_port}"
        print(f"asap: cannot listen on {where}: {error.strerror}; see cluster.health_port", file=sys.stderr)
        raise SystemExit(1) from error
    server.start()
    return server
