"""How much is unpacked and decoded at the same time: a few packed bytes may become many, and their columns more."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from precompute.errors import Rejected

_WAIT_S = 2.0


class Room:
    """For bodies of up to `max_bytes` unpacked, all together; one body has room whatever its size."""

    def __init__(self, max_bytes: int, wait_s: float = _WAIT_S) -> None:
        self._max_bytes, self._wait_s = max_bytes, wait_s
        self._freed = threading.Condition()
        self._used = 0

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Hold `size` bytes inside the block. Raises Rejected where they do not become free in a short while."""
        with self._freed:
            if not self._freed.wait_for(lambda: not self._used or self._used + size <= self._max_bytes, self._wait_s):
                raise Rejected(f"other bodies of {self._used} bytes are being decoded", retry_after_s=1)
            self._used += size
        try:
            yield
        finally:
            with self._freed:
                self._used -= size
                self._freed.notify_all()
