"""One shard as it stands in Redis: the steps of the protocol (docs/cluster.md) as methods."""

from collections.abc import Callable, Sequence
from typing import Literal

from precompute.cluster.replies import (
    STATE,
    PaneBlob,
    Samples,
    ShardLimits,
    ShardState,
    entry_ms,
    entry_number,
    parse_entries,
    parse_holes,
    parse_index,
    parse_state,
    stream_id,
)
from precompute.cluster.scripts import APPEND, BEGIN, COMMIT, CREATE, END, FORGET, PUT_ASIDE, TRIM
from precompute.cluster.server import Argument, Call, Server
from precompute.errors import LogDamaged
from precompute.log.base import Hole
from precompute.samples import I64, U8

_INDEX_PANES_AT_ONCE = 500
_MOST_BAD = 100


class Shard:
    """See the module's text. Any thread may call it; every method raises ServerDown, those that write ServerFull."""

    def __init__(
        self, server: Server, number: int, limits: ShardLimits, now_ms: Callable[[], int] | None = None
    ) -> None:
        """now_ms: the time to judge by, for tests that move it; None: the server's own."""
        self.server, self.number, self.limits = server, number, limits
        self._now_ms = now_ms
        names = ("m", "log", "segs", "holes", "aggs", "told")
        self._m, self.log_key, self._segs, self._holes, self._aggs, self.told_key = (f"{{{number}}}{n}" for n in names)
        self.bad_key = f"{{{number}}}bad"

    def _now(self) -> str:
        return "" if self._now_ms is None else str(self._now_ms())

    # -- all roles

    def create(self, complete: bool) -> bool:
        """Make the shard's metadata unless it is there. complete: a first install without an upstream, where nothing
        exists that the log does not have."""
        arguments = (self._now(), self.limits.acceptance_ms, int(complete))
        return bool(self.server.run(Call(CREATE, (self._m,), arguments)))

    def state(self) -> ShardState | None:
        """None where the shard has no metadata."""
        return parse_state(self.server.ask(*self.ask_state()))

    def ask_state(self) -> tuple[str, ...]:
        """The command whose reply `parse_state` reads, to be sent with others."""
        return ("HMGET", self._m, *STATE)

    def holes(self) -> tuple[Hole, ...]:
        """Where samples are known to be missing, by their ends."""
        return parse_holes(self.server.ask(*self.ask_holes()))

    def ask_holes(self) -> tuple[str | int, ...]:
        """The command whose reply `parse_holes` reads."""
        return ("ZRANGE", self._holes, 0, -1)

    def ask_hole_count(self) -> tuple[str, ...]:
        """The command whose reply is how many there are."""
        return ("ZCARD", self._holes)

    # -- the ingest role

    def append_call(self, samples: Samples) -> Call:
        """To append samples: a call whose reply `appended` reads, to be sent with others'."""
        span = (samples.after_ms, samples.until_ms)
        return self._append_call(samples.writer, samples.seq, samples.segment, span, samples.data, "-")

    def hole_call(self, hole: Hole) -> Call:
        """To note a hole."""
        return self._append_call("", 0, 0, (hole.after_ms, hole.until_ms), b"", f"={hole.metric}")

    def beat_call(self) -> Call:
        """To say that somebody listens for samples of this shard."""
        return self._append_call("", 0, 0, (0, 0), b"", "-")

    def _append_call(
        self, writer: str, seq: int, segment: int, span: tuple[int, int], data: bytes, hole: str
    ) -> Call:  # fmt: skip
        own = self.limits
        keys = (self._m, self.log_key, self._segs, self._holes)
        bounds = (own.future_ms, own.segment_ms, own.lateness_ms, own.log_max_bytes, own.max_backlog_bytes)
        return Call(APPEND, keys, (self._now(), writer, seq, segment, *span, *bounds, data, hole))

    # -- readers of the log

    def read(self, after: int, count: int) -> list[tuple[int, dict[bytes, bytes]]]:
        """Up to `count` log entries behind `after`: number and fields (entries.py)."""
        found = self.server.ask("XRANGE", self.log_key, f"({stream_id(after)}", "+", "COUNT", count)
        return parse_entries(found)

    def oldest_ms(self) -> int | None:
        """When the oldest entry was appended; None without any."""
        found = parse_entries(self.server.ask("XRANGE", self.log_key, "-", "+", "COUNT", 1))
        return entry_ms(found[0][0]) if found else None

    def put_aside(self, entry: int, data: bytes, hole: Hole) -> None:
        """Keep a log entry that could not be read, among the last of them, and note what it may have held as missing.
        Once, however often it is read."""
        kept = f"{stream_id(entry)} ".encode() + data
        arguments = (_MOST_BAD, kept, hole.after_ms, hole.until_ms)
        self.server.run(Call(PUT_ASIDE, (self.bad_key, self._holes), arguments))

    # -- the worker

    def begin(
        self, holder: str, rev: str, new_rev: str, own_now_ms: int, applied: int = 0
    ) -> tuple[str | None, str]:  # fmt: skip
        """Take or renew the lease, and raise the floor: (rev, ""), or (None, who holds it).

        rev: of the last step that succeeded; "" while nothing is warm. applied: the newest log entry that was read.
        Where the answer is `new_rev`, nothing that is known of the shard counts any more. Raises LogDamaged where it
        has no metadata.
        """
        own = self.limits
        bounds = (own.lease_ms, own.acceptance_ms, own_now_ms, stream_id(applied))
        reply = self.server.run(Call(BEGIN, (self._m, self.log_key), (self._now(), holder, rev, new_rev, *bounds)))
        if reply[0] == b"missing":
            raise LogDamaged(f"shard {self.number} has no metadata in {self.server.name}")
        return (reply[1].decode(), "") if reply[0] == b"ok" else (None, reply[1].decode())

    def commit(
        self, holder: str, rev: str, new_rev: str, aggregation_id: str, seen: int, panes: Sequence[PaneBlob]
    ) -> bool:
        """Put these panes in place of what was there; false where the shard is not ours any more, or its log
        has lost the entry `seen`. May be repeated."""
        i, p = self._panes(aggregation_id)
        flat: list[Argument] = [part for pane in panes for part in (pane.end_ms, pane.flags, pane.blob)]
        about = (self._now(), holder, rev, new_rev, self.limits.lease_ms, aggregation_id, seen, stream_id(seen))
        reply = self.server.run(Call(COMMIT, (self._m, self.told_key, self._aggs, i, p, self.log_key), [*about, *flat]))
        return bool(reply != b"lost")

    def end(
        self, holder: str, rev: str, clean_to_ms: int | None, read: int, release: bool, holes_before_ms: int | None
    ) -> tuple[int, int] | None:
        """After a tick: (final, base), or None where the shard is not ours any more.

        clean_to_ms: the floor as it was when the tick began, if every pane up to it is clean. read: bytes ever
        appended, as far as they were read. release: give the lease back. holes_before_ms: holes that end by then
        are forgotten.
        """
        own = self.limits
        bounds: list[Argument] = [own.kept_ms, own.future_ms, read, own.segment_ms, int(release)]
        bounds.append(_or_empty(holes_before_ms))
        arguments = [self._now(), holder, rev, _or_empty(clean_to_ms), *bounds]
        reply = self.server.run(Call(END, (self._m, self.log_key, self._segs, self._holes), arguments))
        return (int(reply[1]), int(reply[2])) if reply[0] == b"ok" else None

    def trim(self, before_ms: int) -> None:
        """Drop the oldest whole segments all of whose samples have t <= before_ms; what `end` does by itself."""
        arguments = (self._now(), before_ms, self.limits.future_ms)
        self.server.run(Call(TRIM, (self._m, self.log_key, self._segs), arguments))

    # -- what is kept

    def forget(self, aggregation_id: str, operation: Literal["stored", "dropped"], ends_ms: I64) -> None:
        """These panes leave Redis: the long-term store has them, or nobody wants them any more."""
        i, p = self._panes(aggregation_id)
        ends = [int(end) for end in ends_ms]
        for at in range(0, len(ends), _INDEX_PANES_AT_ONCE):
            arguments: list[Argument] = [aggregation_id, operation, *ends[at : at + _INDEX_PANES_AT_ONCE]]
            self.server.run(Call(FORGET, (self._m, self.told_key, self._aggs, i, p), arguments))

    def aggregations(self) -> tuple[str, ...]:
        """Those that have panes here, sorted."""
        return tuple(sorted(name.decode() for name in self.server.ask("SMEMBERS", self._aggs)))

    def index(self, aggregation_ids: Sequence[str]) -> list[tuple[I64, I64, U8]]:
        """Per aggregation its panes that are here, ascending: ends, the entries they have seen, flags."""
        asked = [("HGETALL", self._panes(name)[0]) for name in aggregation_ids]
        return [parse_index(reply) for reply in self.server.ask_all(asked)]

    def ask_ends(self, aggregation_id: str) -> tuple[str, ...]:
        """The command whose reply is the ends of its panes that are here, in any order."""
        return ("HKEYS", self._panes(aggregation_id)[0])

    def blobs(self, aggregation_id: str, ends_ms: I64) -> list[bytes | None]:
        """Per pane end its blob, None where it is not here."""
        return list(self.server.ask(*self.ask_blobs(aggregation_id, ends_ms))) if len(ends_ms) else []

    def ask_blobs(self, aggregation_id: str, ends_ms: I64) -> tuple[str | int, ...]:
        """The command whose reply is `blobs`, to be sent with others; of one pane at least."""
        return ("HMGET", self._panes(aggregation_id)[1], *(int(end) for end in ends_ms))

    def ask_bytes(self, aggregation_id: str) -> tuple[str, ...]:
        """The command whose reply is about how many bytes the aggregation's blobs take, None without any."""
        return ("MEMORY", "USAGE", self._panes(aggregation_id)[1])

    def last_told(self) -> int:
        """The newest notice; 0 without any."""
        found = self.server.ask("XREVRANGE", self.told_key, "+", "-", "COUNT", 1)
        return entry_number(found[0][0]) if found else 0

    def _panes(self, aggregation_id: str) -> tuple[str, str]:
        return f"{{{self.number}}}i:{aggregation_id}", f"{{{self.number}}}p:{aggregation_id}"


def _or_empty(number: int | None) -> str:
    return "" if number is None else str(number)
