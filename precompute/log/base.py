"""The sample log's contract.

A log is the durable, ordered record of accepted samples; head and summaries can be rebuilt from it alone.
One writer at a time. The caller holds the write lock of the node while it calls what changes the log: `append`,
`append_hole`, `trim`, `rotate`, `close`. The rest may run beside them; `read` sees every entry appended before it
was called, `sync` leaves none of those unsynced.

Entries have integer ids that grow in order of appending; none is given twice. In memory and in files they count
from 1, but each opening of a log that has entries may leave some out, so that this holds even where a power cut lost
the last; in Redis they are times. An entry is either a block of samples or a hole. Segments cut the log into parts
that can be read alone: a segment defines each series in the first entry that uses it, so a reader needs no other
segment and no other table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from precompute.labels import SeriesTable
from precompute.samples import Block


@dataclass(frozen=True)
class Hole:
    """An interval `(after_ms, until_ms]` in which samples are known to be missing.

    metric: the metric concerned, or "" for all of them.
    """

    after_ms: int
    until_ms: int
    metric: str = ""

    def touches(self, after_ms: int, until_ms: int, metric: str) -> bool:
        """Whether a look at `(after_ms, until_ms]` of `metric` meets this hole."""
        same = not self.metric or not metric or self.metric == metric
        return same and self.after_ms < until_ms and after_ms < self.until_ms


@dataclass(frozen=True)
class Entry:
    """One entry as read back: its id and a block (series ids of the reader's table) or a hole."""

    id: int
    block: Block | None
    hole: Hole | None = None


class SampleLog(Protocol):
    """See the module's text for what the caller may assume."""

    def append(self, block: Block) -> int:
        """Write a block of 1 row or more; its entry id, the last one where a block becomes several entries.

        Returns only when a crash of the process can no longer lose the entry. Raises Rejected, and
        leaves the log as it was, when the bytes would pass `log.max_bytes`, the disk has less than
        `log.min_free_disk` left, or the write fails. Must not block on readers.
        """

    def append_hole(self, hole: Hole) -> int:
        """Write a hole; its entry id. Raises as `append` does, but is not subject to `log.max_bytes`."""

    def read(self, after: int, table: SeriesTable) -> Iterator[Entry]:
        """Entries with id > `after`, in order; the series they use are interned in `table`.

        What is trimmed meanwhile may be left out.

        A damaged entry in the middle is copied aside, counted, and yielded as a hole that covers
        what it may have held; several in a row as one hole, under the id of the last. Nobody else may intern
        in `table` meanwhile.
        """

    def check_room(self) -> None:
        """Raises Rejected when an append would be refused for want of room now, whatever its size."""

    def last_id(self) -> int:
        """Id of the newest entry; 0 when there was never one."""

    def trim(self, before_ms: int) -> None:
        """Drop the oldest whole segments all of whose samples have t <= before_ms.

        Never drops the newest segment, and may keep one of which it is not known. What holes it drops from the
        log are kept elsewhere.
        """

    def rotate(self, table: SeriesTable) -> None:
        """Begin a new segment, whose entries use ids of `table` (after the table was compacted).

        Raises as `sync` does; the next segment begins all the same.
        """

    def size_bytes(self) -> int:
        """Bytes retained, on disk or in memory."""

    def oldest_ms(self) -> int | None:
        """Smallest sample time that is still in the log; None when it is empty."""

    def sync(self) -> None:
        """Make what was appended survive a power cut.

        Raises Rejected if the disk refuses; every later append is then refused too, until a restart.
        """

    def close(self) -> None:
        """Sync and release; the log is not used afterwards."""


class OwnLog(SampleLog, Protocol):
    """A log that nobody but this process trims."""

    def first_id(self, before_ms: int) -> int:
        """Id of the first entry that `trim(before_ms)` leaves, as far as segments begin with it; 0 in an empty log."""
