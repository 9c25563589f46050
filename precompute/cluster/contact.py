"""A query engine's contact with one server: the logs and notices of its shards, read on and on.

    poll      each half second: how far each shard's time is settled, its holes, and whether the server is the same
    read      what is new in logs and notices, as soon as it is there
    renew     at the start, after any failure and after a gap: which panes stand in each shard

A server that was started anew, or took another's place, may have lost the newest entries. If the last one that was read
is gone, LogRewound is raised, and nothing that was read of any log counts any more. So nothing is taken from a server
before that was looked at.
"""

import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from precompute.clock import Clock
from precompute.cluster.entries import BadEntry
from precompute.cluster.head_copy import HeadCopy
from precompute.cluster.log import MOST_AT_ONCE
from precompute.cluster.open_panes import OpenPanes
from precompute.cluster.replies import (
    entry_ms,
    entry_number,
    parse_entries,
    parse_holes,
    parse_state,
    parse_told,
    stream_id,
)
from precompute.cluster.server import INFO, Server, run_of, time_ms
from precompute.cluster.shard_copy import ShardCopy
from precompute.errors import LogDamaged, PrecomputeError
from precompute.log.base import Hole
from precompute.samples import I64

logger = logging.getLogger(__name__)

_POLL_S, _WAIT_MS = 0.5, 400
_READ_BYTES = 8 << 20
"""Of one read, of all logs of a server together."""
_FIRST_COUNT = 16
"""Entries of each log in the first read; of a later one at most twice as many as before, and `log.MOST_AT_ONCE`:
large ones may follow small ones."""
_NO_TIMES = np.zeros(0, np.int64)

_Entries = Sequence[tuple[int, dict[bytes, bytes]]]


class LogRewound(PrecomputeError):
    """A shard's log has lost entries that were read from it."""


