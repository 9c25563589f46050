"""What a worker's engine stands on: one shard's samples, read from its log, and its progress in Redis.

Cold, nothing is known. Warm, the head holds the log up to `applied`, and nobody else has committed since (`rev`).
Every step that finds another `rev` or holder, or a log that lost what was read of it, raises Lost, and what was warm
counts no more.
"""

import secrets
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
"""Whether there is room, and whose the shard is, is looked at each so many entries."""


class Lost(PrecomputeError):
    """The shard is not ours: another worker holds it, or held it meanwhile."""


class ShardGround:
    """A Ground (engines/base.py) for one worker; one thread at a time."""

    def __init__(
        self, shard: Shard, holder: str, head: Head, window_ms: int, most_entries: int, clock: Clock,
        check_room: Callable[[], None],
    ) -> None:  # fmt: skip
        """most_entries: of the log, that are read at once. check_room: raises Rejected when the heads are full.

        Takes the lease. Raises Lost where another has it.
        """
        self.shard, self.head, self.touched = shard, head, Touched(window_ms)
        self.applied, self.release, self.crowded = 0, False, False
        self._holder, self._clock, self._check_room = holder, clock, check_room
        self._log = RedisSampleLog(shard, head.table, most_entries)
        self._clock_offset_ms = clock.now_ms() - clock.boot_ms()
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
        try:
            done = commit(self._holder, self._rev, new_rev, aggregation_id, seen, panes)
        except ServerDown:
            done = commit(self._holder, self._rev, new_rev, aggregation_id, seen, panes)
        if not done:
            raise Lost(f"shard {self.shard.number} is not ours any more")
        self._rev = new_rev

    def settle(self, floor_ms: int) -> None:
        self._clean_to_ms = floor_ms

    def trim(self, keep_ms: int) -> None:
        """End the tick: what is final, what was read, and the log's trimming are one step."""
        ended = self.shard.end(
            self._holder, self._rev, self._clean_to_ms, self._state.bytes, self.release, self._holes_before_ms
        )
        if ended is None:
            raise Lost(f"shard {self.shard.number} is not ours any more")
        final_ms, base_ms = ended
        if base_ms > self.progress.base_ms:
            self.head.trim(base_ms)
            self.touched.forget(base_ms)
            self.crowded = worth_compacting(self.head)
        self.progress = Progress(self.progress.floor_ms, final_ms, base_ms, self.progress.alive_ms, self.progress.holes)

    def give_back(self) -> None:
        """Give the lease back; what was committed stays."""
        self.shard.end(self._holder, self._rev, None, self._state.bytes, True, None)

    def forget_holes(self, before_ms: int) -> None:
        self._holes_before_ms = before_ms

    def oldest_ms(self) -> int | None:
        """Nothing was accepted before the shard was made, or is held before `base`."""
        return max(self._state.born_ms, self._state.base_ms) + 1

    def _renew(self) -> None:
        if self._lease(self._rev) != self._rev:
            raise Lost(f"shard {self.shard.number} was held by another worker meanwhile, or its log lost entries")

    def _lease(self, rev: str) -> str:
        trusted = abs(self._clock.now_ms() - self._clock.boot_ms() - self._clock_offset_ms) <= 5000
        new_rev = secrets.token_hex(8)
        found, other = self.shard.begin(self._holder, rev, new_rev, self._clock.now_ms(), trusted, self.applied)
        if found is None:
            raise Lost(f"shard {self.shard.number} is held by {other}")
        return found

    def _read_state(self) -> tuple[ShardState, Progress]:
        asked = self.shard.server.ask_all([self.shard.ask_state(), self.shard.ask_holes()])
        state = parse_state(asked[0])
        if state is None:
            raise LogDamaged(f"shard {self.shard.number} has no metadata any more")
        progress = Progress(
            state.floor_ms, state.final_ms, state.base_ms, state.alive_ms, parse_holes(asked[1])
        )  # fmt: skip
        for hole in self._found.holes:
            progress = add_hole(progress, hole)
        return state, progress

    def _read_on(self) -> None:
        """Read the log to its end, renewing the lease while that takes long."""
        each_s = self.shard.limits.lease_ms / 3000
        renewed_s = self._clock.monotonic_s()
        for number, entry in enumerate(self._log.read(self.applied, self.head.table)):
            if number % _ENTRIES_PER_LOOK == 0:
                self._check_room()
                if self._clock.monotonic_s() - renewed_s > each_s:
                    renewed_s = self._clock.monotonic_s()
                    self._renew()
            if entry.block is not None and len(entry.block):
                self.head.append(entry.block)
                self.touched.note(entry.block.t_ms, entry.id)
            if entry.hole is not None:
                self._found = add_hole(self._found, entry.hole)
                self.progress = add_hole(self.progress, entry.hole)
            self.applied = entry.id
