"""The streaming engine's contract: who turns samples into summaries.

An engine reads samples where they are durable, computes sealed panes and hands each finished batch to a sink.
It may be told to work at any time and any number of times: the result depends on the samples alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from precompute.head import Head
from precompute.progress import Progress
from precompute.summaries import Summary
from precompute.touched import Touched

Output = Sequence[tuple[str, Summary]]
"""Aggregation ids with the panes computed for them."""


class PrecomputeSink(Protocol):
    """Where results go."""

    def send(self, output: Output) -> None:
        """Keep all of `output` or none of it; on return it is durable. Raises StoreError; may wait for I/O."""


@dataclass(frozen=True)
class Health:
    """`completed_ms`: wall-clock end of the last tick that ended well; None before the first."""

    completed_ms: int | None
    behind_panes: int
    """Sealed panes that still wait to be computed."""


class StreamingEngine(Protocol):
    """One node's engine."""

    def run(self, sink: PrecomputeSink) -> None:
        """One tick: summarise what is sealed and dirty, the newest and then the oldest, until done or the deadline.

        Returns at once, and counts it, if a tick is still running.
        """

    def shutdown(self) -> None:
        """Finish the batch that is being computed, commit it, and let later ticks do nothing."""

    def health(self) -> Health:
        """Never blocks."""


class Ground(Protocol):
    """What an engine stands on: the samples of a node or of one shard, and how far their time is settled.

    One tick at a time calls `begin`, then the others in this order; each may raise Rejected, where disk or server
    fails, and what it was to change is then as before. What is read here may be read beside a tick.
    """

    @property
    def head(self) -> Head:
        """Every sample of the log, up to entry `applied` and maybe later ones."""

    @property
    def progress(self) -> Progress:
        """Never older than what was acted upon."""

    @property
    def touched(self) -> Touched: ...

    @property
    def applied(self) -> int:
        """The newest log entry in the head."""

    def begin(self, acceptance_ms: int) -> tuple[int, int]:
        """Raise the floor, then have the head hold all that was accepted before: (`applied`, the floor)."""

    def settle(self, floor_ms: int) -> None:
        """Every pane up to the floor that this tick's `begin` returned is clean, and so final."""

    def trim(self, keep_ms: int) -> None:
        """Let go of samples at or before `keep_ms` where they can be, and raise `base` with them."""

    def forget_holes(self, before_ms: int) -> None:
        """Nobody looks at samples at or before this time any more."""

    def oldest_ms(self) -> int | None:
        """No accepted sample is older; None where there is none."""
