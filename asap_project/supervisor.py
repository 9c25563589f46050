"""One worker process that holds everything, and a parent that watches it.

    parent (this process)                         worker (forked)
    port free? database up to date? ──spawn──►    wiring.start(config), Django, HTTP
    SIGTERM, SIGINT  ────────────────SIGTERM─►    refuse writes, drain queries, commit, close, exit 0
    exit 1 and a sentence  ◄─────────crash────
    killed  ──────────────────────parent gone─►   killed

HTTP is granian's WSGI server. It waits for requests that are under way, so a half-sent one would hold the
worker up; the drain has a deadline of its own.
"""

import _thread
import errno
import socket
import sys
from pathlib import Path
from typing import Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from asap_project.config import Config
from asap_project.config.schema import Tls
from asap_project.worker import END_S, EXPLAINED, MISCONFIGURED, Worker

BACKLOG = 1024
"""Connections that may wait to be accepted."""

REQUEST_THREADS = 512
"""Most requests under way. A thread is made when one is needed, and is held while a slow sender's body arrives,
so there must be many more than work at the same time; how many queries do is query_engine.threads."""


class _Server(MPServer):
    """Granian's server on a socket of ours, and with a memory of how its worker ended."""

    exit_code = 0

    def __init__(self, listener: socket.socket, **options: Any) -> None:
        super().__init__("asap", **options)
        self._listener = listener

    def _init_shared_socket(self) -> None:
        """Granian's own sockets share a port with others of their kind, so a second ASAP would not notice the first."""
        self._ssp = None
        self._shd = SocketHolder(self._listener.fileno(), False, BACKLOG)  # type: ignore[call-arg,assignment]
        self._sso = self._listener

    def signal_handler_interrupt(self, *_: Any, **__: Any) -> None:
        """Not here: it sets an event whose lock the main thread may hold when a signal, a second one, interrupts it."""
        _thread.start_new_thread(super().signal_handler_interrupt, ())

    def signal_handler_reload(self, *_: Any, **__: Any) -> None:
        """SIGHUP: a closed terminal means stop. Granian would start a second worker on the log of the first."""
        self.signal_handler_interrupt()

    def shutdown(self, exit_code: int = 0) -> None:
        ended = list(self.wrks)
        try:
            super().shutdown(exit_code)  # type: ignore[no-untyped-call]
        finally:
            self.exit_code = next((worker.inner.exitcode for worker in ended if worker.inner.exitcode), 0)


def serve(listener: socket.socket, tls: Tls, roles: frozenset[str] = frozenset()) -> None:
    """Serve on `listener`, by TLS where there are files for it, until SIGTERM or SIGINT: all, or roles of a cluster.

    Raises SystemExit when the worker did not end well.
    """
    worker = Worker(roles)
    server = _Server(
        listener,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(),
        websockets=False,
        workers=1,
        blocking_threads=REQUEST_THREADS,
        workers_kill_timeout=END_S,
        log_level=LogLevels.critical,
        ssl_cert=Path(tls.cert_file) if tls.cert_file else None,
        ssl_key=Path(tls.key_file) if tls.key_file else None,
        ssl_protocol_min=SSLProtocols.tls12,
    )
    try:
        server.serve(spawn_target=worker.run, target_loader=worker.application)
    except SystemExit as end:
        raise SystemExit(_last_words(server.exit_code)) from end
    if server.exit_code:
        raise SystemExit(f"asap: the worker did not stop as it should (exit code {server.exit_code})")


def listen(config: Config) -> socket.socket:
    """A listening socket for the HTTP API; exits with 1 and a line when there cannot be one."""
    host, port = config.query_engine.http_host, config.query_engine.http_port
    listener = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, proto, _, address = found[0]
        listener = socket.socket(family, kind, proto)
        _prepare(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        print(f"asap: cannot listen on {host}:{port}: {_reason(error)}", file=sys.stderr)
        raise SystemExit(1) from error
    return listener


def _prepare(listener: socket.socket) -> None:
    """Connections inherit these: a peer that is gone without a word frees its thread after two minutes.

    Without TCP_NODELAY the last piece of an answer waits 40 ms for the peer to acknowledge the one before.
    """
    listener.setblocking(False)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; stop what listens there or choose another with --query-engine.http-port"
    return f"{error.strerror}; see query_engine.http_host and query_engine.http_port"


def _last_words(code: int) -> int | str:
    """For an end nobody asked for: a code where the worker has spoken, else a sentence (and code 1)."""
    if code in (MISCONFIGURED, EXPLAINED):
        return 2 if code == MISCONFIGURED else 1
    how = f"was killed by signal {-code}" if code < 0 else f"ended by itself with exit code {code}"
    return f"asap: the worker {how}; acknowledged samples are in the log and are read back at the next start"
