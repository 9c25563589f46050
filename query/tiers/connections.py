"""Connections to one HTTP server, kept open between requests."""

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_MOST_IDLE = 16
_GONE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, http.client.CannotSendRequest)


class Reply:
    """An answer whose body is yet to be read."""

    def __init__(self, sock: socket.socket, response: http.client.HTTPResponse) -> None:
        self._sock, self._response = sock, response
        self.status = response.status
        self.content_type = response.headers.get("Content-Type", "application/json")
        self.location = response.headers.get("Location", "an unnamed place")

    def read(self, size: int, timeout_s: float) -> bytes:
        """What has arrived, up to `size` bytes; empty at the end. Raises TimeoutError, IncompleteRead."""
        self._sock.settimeout(timeout_s)
        piece = self._response.read1(size) if self._response.length != 0 else b""
        if not piece and self._response.length:
            raise http.client.IncompleteRead(b"", self._response.length)
        if not piece:
            self._response.close()
        return piece

    def reusable(self) -> bool:
        """Whether all was read and the connection can carry another request."""
        return self._response.isclosed() and not self._response.will_close


class Connections:
    """Hands out one connection per request under way; any thread may call it."""

    def __init__(self, host: str, port: int | None, context: ssl.SSLContext | None) -> None:
        self._host, self._port, self._context = host, port, context
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    @contextmanager
    def answer(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> Iterator[Reply]:
        """Send a request; the reply's head has been read inside the block.

        A kept connection may have been closed by the other side meanwhile; the request is then sent once more,
        on a new one, so it must be one that can be repeated. Raises OSError and HTTPException as http.client does.
        """
        connection = self._take()
        try:
            reply = self._send(connection, method, target, body, headers, timeout_s)
            yield reply
            reusable = reply.reusable()
        except BaseException:
            connection.close()
            raise
        self._give_back(connection) if reusable else connection.close()

    def close(self) -> None:
        """Close those that carry no request now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _send(
        self, connection: http.client.HTTPConnection, method: str, target: str, body: bytes | None,
        headers: Mapping[str, str], timeout_s: float,
    ) -> Reply:  # fmt: skip
        kept = connection.sock is not None
        try:
            return _exchange(connection, method, target, body, headers, timeout_s)
        except _GONE:
            if not kept:
                raise
            connection.close()
            return _exchange(connection, method, target, body, headers, timeout_s)

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port)
        return http.client.HTTPSConnection(self._host, self._port, context=self._context)

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _exchange(
    connection: http.client.HTTPConnection, method: str, target: str, body: bytes | None,
    headers: Mapping[str, str], timeout_s: float,
) -> Reply:  # fmt: skip
    connection.timeout = timeout_s
    if connection.sock is not None:
        connection.sock.settimeout(timeout_s)
    connection.request(method, target, body, dict(headers))
    # taken before the response, which lets go of it where the other side will close the connection
    sock = connection.sock
    return Reply(sock, connection.getresponse())
