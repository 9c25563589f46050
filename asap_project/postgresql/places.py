"""A process' places at a PostgreSQL: a connection holds one from before it is made until it is closed.

Whoever finds none free waits, but not for long. Where a connection fails all who wait are told so at once: they would
only find out one after the other, each for itself.
"""

import threading
from weakref import WeakSet

import psycopg

WAIT_S = 5.0


class NoPlace(psycopg.OperationalError):
    """No connection was made, since too many are in use."""


class Place:
    """One that is taken. Who forgets it has left it."""


class Places:
    """Any thread may call it."""

    def __init__(self, most: int) -> None:
        self._most, self._failures = most, 0
        self._taken: WeakSet[Place] = WeakSet()
        self._changed = threading.Condition()

    def take(self) -> Place:
        """Waits for WAIT_S at most. Raises NoPlace."""
        with self._changed:
            before = self._failures
            self._changed.wait_for(lambda: self._is_free() or self._failures != before, WAIT_S)
            if self._failures != before:
                raise NoPlace("the server failed while others waited for a connection to it")
            if not self._is_free():
                raise NoPlace(f"all {self._most} connections of this process were in use for {WAIT_S:.0f} s")
            place = Place()
            self._taken.add(place)
            return place

    def leave(self, place: Place, failed: bool) -> None:
        """failed: there was no connection, or it was lost."""
        with self._changed:
            self._taken.discard(place)
            self._failures += failed
            if failed:
                self._changed.notify_all()
            else:
                self._changed.notify()

    def _is_free(self) -> bool:
        return len(self._taken) < self._most