class Contact:
    """See the module's text. One thread calls `keep_up` over and over; it raises ServerDown, LogDamaged, LogRewound."""

    def __init__(
        self, server: Server, copies: Sequence[ShardCopy], head: HeadCopy, panes: OpenPanes, clock: Clock
    ) -> None:
        self.server, self.copies = server, copies
        self._head, self._panes, self._clock = head, panes, clock
        self._run_id, self._polled_s = b"", -1e9
        self._count = _FIRST_COUNT
        self.damaged, self.stored = 0, False
        self.turned_s, self.trouble = clock.monotonic_s(), ""

    def lose(self) -> None:
        """What is known of panes does not count any more; it stays until `renew`. And whether the logs still have what
        was read of them is looked at first."""
        for copy in self.copies:
            copy.in_touch = False
        self._run_id, self._polled_s = b"", -1e9

    def keep_up(self) -> None:
        """Take in what is new; waits for some of it, less than a second."""
        self.turned_s = self._clock.monotonic_s()
        if self._clock.monotonic_s() - self._polled_s >= _POLL_S:
            self._poll()
        kept = self._panes.kept
        for copy in self.copies:
            if not copy.in_touch:
                self._renew(copy)
            elif copy.names() != kept.keys():
                self._load(copy, kept.keys() - copy.names())
        self._read()

    # -- poll

    def _poll(self) -> None:
        read = [copy.position for copy in self.copies]
        asked: list[tuple[str | int, ...]] = [INFO, ("TIME",)]
        for copy in self.copies:
            asked += [copy.shard.ask_state(), copy.shard.ask_holes()]
            asked.append(("XRANGE", copy.shard.told_key, "-", "+", "COUNT", 1))
        now_s, (info, time, *replies) = self._clock.monotonic_s(), self.server.ask_all(asked)
        self._polled_s = now_s
        self._notice_restart(info)
        server_ms = time_ms(time)
        for copy, position, at in zip(self.copies, read, range(0, len(replies), 3), strict=True):
            state = parse_state(replies[at])
            if position and (state is None or state.last < position):
                raise self._rewound(copy)
            if state is None:
                raise LogDamaged(f"shard {copy.shard.number} has no metadata in {self.server.name}")
            with self._head.lock:  # nobody begins anew meanwhile
                copy.polled(state, parse_holes(replies[at + 1]), server_ms, now_s)
            oldest_ms = state.base_ms - copy.shard.limits.future_ms  # when the first entry there is was appended
            self._head.forget_segments(copy.shard.number, oldest_ms // copy.shard.limits.segment_ms)
            first_told = replies[at + 2]
            copy.in_touch &= not copy.told or not first_told or entry_number(first_told[0][0]) <= copy.told

    def _notice_restart(self, info: bytes) -> None:
        if run_of(info) != self._run_id:
            self.lose()
            self._see_if_held()
            for copy in self.copies:
                copy.wait_for_nothing()
            self._run_id, self._polled_s = run_of(info), self._clock.monotonic_s()

    def _see_if_held(self) -> None:
        """Raises LogRewound where the last entry that was read of a log is gone."""
        read = [copy for copy in self.copies if copy.position]
        ids = [stream_id(copy.position) for copy in read]
        asked = [("XRANGE", copy.shard.log_key, last, last) for copy, last in zip(read, ids, strict=True)]
        for copy, found in zip(read, self.server.ask_all(asked) if asked else (), strict=True):
            if not found:
                raise self._rewound(copy)

    def _rewound(self, copy: ShardCopy) -> LogRewound:
        return LogRewound(f"shard {copy.shard.number} in {self.server.name} has lost its newest entries")

    # -- renew

    def _renew(self, copy: ShardCopy) -> None:
        copy.told = copy.shard.last_told()  # first: what is told after it is heard again, which changes nothing
        self._load(copy, self._panes.kept.keys())
        copy.in_touch = self.stored = True

    def _load(self, copy: ShardCopy, names: AbstractSet[str]) -> None:
        kept, asked = self._panes.kept, sorted(names)
        indexes = copy.shard.index(asked) if asked else []
        found = {name: index for name, index in zip(asked, indexes, strict=True) if name in kept}
        copy.load({name: a.width_ms for name, a in kept.items()}, found)

    # -- read

    def _read(self) -> None:
        logs = {copy.shard.log_key: copy.position for copy in self.copies}
        told = {copy.shard.told_key: copy.told for copy in self.copies}
        after = {key: stream_id(number) for key, number in (logs | told).items()}
        run, news = self.server.wait_for_news(after, _WAIT_MS, self._count)
        if run != self._run_id:
            self.lose()
            return
        entries = {copy.shard.log_key: parse_entries(news.get(copy.shard.log_key, ())) for copy in self.copies}
        self._count = _next_count(self._count, list(entries.values()))
        for copy in self.copies:
            with self._head.lock:
                if copy.position == logs[copy.shard.log_key]:  # else all is read anew
                    self._take(copy, entries[copy.shard.log_key])
            for number, fields in parse_entries(news.get(copy.shard.told_key, ())):
                notice = parse_told(number, fields)
                copy.hear(notice)
                self.stored |= notice.operation == "stored"

    def _take(self, copy: ShardCopy, entries: _Entries) -> None:
        for entry, fields in entries:
            copy.took(entry, self._times(copy, entry, fields[b"b"]) if b"b" in fields else _NO_TIMES)
        copy.reached(entries[-1][0] if entries else copy.position)

    def _times(self, copy: ShardCopy, entry: int, data: bytes) -> I64:
        """Times of an entry's samples, which the head has then; what a damaged one may have held is missing."""
        try:
            return self._head.add(copy.shard.number, data)
        except BadEntry as error:
            logger.error("entry %d of shard %d is damaged: %s", entry, copy.shard.number, error)
            self.damaged += 1
            own, ms = copy.shard.limits, entry_ms(entry)
            copy.damaged(Hole(ms - own.acceptance_ms, ms + own.future_ms))
            return _NO_TIMES


def _next_count(count: int, found: Sequence[_Entries]) -> int:
    """Entries of each log in the next read, after one of `count`: as many as fit into its bytes if every log has
    entries like those of the log where they are largest."""
    largest = max((_mean_bytes(entries) for entries in found if entries), default=0)
    fit = _READ_BYTES // (largest * len(found)) if largest else count
    return max(1, min(fit, 2 * count, MOST_AT_ONCE))


def _mean_bytes(entries: _Entries) -> int:
    return 64 + sum(sum(map(len, fields.values())) for _, fields in entries) // len(entries)
