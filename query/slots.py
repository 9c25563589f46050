"""How many queries are evaluated at the same time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from precompute.errors import TimedOut


class Slots:
    """`count` places; a query takes one for as long as it is evaluated here."""

    def __init__(self, count: int) -> None:
        self._places = threading.Semaphore(count)
        self._mine = threading.local()

    @contextmanager
    def taken(self, timeout_ms: int) -> Iterator[None]:
        """Hold a place inside the block. Raises TimedOut when none is free in time."""
        if not self._places.acquire(timeout=timeout_ms / 1000):
            raise TimedOut("query timed out in query queue")
        self._mine.held = True
        try:
            yield
        finally:
            self.give_back()

    def give_back(self) -> None:
        """Let go of this thread's place, if it holds one: from now on it only waits for another system."""
        if getattr(self._mine, "held", False):
            self._mine.held = False
            self._places.release()
