"""The load of `make bench-http`: a process of its own that asks one request over several connections, kept alive.

It knows just enough of HTTP/1.1 to see where an answer ends, so that it costs little beside the server. It is told on
stdin, in one JSON line: host, port, request (its bytes as latin-1), connections, warm_s, measured_s. It says `warm`
after warming, waits for a line, measures, and says in one JSON line what it saw.
"""

import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

_AT_ONCE = 1 << 18


@dataclass
class Connection:
    """One socket, on which one request is under way."""

    socket: socket.socket
    begun_s: float = 0.0
    received: bytearray = field(default_factory=bytearray)

    def ask(self, request: bytes) -> None:
        self.received.clear()
        self.begun_s = time.perf_counter()
        self.socket.sendall(request)


def main() -> None:
    told = json.loads(sys.stdin.readline())
    request = told["request"].encode("latin-1")
    with selectors.DefaultSelector() as ready:
        for _ in range(told["connections"]):
            made = socket.create_connection((told["host"], told["port"]))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.register(made, selectors.EVENT_READ, Connection(made))
        _load(ready, request, told["warm_s"])
        print("warm", flush=True)
        sys.stdin.readline()
        print(json.dumps(_load(ready, request, told["measured_s"])), flush=True)


def _load(ready: selectors.DefaultSelector, request: bytes, seconds: float) -> dict[str, Any]:
    """Ask again on each connection as soon as it has answered; ends when the last has, after so many seconds."""
    took_s: list[float] = []
    cpu_s, begun_s = time.process_time(), time.perf_counter()
    body = b""
    busy = [key.data for key in ready.get_map().values()]
    for connection in busy:
        connection.ask(request)
    under_way = len(busy)
    while under_way:
        for key, _ in ready.select():
            connection = key.data
            piece = connection.socket.recv(_AT_ONCE)
            assert piece, "the server has closed a connection"
            connection.received += piece
            if not is_whole(connection.received):
                continue
            now_s = time.perf_counter()
            took_s.append(now_s - connection.begun_s)
            if now_s - begun_s < seconds:
                connection.ask(request)
            else:
                under_way -= 1
                body = bytes(connection.received)
    wall_s = time.perf_counter() - begun_s
    return {"took_s": took_s, "wall_s": wall_s, "cpu_s": time.process_time() - cpu_s, "answer": body.decode("latin-1")}


def is_whole(received: bytearray) -> bool:
    """Whether an answer has come to its end: by its Content-Length, or by its last chunk."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = bytes(received[:end]).lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        return received.endswith(b"\r\n0\r\n\r\n")
    length = int(head[at + 17 :].split(b"\r\n", 1)[0])
    return len(received) >= end + 4 + length


def body_of(answer: bytes) -> bytes:
    """The body of a whole answer, put together from its chunks where it came in such."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), answer[:500]
    if b"\r\ncontent-length:" in head.lower():
        return rest
    pieces = []
    while (size := int(rest.partition(b"\r\n")[0], 16)) > 0:
        rest = rest.partition(b"\r\n")[2]
        pieces.append(rest[:size])
        rest = rest[size + 2 :]
    return b"".join(pieces)


if __name__ == "__main__":
    main()
