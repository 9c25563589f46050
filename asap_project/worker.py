"""The worker process: builds everything, serves, and shuts down in order and in time."""

import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

logger = logging.getLogger(__name__)

DRAIN_S = 5.0
"""How long requests that are under way may take to end after SIGTERM."""

END_S = 9.0
"""How long after SIGTERM the process ends, come what may; nothing acknowledged is lost by that."""

MISCONFIGURED = 2
"""Exit code of a worker that cannot start with this config and has said why."""

EXPLAINED = 3
"""Exit code of a worker that could not start and has said why."""

_PR_SET_PDEATHSIG = 1


class Running(Protocol):
    """What wiring's `start` returns: the core, running."""

    def stop_accepting(self) -> None:
        """Refuse writes from now on; queries go on. Returns at once; called from a thread of its own."""

    def shutdown(self) -> None:
        """Finish the batch, commit, close the log. Requests that would not end may still be under way."""

    def ready(self) -> bool:
        """Whether queries can be answered."""


class Worker:
    """One worker process's life. `run` and `application` are called inside it, by granian.

    roles: those of a cluster that it serves; none for a single node.
    """

    def __init__(self, roles: frozenset[str]) -> None:
        self._roles = roles
        self._running: Running | None = None
        self._refusing, self._refused = threading.Lock(), False
        self._ending = threading.Lock()

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Serve until a signal, then shut down: granian's spawn target."""
        from granian.server.mp import MPServer

        leave_at_once_on_stop_signals()
        end_with_the_parent()
        try:
            MPServer._spawn_wsgi_worker(*args, **kwargs)
        finally:
            self._finish()

    def application(self, _target: str) -> Callable[..., Any]:
        """Start the core, then Django: granian's target loader.

        Exits with MISCONFIGURED or EXPLAINED, and a line, when the core refuses to start.
        """
        import django
        from django.conf import settings

        django.setup()
        from asap_project.config.derived import exposed
        from asap_project.roles import start_http
        from asap_project.welcome import welcome
        from precompute.errors import BadExpression, InstallMismatch, PrecomputeError, UnfitServer

        try:
            self._running = start_http(settings.ASAP.config, self._roles)
        except PrecomputeError as error:
            print(f"asap: {error}", file=sys.stderr)
            of_config = isinstance(error, (BadExpression, InstallMismatch, UnfitServer))
            raise SystemExit(MISCONFIGURED if of_config else EXPLAINED) from error
        on_stop_signal(self._stop)
        print(welcome(settings.ASAP.config, self._roles), flush=True)
        for lack in exposed(settings.ASAP.config):
            logger.warning("%s", lack)
        from asap_project.wsgi import application

        return application

    def _stop(self) -> None:
        """On SIGTERM, beside the server's own draining: refuse writes at once, and end although a request does not."""
        last = threading.Timer(END_S, os._exit, [1])
        last.daemon = True
        last.start()
        self._refuse()
        threading.Event().wait(DRAIN_S)
        logger.warning("requests were still under way %g s after the stop signal and are cut off", DRAIN_S)
        self._finish()
        os._exit(0)

    def _refuse(self) -> None:
        """Refuse writes, once."""
        with self._refusing:
            if self._running is not None and not self._refused:
                logger.info("stopping: writes are refused, what is under way is finished")
                self._running.stop_accepting()
                self._refused = True

    def _finish(self) -> None:
        """Shut the core down, once; whoever comes second waits until that is done."""
        self._refuse()
        with self._ending:
            running, self._running = self._running, None
            if running is not None:
                running.shutdown()
                logger.info("stopped")


def leave_at_once_on_stop_signals() -> None:
    """Until the server sets its own handlers nothing was accepted, so there is nothing to finish.

    The process group of our own keeps a terminal's Ctrl-C to the parent, which passes it on once.
    """
    os.setpgid(0, 0)
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, lambda *_: os._exit(0))


def end_with_the_parent() -> None:
    """End at once when the supervisor is gone: no orphan keeps the port and the log from the next start.

    That is a crash like any other; what was acknowledged is in the log.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_watch, args=(parent,), name="asap-parent", daemon=True).start()


def _watch(parent: Any) -> None:
    """The parent's death before prctl, or where there is none, is seen here."""
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


def on_stop_signal(act: Callable[[], None]) -> None:
    """Call `act` in a thread of its own as soon as SIGTERM or SIGINT arrives, beside the handlers that are set.

    The interpreter writes each signal's number to a socket; handlers stay the server's.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    stops = {signal.SIGTERM, signal.SIGINT}

    def wait() -> None:
        with reader, writer:
            while not stops.intersection(reader.recv(64)):
                pass
            act()

    threading.Thread(target=wait, name="asap-stop", daemon=True).start()
