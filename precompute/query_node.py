"""The query node's contract: what the query side answers from.

A single node is one, and so is a query engine of a cluster, which follows the logs of all shards. Any thread may use
it; nothing here waits but what a HeadSource reads.
"""

from typing import Protocol

from precompute.clock import Clock
from precompute.engines.base import Panes
from precompute.evaluate.head_source import HeadSource
from precompute.head import Head
from precompute.progress import Progress
from precompute.selection import Index


class QueryNode(Protocol):
    """See the module's text."""

    @property
    def clock(self) -> Clock: ...

    @property
    def started_ms(self) -> int:
        """When the process was started."""

    @property
    def head(self) -> Head:
        """The recent samples of all shards; the same object always."""

    @property
    def index(self) -> Index: ...

    @property
    def engine(self) -> Panes: ...

    def source(self, threads: int) -> HeadSource:
        """A reader of the head that uses up to `threads` threads."""

    def progress(self) -> Progress:
        """How far time is settled; `base_ms` holds for this node's head."""

    def why_not_ready(self) -> str | None:
        """None when queries can be answered."""

    def why_unhealthy(self) -> str | None:
        """None while it does its work."""

    def replayed(self) -> tuple[int, int]:
        """The newest entry that the log is known to have, and of these the newest that is in the head."""

    def damaged_records(self) -> int:
        """Places in the log that could not be read."""
