"""Token buckets, one per client, in bounded memory."""

import math
import threading
from collections import OrderedDict

from asap_project.security.errors import OverLimit
from precompute.clock import Clock

MOST_CLIENTS = 10_000
"""Clients that are remembered; of more, the one that was quiet for longest is forgotten, and its bucket is full."""


class Buckets:
    """Each client may do `burst` things at once and `per_s` a second in the long run. Any thread may call it."""

    def __init__(self, per_s: float, burst: int, clock: Clock, what: str) -> None:
        """what: the refusal's words, such as `more than 5 requests a second`."""
        self._per_s, self._burst, self._clock, self._what = per_s, burst, clock, what
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, client: str) -> None:
        """One thing more. Raises OverLimit, which costs the client nothing."""
        left = self._add(client, -1.0)
        if left < 0:
            self._add(client, 1.0)
            raise OverLimit(self._what, math.ceil(-left / self._per_s))

    def give_back(self, client: str) -> None:
        """What was taken last does not count."""
        self._add(client, 1.0)

    def _add(self, client: str, things: float) -> float:
        """What is left after the refill since the last time and this change; below 0 it was too much."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            left, at_s = self._left.pop(client, (float(self._burst), now_s))
            left = min(float(self._burst), left + (now_s - at_s) * self._per_s) + things
            self._left[client] = (min(float(self._burst), left), now_s)
            if len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
        return left
