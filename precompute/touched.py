"""Which log entry last touched which stretch of time: what makes panes dirty.

Time is cut into granules like panes, `(end - width, end]`, of the default pane width; every pane's width is
a multiple of it. Per granule the id of the last log entry with a sample in it is kept.
"""

import numpy as np

from precompute.kernels.windows import window_max
from precompute.samples import I64

_SPARE = 64


class Touched:
    """Not locked: the caller holds the node's lock to `note` and `forget`; `newest` may run beside them."""

    def __init__(self, width_ms: int) -> None:
        self.width_ms = width_ms
        self._state = (0, np.zeros(0, np.int64))

    def note(self, t_ms: I64, entry: int) -> None:
        """Entry `entry` holds samples at these times, int64[n], n > 0."""
        granules = -(-t_ms // self.width_ms)
        lowest, highest = int(granules.min()), int(granules.max())
        first, last = self._covering(lowest, highest)
        if lowest == highest:
            last[lowest - first] = entry
        else:
            last[granules - first] = entry

    def newest(self, after_ms: I64, until_ms: I64) -> I64:
        """Per interval `(after, until]`, int64[p] each, the last entry with a sample in a granule it meets; 0 if none.

        On the grid that is the last one in the interval; off the grid it may be a newer one beside it. It grows as
        entries are noted, and shrinks only where the interval meets granules that are forgotten.
        """
        first, last = self._state
        return np.asarray(window_max(last, after_ms // self.width_ms - first, -(-until_ms // self.width_ms) - first))

    def renew(self, entry: int) -> None:
        """What all granules hold may be other samples than before, since `entry`."""
        first, last = self._state
        self._state = (first, np.full(len(last), entry, np.int64))

    def forget(self, until_ms: int) -> None:
        """Let go of granules that end at or before `until_ms`."""
        first, last = self._state
        cut = min(max(until_ms // self.width_ms + 1 - first, 0), len(last))
        self._state = (first + cut, last[cut:].copy())

    def _covering(self, lowest: int, highest: int) -> tuple[int, I64]:
        first, last = self._state
        if not len(last):
            self._state = (lowest, np.zeros(highest - lowest + _SPARE, np.int64))
        elif lowest < first or highest >= first + len(last):
            start = min(first, lowest)
            grown = np.zeros(max(first + len(last), highest + _SPARE) - start, np.int64)
            grown[first - start : first - start + len(last)] = last
            self._state = (start, grown)
        return self._state
