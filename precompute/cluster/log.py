"""One shard's log as a `SampleLog`: entries of its stream, read by explicit ids.

Ids grow but are not dense. Floor and future are the shard's (docs/cluster.md): what they do not let in is Rejected.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from precompute.cluster.entries import BadEntry, EntryReader
from precompute.cluster.replies import Appended, ShardState, appended, entry_ms
from precompute.cluster.server import Call, ServerDown, ServerFull
from precompute.cluster.shard import Shard
from precompute.cluster.writing import LocalIds, ShardWriter, entries_of
from precompute.errors import LogDamaged, Rejected
from precompute.labels import SeriesTable
from precompute.log.base import Entry, Hole
from precompute.samples import Block

logger = logging.getLogger(__name__)

_READ_BYTES = 8 << 20
_FIRST_COUNT, MOST_AT_ONCE = 16, 128
"""Entries of one read: large ones may follow small ones."""
MOST_TRIES = 5
"""New beginnings in a row; more than two mean that something is wrong."""


class RedisSampleLog:
    """See `precompute.log.base` for the contract. `append` is for one thread at a time; so is `read`."""

    def __init__(self, shard: Shard, table: SeriesTable, most_entries: int = MOST_AT_ONCE) -> None:
        """most_entries: that are read at once."""
        self.shard, self.most_entries = shard, most_entries
        self.damaged_records = 0
        """Entries found that could not be read."""
        self._writer = ShardWriter(LocalIds(table))
        self._reader: _Reading | None = None

    # -- writing

    def append(self, block: Block) -> int:
        return [self._append_part(block.take(rows)) for rows in entries_of(block.t_ms)][-1]

    def append_hole(self, hole: Hole) -> int:
        return self._run(self.shard.hole_call(hole))[0].entry

    def check_room(self) -> None:
        state, limits = self._state(), self.shard.limits
        lacking = limits.lacking(state.bytes - state.cut + state.wanted, state.bytes - state.read + state.wanted)
        if lacking:
            raise self._refused(lacking)

    def rotate(self, table: SeriesTable) -> None:
        self._writer = ShardWriter(LocalIds(table))

    def trim(self, before_ms: int) -> None:
        self.shard.trim(before_ms)

    def sync(self) -> None:
        """What survives a power cut is decided by the server's own settings."""

    def close(self) -> None:
        """The server's connections are not the log's."""

    def _append_part(self, block: Block) -> int:
        for _ in range(MOST_TRIES):
            prepared = self._writer.prepare(block)
            reply, is_only_try = self._run(self.shard.append_call(prepared.samples))
            if reply.outcome in ("ok", "dup"):
                self._writer.wrote(prepared)
                return reply.entry or self.last_id()
            if is_only_try:
                self._writer.refused()
            if reply.outcome != "restart":
                raise self._refused(reply.why or f"a sample's time is refused as {reply.outcome}: {reply.number}")
            self._writer.begin(reply.number)
        raise self._refused(f"asked for {MOST_TRIES} new beginnings")

    def _run(self, call: Call) -> tuple[Appended, bool]:
        """The answer, and whether nothing else was sent: again where the server does not answer, and what was carried
        out at first is a dup then."""
        try:
            with suppress(ServerDown):
                return appended(self.shard.server.run(call)), True
            return appended(self.shard.server.run(call)), False
        except (ServerDown, ServerFull) as error:
            raise Rejected(str(error)) from error

    def _refused(self, why: str) -> Rejected:
        return Rejected(f"shard {self.shard.number} takes no samples now: {why}")

    # -- reading

    def read(self, after: int, table: SeriesTable) -> Iterator[Entry]:
        """As in the contract; cheap where it goes on from the last entry read into the same table, else the log is
        read from its first entry, since that is where its series are defined."""
        reader = self._reader
        if reader is None or reader.table is not table or reader.position != after:
            reader = self._reader = _Reading(self, table)
        until = self.last_id()
        return (entry for entry in reader.entries(until) if entry.id > after)

    def last_id(self) -> int:
        return self._state().last

    def size_bytes(self) -> int:
        state = self._state()
        return state.bytes - state.cut

    def oldest_ms(self) -> int | None:
        """Reads all of the log."""
        blocks = [entry.block for entry in _Reading(self, SeriesTable()).entries(self.last_id())]
        return min((int(block.t_ms.min()) for block in blocks if block is not None), default=None)

    def put_aside(self, entry: int, data: bytes, why: str) -> Hole:
        """Keep bytes that are no entry, and note and say what they may have held."""
        self.damaged_records += 1
        logger.error("entry %d of shard %d is damaged: %s; it is kept in Redis", entry, self.shard.number, why)
        at_ms, limits = entry_ms(entry), self.shard.limits
        hole = Hole(at_ms - limits.acceptance_ms, at_ms + limits.future_ms)
        self.shard.put_aside(entry, data, hole)
        return hole

    def _state(self) -> ShardState:
        state = self.shard.state()
        if state is None:
            raise LogDamaged(f"shard {self.shard.number} has no metadata in {self.shard.server.name}")
        return state


class _Reading:
    """Where somebody stands who reads the log into a table."""

    def __init__(self, log: RedisSampleLog, table: SeriesTable) -> None:
        self.table, self.position = table, 0
        self._log, self._blocks = log, EntryReader(table)
        self._count = _FIRST_COUNT

    def entries(self, until: int) -> Iterator[Entry]:
        """From here on, as far as they were there when `until` was the last."""
        while self.position < until:
            found = self._log.shard.read(self.position, self._count)
            if not found:
                return
            for number, fields in found:
                self.position = number
                yield self._entry(number, fields)
            self._count = min(_count_for(found), self._log.most_entries, MOST_AT_ONCE)

    def _entry(self, number: int, fields: Mapping[bytes, bytes]) -> Entry:
        if b"h" in fields:
            return Entry(number, None, Hole(int(fields[b"a"]), int(fields[b"u"]), fields[b"h"].decode()))
        data = fields.get(b"b", b"")
        try:
            return Entry(number, self._blocks.block(data))
        except BadEntry as error:
            return Entry(number, None, self._log.put_aside(number, data, str(error)))


def _count_for(found: Sequence[tuple[int, Mapping[bytes, bytes]]]) -> int:
    """How many entries like these are one read."""
    size = sum(len(fields.get(b"b", b"")) + 64 for _, fields in found)
    return max(_READ_BYTES * len(found) // size, 1)
