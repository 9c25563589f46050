"""The streaming engine's contract: who turns samples into summaries.

An engine reads samples where they are durable, computes sealed panes and hands each finished batch to a sink.
It may be told to work at any time and any number of times: the result depends on the samples alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from precompute.summaries import Summary

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
