"""What a worker's engine stands on: one shard's samples, read from its log, and its progress in Redis.

Cold, nothing is known. Warm, the head holds the log up to `applied`, and nobody else has committed since (`rev`).
Every step that finds another `rev` or holder, or a log that lost what was read of it, raises Lost, and what was warm
counts no more.
"""

import secrets
import threading
from collections.abc import Callable, Sequence

from precompute.clock import Clock
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.replies import PaneBlob, ShardState, parse_holes, parse_state
from precompute.cluster.server import ServerDown
from precompute.cluster.shard import Shard
from precompute.compaction import worth_compacting
from precompute.errors import LogDamaged, PrecomputeError
from precompute.head import Head
from precompute.progress import Progress, add_hole
from precompute.touched import Touched

_ENTRIES_PER_LOOK = 16
"""Whether there is room, and how old the lease is, is looked at each so many entries."""


class Lost(PrecomputeError):
    """The shard is not ours: another worker holds it, or held it meanwhile."""


class ShardGround:
    """A Ground (engines/base.py) for one worker; one thread at a time, beside the one that calls `keep`."""

    def __init__(
        self, shard: Shard, holder: str, head: Head, window_ms: int, most_entries: int, clock: Clock,
        check: Callable[[Head], None],
    ) -> None:  # fmt: skip
        """most_entries: of the log, that are read at once. check: raises Rejected when the heads are full, or no more
        is to be read for another reason.

        Takes the lease. Raises Lost where another has it.
        """
        self.shard, self.head, self.touched = shard, head, Touched(window_ms)
        self.applied, self.release, self.crowded = 0, False, False
        self._holder, self._clock, self._check = holder, clock, check
        self._log = RedisSampleLog(shard, head.table, most_entries)
        self._stepping, self._renewed_s = threading.Lock(), 0.0
        self._trimmed_ms = 0
        """What the head no longer holds, whatever the server has forgotten of it."""
        self._clean_to_ms: int | None = None
        self._holes_before_ms: int | None = None
        self._found = Progress(0, 0, 0, 0)
        self._rev = self._lease("")
        self._state, self.progress = self._read_state()

    @property
    def damaged(self) -> int:
        """Log entries that could not be read."""
        return self._log.damaged_records

    @property
    def state(self) -> ShardState:
        """As this tick began."""
        return self._state

    def keep(self) -> None:
        """Renew the lease where its end draws near, while the tick's own thread is at work; not one that has ended:
        who stands still for so long has lost the shard. Any thread. Raises Lost and ServerDown."""
        if self._stepping.acquire(blocking=False):
            try:
                if self._held_s() / 3 < self._past_s() < self._held_s():
                    self._begin(self._rev)
            finally:
                self._stepping.release()

    def has_lapsed(self) -> bool:
        """Whether the lease has ended, so that another may have the shard."""
        return self._past_s() > self._held_s()

    def begin(self, acceptance_ms: int) -> tuple[int, int]:
        """See Ground; the acceptance age is the shard's own."""
        self._renew()
        self._clean_to_ms = None
        self._state, self.progress = self._read_state()  # first: what is sealed by `alive` is in the log
        floor_ms = self._state.floor_ms
        self._read_on()
        return self.applied, floor_ms

    def commit(self, aggregation_id: str, seen: int, panes: Sequence[PaneBlob]) -> None:
        """Put panes in place. Raises Lost, and ServerDown where it is not known whether it was done."""
        new_rev, commit = secrets.token_hex(8), self.shard.commit
        with self._stepping:
            began_s = self._clock.monotonic_s()
            try:
                done = commit(self._holder, self._rev, new_rev, aggregation_id, seen, panes)
            except ServerDown:
                done = commit(self._holder, self._rev, new_rev, aggregation_id, seen, panes)
            if not done:
                raise Lost(f"shard {self.shard.number} is not ours any more")
            self._rev, self._renewed_s = new_rev, began_s

    def settle(self, floor_ms: int) -> None:
        self._clean_to_ms = floor_ms

    def trim(self, keep_ms: int) -> None:
        """End the tick: what is final, what was read, and the log's trimming are one step."""
        with self._stepping:
            ended = self.shard.end(
                self._holder, self._rev, self._clean_to_ms, self._state.bytes, self.release, self._holes_before_ms
            )
        if ended is None:
            raise Lost(f"shard {self.shard.number} is not ours any more")
        final_ms, base_ms = ended[0], max(ended[1], self._trimmed_ms)
        if base_ms > self.progress.base_ms:
            self._trimmed_ms = base_ms
            self.head.trim(base_ms)
            self.touched.forget(base_ms)
            self.crowded = worth_compacting(self.head)
        self.progress = Progress(self.progress.floor_ms, final_ms, base_ms, self.progress.alive_ms, self.progress.holes)

    def give_back(self) -> None:
        """Give the lease back; what was committed stays."""
        with self._stepping:
            self.shard.end(self._holder, self._rev, None, self._state.bytes, True, None)

    def forget_holes(self, before_ms: int) -> None:
        self._holes_before_ms = before_ms

    def oldest_ms(self) -> int | None:
        """Nothing was accepted before the shard was made, or is held before `base`."""
        return max(self._state.born_ms, self.progress.base_ms) + 1

    def _renew(self) -> None:
        if self._lease(self._rev) != self._rev:
            raise Lost(f"shard {self.shard.number} was held by another worker meanwhile, or its log lost entries")

    def _lease(self, rev: str) -> str:
        with self._stepping:
            return self._begin(rev)

    def _begin(self, rev: str) -> str:
        new_rev, began_s = secrets.token_hex(8), self._clock.monotonic_s()
        found, other = self.shard.begin(self._holder, rev, new_rev, self._clock.now_ms(), self.applied)
        if found is None:
            raise Lost(f"shard {self.shard.number} is held by {other}")
        self._renewed_s = began_s
        return found

    def _held_s(self) -> float:
        return self.shard.limits.lease_ms / 1000

    def _past_s(self) -> float:
        return self._clock.monotonic_s() - self._renewed_s

    def _read_state(self) -> tuple[ShardState, Progress]:
        asked = self.shard.server.ask_all([self.shard.ask_state(), self.shard.ask_holes()])
        state = parse_state(asked[0])
        if state is None:
            raise LogDamaged(f"shard {self.shard.number} has no metadata any more")
        progress = Progress(
            state.floor_ms, state.final_ms, max(state.base_ms, self._trimmed_ms), state.alive_ms, parse_holes(asked[1])
        )
        for hole in self._found.holes:
            progress = add_hole(progress, hole)
        return state, progress

    def _read_on(self) -> None:
        """Read the log to its end, renewing the lease while that takes long."""
        for number, entry in enumerate(self._log.read(self.applied, self.head.table)):
            if number % _ENTRIES_PER_LOOK == 0:
                self._check(self.head)
                if self._past_s() > self._held_s() / 3:
                    self._renew()
            if entry.block is not None and len(entry.block):
                self.head.append(entry.block)
                self.touched.note(entry.block.t_ms, entry.id)
            if entry.hole is not None:
                self._found = add_hole(self._found, entry.hole)
                self.progress = add_hole(self.progress, entry.hole)
            self.applied = entry.id
