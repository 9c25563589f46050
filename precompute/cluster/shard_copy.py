"""What a query engine knows of one shard, from its log and its notices.

One thread changes a copy, its server's, but for `begin_anew` and `leave`; any thread reads it. What is read is never
ahead of the shard: a pane that counts as clean was so a moment ago.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from precompute.aggregations import Aggregation
from precompute.cluster.replies import ShardState, Told, entry_ms
from precompute.cluster.shard import Shard
from precompute.log.base import Hole
from precompute.pane_book import NONE, PaneBook
from precompute.progress import Progress, add_hole
from precompute.samples import I64, U8, Bool
from precompute.touched import Touched

_NONE_BAD = Progress(0, 0, 0, 0)

Indexes = Mapping[str, tuple[I64, I64, U8]]
"""By aggregation its panes in a shard: ends, the entries they have seen, flags."""


@dataclass
class _Panes:
    """Panes of one aggregation: which log entry each has seen, and the number of its last change."""

    width_ms: int
    seen: PaneBook = field(init=False)
    changed: PaneBook = field(init=False)

    def __post_init__(self) -> None:
        self.seen, self.changed = PaneBook(self.width_ms), PaneBook(self.width_ms)

    def commit(self, ends_ms: I64, seen: I64, change: int) -> None:
        """The number first: whoever finds a pane clean finds its new number."""
        if len(ends_ms):
            self.changed.commit(ends_ms, np.full(len(ends_ms), change, np.int64))
            self.seen.commit(ends_ms, seen)

    def drop(self, ends_ms: I64) -> None:
        self.seen.drop(ends_ms)
        self.changed.drop(ends_ms)


class ShardCopy:
    """See the module's text."""

    def __init__(self, shard: Shard, window_ms: int, changes: Iterator[int]) -> None:
        """changes: numbers that grow, shared by all shards."""
        self.shard, self._window_ms, self._changes = shard, window_ms, changes
        self.touched = Touched(window_ms)
        self.position, self.told = 0, 0
        self.state: ShardState | None = None
        """The newest one that is true of what has been read."""
        self.base_ms, self.in_touch = 0, False
        self.heard_alive_ms = 0
        """When somebody last listened, as the shard said last: perhaps ahead of what has been read."""
        self._heard_ms, self._heard_s = 0, 0.0
        self.holes: tuple[Hole, ...] = ()
        self._bad = _NONE_BAD
        self._ahead: ShardState | None = None
        self._panes: dict[str, _Panes] = {}
        self._leaving: list[tuple[str, I64]] = []
        self._lock = threading.Lock()

    # -- the log

    def took(self, entry: int, t_ms: I64) -> None:
        """A log entry was read, with samples at these times."""
        if len(t_ms):
            self.touched.note(t_ms, entry)

    def damaged(self, hole: Hole) -> None:
        """A log entry could not be read: what it may have held is missing."""
        self._bad = add_hole(self._bad, hole)

    @property
    def bad(self) -> tuple[Hole, ...]:
        """Where damaged entries may have had samples."""
        return self._bad.holes

    def reached(self, entry: int) -> None:
        """The log was read up to this entry."""
        self.position = entry
        self._catch_up()

    def begin_anew(self) -> None:
        """Nothing of the log has been read."""
        self.touched, self.position, self.state, self._ahead = Touched(self._window_ms), 0, None, None
        self._bad = _NONE_BAD

    def wait_for_nothing(self) -> None:
        """The server may have lost what the newest state spoke of."""
        self._ahead = None

    def polled(self, state: ShardState, holes: tuple[Hole, ...], server_ms: int, now_s: float) -> None:
        """The shard as it stands: it counts once the log has been read as far as it went then.

        server_ms: its server's clock, as our own monotonic one said `now_s`.
        """
        self.heard_alive_ms = state.alive_ms  # first: holes are forgotten by it
        self.holes, self.base_ms = holes, max(self.base_ms, state.base_ms)
        self._heard_ms, self._heard_s = server_ms, now_s
        self._ahead = self._ahead or state
        self._catch_up()

    def _catch_up(self) -> None:
        if self._ahead is not None and self.position >= self._ahead.last:
            self.state, self._ahead = self._ahead, None
            self.touched.forget(self.state.final_ms - self.shard.limits.kept_ms)

    def behind_ms(self, now_s: float) -> int | None:
        """How old is what is known of the log; None where nothing is."""
        until_ms = entry_ms(self.position) if self.state is None else self.state.alive_ms
        return int(self._heard_ms - until_ms + 1000 * (now_s - self._heard_s)) if until_ms else None

    def behind_text(self, now_s: float) -> str:
        """The same for a user."""
        behind_ms = self.behind_ms(now_s)
        how = "has not been read yet" if behind_ms is None else f"is {behind_ms / 1000:.0f} s behind"
        return f"shard {self.shard.number} {how}"

    # -- its panes

    def names(self) -> frozenset[str]:
        """Aggregations whose panes are known."""
        return frozenset(self._panes)

    def load(self, widths: Mapping[str, int], indexes: Indexes) -> None:
        """Aggregations of these widths are kept, each with the panes of its index, or as known where it has none."""
        with self._lock:
            change, known = next(self._changes), {n: p for n, p in self._panes.items() if n in widths}
            for name, (ends, seen, _) in indexes.items():
                known[name] = _Panes(widths[name])
                known[name].commit(ends, seen, change)
            self._panes = known

    def hear(self, told: Told) -> None:
        """A notice. What was stored stays known until `leave`."""
        self.told = told.number
        with self._lock:
            panes = self._panes.get(told.aggregation_id)
            if panes is None:
                return
            if told.operation == "commit":
                panes.commit(told.ends_ms, np.full(len(told.ends_ms), told.seen, np.int64), next(self._changes))
            elif told.operation == "dropped":
                panes.drop(told.ends_ms)
            else:
                self._leaving.append((told.aggregation_id, told.ends_ms))

    def leaving(self) -> list[tuple[str, I64]]:
        """Panes that the long-term store has, and the shard has not any more."""
        with self._lock:
            return list(self._leaving)

    def leave(self, leaving: list[tuple[str, I64]]) -> None:
        """These are read from the long-term store from now on: the first of those that are leaving."""
        with self._lock:
            self._leaving = self._leaving[len(leaving) :]
            for name, ends in leaving:
                if name in self._panes:
                    self._panes[name].drop(ends)

    def changed(self, aggregation: Aggregation, ends_ms: I64) -> I64:
        """Per pane end the number of its last change, int64[p]; NONE where it is not here."""
        panes = self._panes.get(aggregation.id)
        return np.full(len(ends_ms), NONE, np.int64) if panes is None else panes.changed.seen(ends_ms)

    def seen(self, aggregation: Aggregation, ends_ms: I64) -> I64:
        """Per pane end the newest log entry in its partial, int64[p]; NONE where it is not here."""
        panes = self._panes.get(aggregation.id)
        return np.full(len(ends_ms), NONE, np.int64) if panes is None else panes.seen.seen(ends_ms)

    def ends(self, aggregation: Aggregation, after_ms: int, until_ms: int) -> I64:
        """Ends of its panes, ascending."""
        panes = self._panes.get(aggregation.id)
        return np.zeros(0, np.int64) if panes is None else panes.seen.ends(after_ms, until_ms)

    def newest_ms(self, aggregation: Aggregation) -> int | None:
        """End of its newest pane."""
        panes = self._panes.get(aggregation.id)
        return None if panes is None else panes.seen.newest_ms()

    def dirty(self, aggregation: Aggregation, ends_ms: I64) -> Bool:
        """Panes that are not here, or lack a sample; bool[p]."""
        panes = self._panes.get(aggregation.id)
        if panes is None:
            return np.ones(len(ends_ms), np.bool_)
        return panes.seen.dirty(ends_ms, self.touched.newest(ends_ms - aggregation.reach_ms, ends_ms))
