"""Which panes of one aggregation have a summary, and up to which log entry each has seen."""

import numpy as np

from precompute.samples import I64, Bool

NONE = -1


class PaneBook:
    """Per pane end the newest log entry in its summary; dense between the oldest and the newest pane.

    One writer at a time; `seen` may run beside it.
    """

    def __init__(self, width_ms: int) -> None:
        self.width_ms = width_ms
        self._state = (0, np.zeros(0, np.int64))

    def seen(self, ends_ms: I64) -> I64:
        """Per pane (int64[p]) the newest entry in its summary, NONE where it has none."""
        first, seen = self._state
        place = ends_ms // self.width_ms - first
        inside = (place >= 0) & (place < len(seen))
        out = np.full(len(ends_ms), NONE, np.int64)
        out[inside] = seen[place[inside]]
        return out

    def commit(self, ends_ms: I64, seen: I64) -> None:
        """These panes (int64[p], p > 0) have summaries now, which have seen these entries."""
        place = ends_ms // self.width_ms
        first, held = self._state
        low, high = int(place.min()), int(place.max()) + 1
        if len(held):
            low, high = min(low, first), max(high, first + len(held))
        grown = np.full(high - low, NONE, np.int64)
        if len(held):
            grown[first - low : first - low + len(held)] = held
        grown[place - low] = seen
        self._state = (low, grown)

    def forget(self, until_ms: int) -> None:
        """The panes that end at or before `until_ms` are gone."""
        first, seen = self._state
        cut = min(max(until_ms // self.width_ms + 1 - first, 0), len(seen))
        self._state = (first + cut, seen[cut:].copy())

    def rewind(self, after_ms: int) -> None:
        """The panes that end after `after_ms` are gone."""
        first, seen = self._state
        left = min(max(after_ms // self.width_ms + 1 - first, 0), len(seen))
        self._state = (first, seen[:left].copy())

    def newest_ms(self) -> int | None:
        """End of the newest pane that has a summary."""
        first, seen = self._state
        return (first + len(seen) - 1) * self.width_ms if len(seen) else None

    def ends(self) -> I64:
        """The ends of all panes that have a summary, ascending."""
        first, seen = self._state
        return (first + np.flatnonzero(seen != NONE)) * self.width_ms

    def panes(self) -> int:
        """How many panes have a summary."""
        return int((self._state[1] != NONE).sum())

    def dirty(self, ends_ms: I64, newest: I64) -> Bool:
        """Panes without a summary, or whose stretch holds an entry (`newest`, int64[p]) that theirs has not seen."""
        seen = self.seen(ends_ms)
        return np.asarray((seen == NONE) | (newest > seen))
