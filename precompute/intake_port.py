"""Where samples enter, as whoever brings them in sees it: one node's own log and head, or the logs of a cluster."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from precompute.labels import SeriesTable
from precompute.samples import Block


@dataclass(frozen=True)
class Admission:
    """What became of the rows of one write; the accepted ones are in the log."""

    accepted: int
    too_old: int
    too_far_ahead: int
    floor_ms: int
    """Samples at or before this time were too old."""


class IntakePort(Protocol):
    """Any thread may call it. Nothing here waits for readers; a write may wait for other writes."""

    @property
    def table(self) -> SeriesTable:
        """Gives series their ids; another one may take its place at any time."""

    @property
    def intern_lock(self) -> threading.Lock:
        """Held by whoever adds to the table."""

    def check_room(self) -> None:
        """Raises Rejected when a write would be refused now whatever it holds."""

    def write(self, block: Block, table: SeriesTable) -> Admission:
        """Take the rows that are newer than the floor and not too far ahead; when this returns, the log has them.

        table: the block's ids are of it. Raises TableReplaced when the ids have to be looked up again, and Rejected
        where the same write is to be sent again later: samples of it that were taken nevertheless count once.
        """

    def note_histograms(self, metrics: Iterable[str]) -> None:
        """These metrics have histogram samples, which are not held. Raises Rejected where that cannot be kept."""

    def note_partial(self, metrics: Iterable[str]) -> None:
        """Series of these metrics were refused: an upstream has them. Raises Rejected where that cannot be kept."""
