"""A real HTTP server for tests, which answers as it is told to."""

import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

Reply = Callable[[http.server.BaseHTTPRequestHandler], None]


class Server:
    """A real HTTP server that notes what it was asked and answers with `reply`."""

    def __init__(self) -> None:
        self.reply: Reply = answering(200, b'{"status":"success"}')
        self.asked: list[tuple[str, str, dict[str, list[str]], dict[str, str]]] = []
        self.connections = 0
        self.url = ""

    def take(self, request: http.server.BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0)).decode()
        self.asked.append((request.command, url.path, parse_qs(body or url.query), dict(request.headers)))
        self.reply(request)


def answering(status: int, body: bytes, **headers: str) -> Reply:
    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        own = {name.replace("_", "-"): text for name, text in headers.items()}
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **own}.items():
            request.send_header(name, text)
        request.end_headers()
        request.wfile.write(body)

    return reply


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            server.connections += 1
            super().setup()

        def do_GET(self) -> None:
            server.take(self)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    if context is not None:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
    thread.start()
    server.url = f"{'https' if context else 'http'}://127.0.0.1:{listener.server_address[1]}"
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
