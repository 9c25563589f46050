"""The streaming engine's contract: who turns samples into summaries.

An engine reads samples where they are durable, computes sealed panes and hands each finished batch to a sink.
It may be told to work at any time and any number of times: the result depends on the samples alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from precompute.aggregations import Aggregation
from precompute.head import Head
from precompute.progress import Progress
from precompute.samples import I64, Bool
from precompute.stores.base import SummaryReader
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


class Panes(Protocol):
    """What queries ask about summaries: what is kept, and which panes of it are there and right.

    Any thread asks at any time; only `store` and `replace` may wait for I/O. A single node asks its engine, a query
    engine of a cluster what it has heard from the shards. Whoever finds a pane clean and reads it from `store` gets
    that summary or a newer one, or finds that it is gone.
    """

    @property
    def store(self) -> SummaryReader: ...

    @property
    def aggregations(self) -> tuple[Aggregation, ...]:
        """Those in force."""

    @property
    def touched(self) -> Touched:
        """Where the head got samples; the numbers grow."""

    @property
    def disowned(self) -> int:
        """Grows when panes are let go of because they were wrong: what was made from panes before may be wrong too."""

    def sealed_ms(self) -> int:
        """Panes that end at or before this time may be summarised."""

    def dirty(self, aggregation: Aggregation, ends_ms: I64) -> Bool:
        """Which of these panes have no summary, or one that lacks a sample; bool[p]."""

    def why_dirty(self, aggregation: Aggregation, end_ms: int) -> str:
        """Why a pane that ends then is dirty, for a user."""

    def seen(self, aggregation: Aggregation, ends_ms: I64) -> I64:
        """Per pane end, int64[p], a number that is another one once the summary is; `pane_book.NONE` without one."""

    def newest_ms(self, aggregation: Aggregation) -> int | None:
        """End of the newest pane that has a summary."""

    def ends(self, aggregation: Aggregation) -> I64:
        """Ends of the panes that have a summary, ascending."""

    def replace(self, aggregations: Sequence[Aggregation], wrong: Collection[str] = ()) -> None:
        """Keep these from now on and no others. Raises StoreError, and then all is as it was.

        wrong: ids of aggregations that go and of whose panes none may ever serve again, should they come back.
        """
