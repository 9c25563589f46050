"""The timer of a single node: it calls the Celery task, eagerly, when a pane has just been sealed."""

import threading

from django.db import close_old_connections, connection

from ingest.sources.base import Pace
from precompute.clock import Clock
from precompute.intake import Intake
from precompute.lasting import attempt
from precompute.tasks import tick


class Ticker:
    """One thread; a tick at each multiple of the pane width plus the allowed lateness, and when asked for one."""

    def __init__(self, intake: Intake, width_ms: int, lateness_ms: int, clock: Clock) -> None:
        self._intake, self._stopped, self._woken = intake, threading.Event(), threading.Event()
        self._pace = Pace(width_ms, lateness_ms, clock)
        self._thread = threading.Thread(target=self._run, name="asap-ticker")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more ticks; waits for the running one, which ends with its batch once the engine is shut down."""
        self._stopped.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def kick(self) -> None:
        """A tick now, or as soon as the running one has ended. Returns at once."""
        self._woken.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            if self._stopped.is_set():  # between the two
                break
            self._tick()
            for _ in self._pace.beats(self._woken):
                self._tick()
        connection.close()

    def _tick(self) -> None:
        close_old_connections()
        attempt(self._intake.heartbeat, "the heartbeat")
        attempt(tick.delay, "a tick")
