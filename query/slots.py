"""How many queries are evaluated at the same time."""

import threading
from collections.abc import Callable, Iterator
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

    @contextmanager
    def lent(self, left_ms: Callable[[], int]) -> Iterator[None]:
        """Let others have this thread's place, if it holds one, inside the block; it holds one again after it.

        left_ms: what is left of the query's time. Raises TimedOut when no place is free in that time; where the
        block itself fails, that is what is told, and no place is waited for longer than that.
        """
        if not getattr(self._mine, "held", False):
            yield
            return
        self.give_back()
        try:
            yield
        except BaseException:
            self._take_again(left_ms())
            raise
        if not self._take_again(left_ms()):
            raise TimedOut("query timed out in query queue")

    def _take_again(self, timeout_ms: int) -> bool:
        self._mine.held = self._places.acquire(timeout=timeout_ms / 1000)
        return bool(self._mine.held)
