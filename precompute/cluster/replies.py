"""What Redis holds of a shard, as values, and how its replies are read.

Ids of log entries are integers here, `milliseconds << 21 | number within the millisecond`, which grow as Redis' do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from precompute.errors import LogDamaged
from precompute.log.base import Hole
from precompute.samples import I64, U8

_NUMBER_BITS = 21


def entry_number(stream_id: bytes | str) -> int:
    """A stream's id, `ms-number`, as one integer."""
    text = stream_id.decode() if isinstance(stream_id, bytes) else stream_id
    ms, _, number = text.partition("-")
    if int(number or 0) >= 1 << _NUMBER_BITS:
        raise LogDamaged(f"the log has an entry {text}: the clock of Redis went back too far to number more")
    return int(ms) << _NUMBER_BITS | int(number or 0)


def stream_id(entry: int) -> str:
    """The id of `entry_number`; that of 0 is before every entry."""
    return f"{entry >> _NUMBER_BITS}-{entry & ((1 << _NUMBER_BITS) - 1)}"


def entry_ms(entry: int) -> int:
    """When the entry was appended, by the clock of its server."""
    return entry >> _NUMBER_BITS


@dataclass(frozen=True)
class ShardLimits:
    """What the steps judge by. Bytes are one shard's share."""

    acceptance_ms: int
    future_ms: int
    lateness_ms: int
    kept_ms: int
    """R: how far before `final` samples are kept."""
    segment_ms: int
    lease_ms: int
    log_max_bytes: int
    max_backlog_bytes: int

    def lacking(self, retained_bytes: int, unread_bytes: int) -> str:
        """The option that this much of a log passes; "" if none. The append script judges alike."""
        if retained_bytes > self.log_max_bytes:
            return "log.max_bytes"
        return "log.max_backlog" if unread_bytes > self.max_backlog_bytes else ""


@dataclass(frozen=True)
class ShardState:
    """What the shard's metadata says."""

    holder: str
    until_ms: int
    rev: str
    floor_ms: int
    final_ms: int
    base_ms: int
    alive_ms: int
    born_ms: int
    """No sample at or before this time was ever accepted."""
    last: int
    """The newest log entry; 0 without any."""
    bytes: int
    """Ever appended."""
    cut: int
    """Of these, trimmed."""
    read: int
    """Of these, read by a tick that ended."""
    summary_bytes: int
    wanted: int = 0
    """Size of the largest entry that was refused for want of room; 0 once there is room for it."""
    lasting_ms: int = 0
    """What final was a minute ago at least: a server that loses its last seconds does not fall behind it."""


@dataclass(frozen=True)
class Samples:
    """A log entry's bytes (entries.py), numbered `seq` by its writer within `segment`; times in (after, until]."""

    writer: str
    seq: int
    segment: int
    after_ms: int
    until_ms: int
    data: bytes


@dataclass(frozen=True)
class Appended:
    """What became of an append.

    ok       it is in the log, as `entry` (0 for a heartbeat that wrote nothing)
    dup      it was there before
    restart  begin anew: another nonce, seq 1, no series defined, in segment `number`
    old      a sample is at or before the floor, `number`
    future   a sample is after `number`, too far ahead
    full     `why` is reached; nothing was written, and alive stays
    missing  the shard has no metadata (any more)
    """

    outcome: Literal["ok", "dup", "restart", "old", "future", "full", "missing"]
    entry: int = 0
    number: int = 0
    why: str = ""


@dataclass(frozen=True)
class PaneBlob:
    """One pane's summary as it is committed."""

    end_ms: int
    flags: int
    blob: bytes


@dataclass(frozen=True)
class Told:
    """A change of what the shard keeps: panes committed, stored in the long-term store, or dropped."""

    number: int
    """Of the notice; grows."""
    operation: Literal["commit", "stored", "dropped"]
    aggregation_id: str
    ends_ms: I64
    seen: int
    flags: U8


_NUMBERS = ("until", "floor", "final", "base", "alive", "born", "bytes", "cut", "read", "sbytes", "wanted", "lasting")
STATE = ("holder", "rev", "last", *_NUMBERS)


def parse_state(reply: Sequence[bytes | None]) -> ShardState | None:
    """What `Shard.ask_state` is answered."""
    holder, rev, last = (text or b"" for text in reply[:3])
    if not last:
        return None
    until, floor, final, base, alive, born, size, cut, read, summaries, wanted, lasting = (
        int(n or 0) for n in reply[3:]
    )
    return ShardState(
        holder.decode(), until, rev.decode(), floor, final, base, alive, born, entry_number(last), size, cut, read,
        summaries, wanted, lasting,
    )  # fmt: skip


def parse_holes(reply: Sequence[bytes]) -> tuple[Hole, ...]:
    """What `Shard.ask_holes` is answered."""
    parts = [member.decode().split(" ", 2) for member in reply]
    return tuple(Hole(int(after), int(until), metric) for after, until, metric in parts)


def parse_entries(reply: Sequence[Any]) -> list[tuple[int, dict[bytes, bytes]]]:
    """Entries of a stream: number and fields."""
    return [(entry_number(name), dict(zip(flat[::2], flat[1::2], strict=True))) for name, flat in reply]


def parse_told(number: int, fields: dict[bytes, bytes]) -> Told:
    """An entry of a shard's `told_key`."""
    ends = np.array(fields[b"e"].split(), np.int64)
    flags = np.array(fields.get(b"f", b"").split(), np.uint8) if b"f" in fields else np.zeros(len(ends), np.uint8)
    operation: Any = fields[b"o"].decode()
    return Told(number, operation, fields[b"a"].decode(), ends, int(fields.get(b"s", 0)), flags)


def appended(reply: Sequence[bytes]) -> Appended:
    """What an append was answered."""
    outcome: Any = reply[0].decode()
    given = reply[1].decode() if len(reply) > 1 else ""
    if outcome == "ok":
        return Appended(outcome, entry_number(given) if given else 0)
    if outcome == "full":
        return Appended(outcome, why=given)
    return Appended(outcome, number=int(given or 0))


def parse_index(reply: Sequence[bytes]) -> tuple[I64, I64, U8]:
    """Panes of an aggregation, ascending: ends, the entries they have seen, flags."""
    ends = np.array(reply[::2], np.int64)
    parts = [value.split() for value in reply[1::2]]
    seen, flags = np.array([p[0] for p in parts], np.int64), np.array([p[1] for p in parts], np.uint8)
    order = np.argsort(ends)
    return ends[order], seen[order], flags[order]
