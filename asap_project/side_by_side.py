"""All roles of a cluster beside each other, each in a process of its own, and a parent that watches them.

    parent (this process)                            a role (forked)
    ──start──────────────────────────────────────►   serves, ticks, …
    a line, and start again a little later  ◄──────   ends, in whatever way, while nobody asked it to
    SIGTERM, SIGINT, SIGHUP  ──SIGTERM, in order──►   finish, exit 0
    exit 2  ◄──────────────────────────────────────   exit 2: it cannot start with this config
    killed  ────────────────────────parent gone───►   killed

What takes samples and queries is stopped first, so that the others finish what it left.
"""

import logging
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait

from asap_project.worker import END_S, MISCONFIGURED, end_with_the_parent, leave_at_once_on_stop_signals
from precompute.clock import Clock

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""How long after its end a role is started again: twice as long each time, until it has lived for the longest."""

KILLED_AFTER_S = END_S + 2
"""How long after SIGTERM a role is killed."""

_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Role:
    """A process to keep: its name in lines, and what it does until SIGTERM."""

    name: str
    run: Callable[[], None]
    stops_first: bool = False


def keep(roles: Sequence[Role], clock: Clock) -> int:
    """Keep these running until a stop signal or a role that cannot start with this config; the exit code."""
    kept = [_Kept(role, clock) for role in roles]
    with _stop_signals() as stopped:
        code = _watch(kept, stopped)
        wrong = [_stop([one for one in kept if one.role.stops_first is first]) for first in (True, False)]
    return code or int(any(wrong))


def _watch(kept: Sequence["_Kept"], stopped: socket.socket) -> int:
    while True:
        for one in kept:
            one.start_if_due()
        pauses = [one.pause_s() for one in kept if one.process is None]
        running = [one.process.sentinel for one in kept if one.process is not None]
        if stopped in wait([stopped, *running], min(pauses, default=None)):
            return 0
        if any(one.note_end() == MISCONFIGURED for one in kept):
            return MISCONFIGURED


def _stop(kept: Sequence["_Kept"]) -> bool:
    """SIGTERM to all, and SIGKILL to who does not end in time; whether one did not end as it should."""
    running = [one for one in kept if one.process is not None]
    for one in running:
        one.terminate()
    wrong = [one.joined() for one in running]
    return any(wrong)


class Pauses:
    """How long to wait before each start of what has ended."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S

    def after(self, lived_s: float) -> float:
        """The pause after an end, in seconds; lived_s: how long it had run."""
        pause_s = FIRST_PAUSE_S if lived_s > LONGEST_PAUSE_S else self._next_s
        self._next_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return pause_s


class _Kept:
    """A role and its process, None between an end and the next start."""

    def __init__(self, role: Role, clock: Clock) -> None:
        self.role, self._clock = role, clock
        self.process: multiprocessing.context.ForkProcess | None = None
        self._started_s, self._due_s, self._pauses = 0.0, clock.monotonic_s(), Pauses()

    def pause_s(self) -> float:
        """How long until it is to be started, or killed."""
        return max(0.0, self._due_s - self._clock.monotonic_s())

    def start_if_due(self) -> None:
        if self.process is not None or self.pause_s() > 0:
            return
        self._started_s = self._clock.monotonic_s()
        self.process = multiprocessing.get_context("fork").Process(
            target=_begin, args=(self.role.run,), name=self.role.name
        )
        # a signal that arrives before the child has its own handlers waits for them
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        self.process.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)

    def note_end(self) -> int | None:
        """The exit code of a process that has ended by itself, None while it runs."""
        if self.process is None or (code := self.process.exitcode) is None:
            return None
        self.process.close()
        self.process = None
        how = f"was killed by signal {-code}" if code < 0 else f"ended by itself with exit code {code}"
        then = "all are stopped" if code == MISCONFIGURED else f"it is started again in {self._postponed():g} s"
        logger.error("%s %s; %s", self.role.name, how, then)
        return code

    def _postponed(self) -> float:
        """Sets when the next start is due; seconds until then."""
        now_s = self._clock.monotonic_s()
        pause_s = self._pauses.after(now_s - self._started_s)
        self._due_s = now_s + pause_s
        return pause_s

    def terminate(self) -> None:
        """Ask the process to end."""
        assert self.process is not None
        self.process.terminate()
        self._due_s = self._clock.monotonic_s() + KILLED_AFTER_S

    def joined(self) -> bool:
        """Wait until the process has ended after `terminate`; whether it did not end as it should."""
        assert self.process is not None
        self.process.join(self.pause_s())
        if self.process.exitcode is None:
            logger.error("%s did not stop within %g s and is killed", self.role.name, KILLED_AFTER_S)
            self.process.kill()
            self.process.join()
        elif self.process.exitcode:
            logger.error("%s did not stop as it should (exit code %d)", self.role.name, self.process.exitcode)
        return self.process.exitcode != 0


def _begin(run: Callable[[], None]) -> None:
    """In the new process: its signals are its own, and it ends with its parent."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGHUP, lambda *_: os._exit(0))
    leave_at_once_on_stop_signals()
    end_with_the_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    run()


@contextmanager
def _stop_signals() -> Iterator[socket.socket]:
    """A socket that becomes readable when a stop signal arrives."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    with reader, writer:
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for stop in _STOPS:
            signal.signal(stop, lambda *_: None)
        yield reader
        signal.set_wakeup_fd(-1)
