"""One shard's life in random order, on the real scripts and a real head.

Senders append in time and late, stall between reading their clock and appending, and lose replies. Workers tick step
by step (`Worker.tick` yields between any two), stall past their lease and go on, or are killed. Time is moved by hand.

A summary here is the exact set of samples in its reach, so a wrong one shows itself.
"""

import json
from collections.abc import Iterator
from random import Random

import numpy as np

from precompute.clock import ManualClock
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.replies import PaneBlob
from precompute.cluster.shard import Shard
from precompute.cluster.writing import Prepared
from precompute.head import Head
from precompute.kernels.selectors import copy_samples, count_samples
from precompute.labels import SeriesTable
from precompute.samples import Block
from precompute.touched import Touched
from tests.cluster.made_shards import NOW_MS, Sender, made_shards

UNIT_MS = 1000
"""Width of a pane."""
REACH_MS, ACCEPTANCE_MS, FUTURE_MS, LATENESS_MS = 4 * UNIT_MS, 6 * UNIT_MS, UNIT_MS, UNIT_MS
SERIES = 3
HOLE = 1
NAME = "aggregation"

Sample = tuple[str, int, float]
"""Series, time, value."""


class Worker:
    """One process that summarises the shard; what it knows is lost when it is killed or overtaken."""

    def __init__(self, shard: Shard, clock: ManualClock, random: Random) -> None:
        self.shard, self.clock, self.random = shard, clock, random
        self.holder = f"worker {random.random()}"
        self.skew_ms = random.choice((0, 0, -2 * UNIT_MS, 2 * UNIT_MS))
        self.forget()

    def forget(self) -> None:
        """Everything that was known of the shard."""
        self.rev, self.position = "", 0
        self.head = Head(SeriesTable(), 1 << 20)
        self.log = RedisSampleLog(self.shard, self.head.table)
        self.touched = Touched(UNIT_MS)
        self.known: dict[int, int] = {}

    def tick(self) -> Iterator[None]:
        """The steps of a tick; may be left after any of them."""
        rev, _ = self.shard.begin(self.holder, self.rev, self._nonce(), self._now_ms())
        if rev is None:
            return
        if rev != self.rev:
            self.forget()
        self.rev = rev
        yield
        state = self.shard.state()
        assert state is not None
        yield
        yield from self._read()
        sealed_ms = min(state.alive_ms, self._now_ms()) - LATENESS_MS
        for end_ms in self._dirty(state.final_ms, max(sealed_ms, state.floor_ms), state.base_ms):
            hole = end_ms > sealed_ms
            blob = json.dumps([] if hole else self.samples(end_ms)).encode()
            yield
            if not self._commit(end_ms, HOLE if hole else 0, blob):
                self.forget()
                return
            yield
        done = self.shard.end(self.holder, self.rev, state.floor_ms, state.bytes, self.random.random() < 0.1, None)
        if done is None:
            self.forget()
            return
        self.head.trim(done[0] - REACH_MS)
        self.touched.forget(done[0] - REACH_MS)

    def samples(self, end_ms: int) -> list[Sample]:
        """Exactly those in the pane's reach, of the head."""
        sids = np.arange(self.head.series_count(), dtype=np.int32)
        with self.head.reading(self.head.table) as columns:
            counts = count_samples(columns, sids, end_ms - REACH_MS, end_ms)
            starts = np.concatenate(([0], np.cumsum(counts)))
            t_ms, values = copy_samples(columns, sids, end_ms - REACH_MS, end_ms, starts)
        names = [dict(self.head.table.labels_of(sid))["i"] for sid in np.repeat(sids, counts).tolist()]
        return sorted(zip(names, t_ms.tolist(), values.tolist(), strict=True))

    def _read(self) -> Iterator[None]:
        if not self.known:
            ends, seen, _ = self.shard.index([NAME])[0]
            self.known = dict(zip(ends.tolist(), seen.tolist(), strict=True))
        for entry in self.log.read(self.position, self.head.table):
            if entry.block is not None:
                self.head.append(entry.block)
                self.touched.note(entry.block.t_ms, entry.id)
            self.position = entry.id
            if self.random.random() < 0.1:
                yield

    def _dirty(self, final_ms: int, until_ms: int, base_ms: int) -> list[int]:
        first = max(final_ms, base_ms + REACH_MS - 1) // UNIT_MS + 1
        ends = np.arange(first, until_ms // UNIT_MS + 1, dtype=np.int64) * UNIT_MS
        newest = self.touched.newest(ends - REACH_MS, ends)
        dirty = [end for end, entry in zip(ends.tolist(), newest.tolist(), strict=True)
                 if entry > self.known.get(end, -1)]  # fmt: skip
        self.random.shuffle(dirty)
        return dirty

    def _commit(self, end_ms: int, flags: int, blob: bytes) -> bool:
        """Sometimes the reply is lost, and the commit repeated."""
        new_rev = self._nonce()
        for _ in range(1 + (self.random.random() < 0.1)):
            if not self.shard.commit(
                self.holder, self.rev, new_rev, NAME, self.position, [PaneBlob(end_ms, flags, blob)]
            ):
                return False
        self.rev, self.known[end_ms] = new_rev, self.position
        return True

    def _now_ms(self) -> int:
        return self.clock.now_ms() + self.skew_ms

    def _nonce(self) -> str:
        return str(self.random.getrandbits(60))


class Story:
    """See the module's text."""

    def __init__(self, url: str, random: Random) -> None:
        self.random, self.clock = random, ManualClock(NOW_MS)
        self.shards = made_shards(
            url, self.clock, complete=random.random() < 0.5, acceptance_ms=ACCEPTANCE_MS, future_ms=FUTURE_MS,
            lateness_ms=LATENESS_MS, kept_ms=REACH_MS, segment_ms=3 * UNIT_MS, lease_ms=UNIT_MS,
        )  # fmt: skip
        self.shard = self.shards.all[0]
        self.table = SeriesTable()
        self.sids = [self.table.intern((("__name__", "m"), ("i", str(i)))) for i in range(SERIES)]
        self.senders = [Sender(self.shard, self.table) for _ in range(2)]
        self.workers = [Worker(self.shard, self.clock, random) for _ in range(2)]
        self.ticks: list[Iterator[None] | None] = [None, None]
        self.stalled: list[tuple[Prepared, Block]] = []
        self.accepted: dict[tuple[str, int], float] = {}
        self.final: dict[int, bytes] = {}
        """Panes as they were when they were first seen to be final."""

    def step(self) -> None:
        """Something happens."""
        x, at = self.random.random(), self.random.randrange(2)
        if x < 0.25:
            self.append(at)
        elif x < 0.29:
            self.stall(at)
        elif x < 0.34 and self.stalled:
            prepared, block = self.stalled.pop(self.random.randrange(len(self.stalled)))
            self.note(self.senders[at].repeat(prepared).outcome, block)
        elif x < 0.75:
            self.advance(at)
        elif x < 0.755:
            self.workers[at], self.ticks[at] = Worker(self.shard, self.clock, self.random), None
        elif x < 0.85:
            self.senders[at].beat()
        elif x < 0.994:
            self.clock.advance(self.random.choice((1, UNIT_MS // 2, UNIT_MS // 2, UNIT_MS)))
        else:
            self.clock.advance(6 * UNIT_MS)

    def append(self, at: int) -> None:
        block = self.block()
        self.note(self.senders[at].send(block).outcome, block)

    def stall(self, at: int) -> None:
        """The sender gives up on what is under way and begins anew; it may arrive later."""
        sender, block = self.senders[at], self.block()
        sender.writer.begin(self.clock.now_ms() // self.shard.limits.segment_ms)
        self.stalled.append((sender.writer.prepare(block), block))
        sender.writer.begin(0)

    def advance(self, at: int) -> None:
        """The next steps of a worker's tick, or the first of its next one."""
        tick = self.ticks[at] or self.workers[at].tick()
        self.ticks[at] = tick
        for _ in range(self.random.choice((1, 2, 4, 100))):
            if next(tick, self) is self:
                self.ticks[at] = None
                self.look_at_final_panes()
                return

    def block(self) -> Block:
        late_ms = 0 if self.random.random() < 0.8 else self.random.randrange(ACCEPTANCE_MS + 3 * UNIT_MS)
        rows = self.random.randint(1, 3)
        sids = np.array([self.random.choice(self.sids) for _ in range(rows)], np.int32)
        steps = [self.random.randint(-2, 1) * (UNIT_MS // 2) for _ in range(rows)]
        t_ms = (self.clock.now_ms() - late_ms + np.array(steps, np.int64)) // 500 * 500
        return Block(sids, t_ms, np.array([self.random.randint(1, 10**6) for _ in range(rows)], np.float64))

    def note(self, outcome: str, block: Block) -> None:
        if outcome == "ok":
            for sid, t_ms, value in zip(block.sid.tolist(), block.t_ms.tolist(), block.value.tolist(), strict=True):
                key = (dict(self.table.labels_of(sid))["i"], t_ms)
                self.accepted[key] = max(value, self.accepted.get(key, value))

    def calm(self) -> None:
        """Nothing is sent any more; whoever lives ticks until all is settled."""
        self.ticks = [None, None]
        for _ in range(6):
            self.senders[0].beat()
            self.clock.advance(6 * UNIT_MS)
            for worker in self.workers:
                for _ in worker.tick():
                    pass
        self.look_at_final_panes()

    def look_at_final_panes(self) -> None:
        state = self.shard.state()
        assert state is not None
        for end_ms, blob in self.panes().items():
            if end_ms <= state.final_ms:
                assert self.final.setdefault(end_ms, blob) == blob, f"pane {end_ms} was final and has changed"

    def panes(self) -> dict[int, bytes]:
        """Every pane that is claimed."""
        ends, _, flags = self.shard.index([NAME])[0]
        ends = ends[flags != HOLE]
        blobs = self.shard.blobs(NAME, ends)
        return {end: blob for end, blob in zip(ends.tolist(), blobs, strict=True) if blob is not None}

    def wrong(self) -> list[int]:
        """Ends of claimed panes that are not exactly what was accepted in their reach."""
        return [end_ms for end_ms, blob in self.panes().items() if json.loads(blob) != self.right(end_ms)]

    def right(self, end_ms: int) -> list[list[str | int | float]]:
        inside = [[i, t, v] for (i, t), v in self.accepted.items() if end_ms - REACH_MS < t <= end_ms]
        return sorted(inside)  # type: ignore[type-var]
