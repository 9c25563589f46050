"""Several writes sent together: their rows by shard, an entry each, in rounds until every row is settled.

    ok, dup         the rows are in the log
    old, future     those rows are dropped, the rest of the entry is sent again; with an upstream, after holes in their
                    place, without which their writes are rejected too
    restart         the same rows from a new beginning of the writer
    missing         the shard is made, complete from now on, and the rows are sent again
    full, no answer the writes that the rows are of are rejected; what of them is in a log counts once when they
                    come again

A round is one pipeline a server; of each shard one entry is under way at a time, so its writer's order holds. Where a
first try was not answered and its repetition says anything but ok or dup, the try may still arrive: the writer begins
anew before it sends another entry (writing.py).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from precompute.clock import Clock
from precompute.cluster.replies import Appended, appended
from precompute.cluster.server import Call, Server, ServerDown, ServerFull
from precompute.cluster.shard import Shard
from precompute.cluster.writing import Prepared, ShardWriter, entries_of
from precompute.errors import Rejected
from precompute.intake_port import Admission
from precompute.labels import SeriesTable
from precompute.log.base import Hole
from precompute.missed import EARLIEST_MS, holes_of
from precompute.progress import FURTHEST_AHEAD_MS
from precompute.samples import I32, I64, U8, Block, Bool

TAKEN, TOO_OLD, TOO_FAR_AHEAD = range(3)
_MOST_TRIES = 6
_BEGUN_ANEW = {"restart", "missing"}
"""Outcomes after which the same is sent once more."""
_HOLE_GRAIN_MS = 60_000
_MOST_TOLD = 100_000
_TOLD_AGAIN_S = 10.0
"""What was noted is noted again when it comes after so long: the server may have lost it."""


@dataclass
class Batch:
    """Rows of several writes and what becomes of them."""

    block: Block
    owner: I32
    """The write that each row is of; int32[n]."""
    writes: int
    verdict: U8
    """TAKEN, TOO_OLD or TOO_FAR_AHEAD; uint8[n]."""
    floor_ms: int = 0
    rejected: dict[int, Rejected] = field(default_factory=dict)

    def reject(self, rows: I64, why: Rejected) -> None:
        """The writes that these rows are of are to be sent again."""
        for write in np.unique(self.owner[rows]).tolist():
            self.rejected.setdefault(write, why)

    def outcomes(self) -> list[Admission | Rejected]:
        """Of each write."""
        taken, old, ahead = (
            np.bincount(self.owner[self.verdict == verdict], minlength=self.writes).tolist()
            for verdict in (TAKEN, TOO_OLD, TOO_FAR_AHEAD)
        )
        admissions = [Admission(*counts, self.floor_ms) for counts in zip(taken, old, ahead, strict=True)]
        return [self.rejected.get(write, admission) for write, admission in enumerate(admissions)]


def joined(blocks: Sequence[Block]) -> Batch:
    """The blocks of several writes, all of one table."""
    lengths = [len(block) for block in blocks]
    block = blocks[0]
    if len(blocks) > 1:
        columns = zip(*((b.sid, b.t_ms, b.value) for b in blocks), strict=True)
        block = Block(*(np.concatenate(column) for column in columns))
    owner = np.repeat(np.arange(len(blocks), dtype=np.int32), lengths)
    return Batch(block, owner, len(blocks), np.zeros(len(block), np.uint8))


class Holes:
    """What becomes of rows that are dropped: nothing, or a hole for each metric where an upstream has them."""

    def __init__(self, table: SeriesTable, has_upstream: bool, clock: Clock) -> None:
        self._table, self._has_upstream, self._clock = table, has_upstream, clock
        self._told: set[tuple[int, Hole]] = set()
        """By shard those that were noted lately, so that each is noted once in a while."""
        self._since_s = clock.monotonic_s()

    def of(self, shard: int, block: Block) -> list[Hole]:
        """That are to be noted; in whole minutes, so that a sender that is always late leaves few of them."""
        if not self._has_upstream:
            return []
        if self._clock.monotonic_s() - self._since_s >= _TOLD_AGAIN_S:
            self.forget()
        near = block.take(block.t_ms <= self._clock.now_ms() + FURTHEST_AHEAD_MS)
        every = [_in_whole_minutes(hole) for hole in holes_of(self._table, near)]
        return [hole for hole in every if (shard, hole) not in self._told]

    def told(self, shard: int, hole: Hole) -> None:
        """The shard has noted it."""
        if len(self._told) >= _MOST_TOLD:
            self.forget()
        self._told.add((shard, hole))

    def forget(self) -> None:
        """What was noted may be lost."""
        self._told, self._since_s = set(), self._clock.monotonic_s()


def _in_whole_minutes(hole: Hole) -> Hole:
    after_ms, until_ms = hole.after_ms // _HOLE_GRAIN_MS * _HOLE_GRAIN_MS, -(-hole.until_ms // _HOLE_GRAIN_MS)
    return Hole(max(after_ms, EARLIEST_MS), until_ms * _HOLE_GRAIN_MS, hole.metric)


class Line:
    """The rows of a batch for one shard, on their way."""

    def __init__(self, batch: Batch, rows: I64, shard: Shard, writer: ShardWriter, holes: Holes) -> None:
        self.shard = shard
        self._batch, self._writer, self._holes = batch, writer, holes
        self._parts = [rows[part] for part in entries_of(batch.block.t_ms[rows])]
        self._left: list[Hole] = []
        """Holes to be noted."""
        self._dropped = rows[:0]
        """Rows that they are of: until then their senders have to come again."""
        self._prepared: Prepared | None = None
        self._tries = 0

    def is_done(self) -> bool:
        return not self._parts and not self._left

    def calls(self) -> list[Call]:
        """Of the next round."""
        calls = [self.shard.hole_call(hole) for hole in self._left]
        if self._parts:
            self._prepared = self._writer.prepare(self._batch.block.take(self._parts[0]))
            calls.append(self.shard.append_call(self._prepared.samples))
        return calls

    def take(self, replies: Sequence[Appended], why_not: str, is_only_try: bool) -> None:
        """What the round was answered; why_not: its samples are in the log but not as safe as they have to be.

        is_only_try: nothing else of the round was sent, which may still arrive.
        """
        outcomes = {reply.outcome for reply in replies}
        if "missing" in outcomes:
            self.shard.create(complete=False)
        if outcomes & _BEGUN_ANEW:
            self._holes.forget()
        if why_not:
            self._reject(Rejected(why_not))
        holes, self._left = self._left, []
        self._take_holes(holes, replies[: len(holes)], is_safe=not why_not)
        for reply in replies[len(holes) :]:
            prepared, self._prepared = self._prepared, None
            assert prepared is not None
            self._settle(prepared, reply, is_only_try)
            self._take_samples(reply)
        self._tries = self._tries + 1 if outcomes & _BEGUN_ANEW else 0
        if self._tries > _MOST_TRIES:
            why = f"shard {self.shard.number} takes no entry: {', '.join(sorted(outcomes))}, again and again"
            self._give_up(Rejected(why))

    def lost(self, why: Rejected) -> None:
        """There was no answer: whether the last entry is in the log is not known."""
        self._give_up(why)
        self._holes.forget()

    def _give_up(self, why: Rejected) -> None:
        self._reject(why)
        self._parts, self._left, self._prepared = [], [], None

    def _take_holes(self, holes: Sequence[Hole], replies: Sequence[Appended], is_safe: bool) -> None:
        for hole, reply in zip(holes, replies, strict=True):
            if reply.outcome == "full":
                self._batch.reject(self._dropped, self._no_room(reply))
            elif reply.outcome != "ok":
                self._left.append(hole)
            elif is_safe:
                self._holes.told(self.shard.number, hole)
        if not self._left:
            self._dropped = self._dropped[:0]

    def _settle(self, prepared: Prepared, reply: Appended, is_only_try: bool) -> None:
        if reply.outcome in ("ok", "dup"):
            self._writer.wrote(prepared)
        elif is_only_try:
            self._writer.refused()

    def _take_samples(self, reply: Appended) -> None:
        if reply.outcome in ("ok", "dup"):
            del self._parts[0]
        elif reply.outcome == "old":
            self._batch.floor_ms = max(self._batch.floor_ms, reply.number)
            self._drop(self._times() <= reply.number, TOO_OLD)
        elif reply.outcome == "future":
            self._drop(self._times() > reply.number, TOO_FAR_AHEAD)
        elif reply.outcome == "full":
            self._give_up(self._no_room(reply))
        elif reply.outcome == "restart":
            self._writer.begin(reply.number)

    def _no_room(self, reply: Appended) -> Rejected:
        return Rejected(f"shard {self.shard.number} has no room: {reply.why} is reached")

    def _times(self) -> I64:
        return self._batch.block.t_ms[self._parts[0]]

    def _drop(self, which: Bool, verdict: int) -> None:
        rows = self._parts[0]
        self._batch.verdict[rows[which]] = verdict
        if holes := self._holes.of(self.shard.number, self._batch.block.take(rows[which])):
            self._left += holes
            self._dropped = np.concatenate((self._dropped, rows[which]))
        if which.all():
            del self._parts[0]
        else:
            self._parts[0] = rows[~which]

    def _reject(self, why: Rejected) -> None:
        self._batch.reject(np.concatenate((*self._parts, self._dropped)), why)


Send = Callable[[Server, Sequence[Call]], tuple[list[Appended], str]]
"""A round on one server: the replies, and why what they say is not enough; "" if it is."""


def replicated(replicas: int) -> Send:
    """A round whose samples `replicas` replicas have too."""

    def send(server: Server, calls: Sequence[Call]) -> tuple[list[Appended], str]:
        if not replicas:
            return [appended(reply) for reply in server.run_all(calls)], ""
        replies, reached = server.run_all_replicated(calls, replicas)
        short = f"{reached} of {replicas} replicas of Redis at {server.name} have the samples" * (reached < replicas)
        return [appended(reply) for reply in replies], short

    return send


def run_lines(lines: Sequence[Line], send: Send) -> None:
    """Rounds until every line is done."""
    while left := [line for line in lines if not line.is_done()]:
        by_server: dict[Server, list[Line]] = defaultdict(list)
        for line in left:
            by_server[line.shard.server].append(line)
        for server, some in by_server.items():
            _run_round(server, some, send)


def _run_round(server: Server, lines: Sequence[Line], send: Send) -> None:
    calls = [line.calls() for line in lines]
    flat = [call for some in calls for call in some]
    try:
        replies, why_not, is_only_try = _sent_twice(server, flat, send)
    except (ServerDown, ServerFull) as error:
        for line in lines:
            line.lost(Rejected(str(error)))
        return
    for line, some in zip(lines, calls, strict=True):
        line.take(replies[: len(some)], why_not, is_only_try)
        del replies[: len(some)]


def _sent_twice(server: Server, calls: Sequence[Call], send: Send) -> tuple[list[Appended], str, bool]:
    """Once more where there was no answer: what had been carried out is a dup then. And whether once was enough."""
    try:
        return *send(server, calls), True
    except ServerDown:
        return *send(server, calls), False
