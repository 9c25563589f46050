"""The sample log as segment files in one folder.

    lock                      held while a process has the log open
    00000000000000000001.seg  segments, named by their first entry id (see `segment`)
    damaged/                  copies of bytes that were no record

An entry is in the kernel's page cache before `append` returns: it survives the end of the process, whatever
ends it. What a power cut can take is what was appended since the last `sync`. So that no entry id is ever
given twice, each opening skips more ids than can be appended between two syncs.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from precompute.clock import Clock
from precompute.errors import LogDamaged, Rejected
from precompute.labels import SeriesTable
from precompute.log import segment as seg
from precompute.log.base import Entry, Hole
from precompute.log.opening import Opened, lock_folder, open_segments
from precompute.log.replay import DamagedBytes, SegmentReader
from precompute.log.writer import Prepared, SegmentWriter, begin_segment
from precompute.samples import Block

logger = logging.getLogger(__name__)

SKIPPED_IDS = 1 << 20
"""Ids left out at each opening of a log that is not empty."""

Snapshot = list[tuple[seg.Segment, seg.SegmentState]]


class FileSampleLog:
    """See `precompute.log.base` for the contract."""

    def __init__(
        self,
        folder: Path,
        table: SeriesTable,
        *,
        max_bytes: int,
        min_free_disk: int,
        clock: Clock,
        floor_ms: Callable[[], int],
        max_future_ms: int = 60_000,
        segment_ms: int = 600_000,
        segment_bytes: int = 128 << 20,
        fsync_every_append: bool = False,
        disk_free: Callable[[], int] | None = None,
    ) -> None:
        """Open the folder, creating it if needed. Raises LogDamaged where it is no log, or in use.

        floor_ms: the node's floor; no block holds a sample at or before it. With max_future_ms, how far ahead
        of the clock a sample may be, it bounds what a damaged segment can have held.
        """
        self._folder, self._table, self._clock = folder, table, clock
        self._max_bytes, self._min_free_disk = max_bytes, min_free_disk
        self._floor_ms, self._max_future_ms = floor_ms, max_future_ms
        self._segment_ms, self._segment_bytes = segment_ms, segment_bytes
        self._fsync_every_append = fsync_every_append
        self._disk_free = disk_free or (lambda: shutil.disk_usage(folder).free)
        self._damaged = DamagedBytes(folder / "damaged")
        self._writer: SegmentWriter | None = None
        self._refusal = ""
        self._open()

    def _open(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock_folder(self._folder)
            opened = self._open_locked()
        except OSError as error:
            raise LogDamaged(f"cannot open the sample log in {self._folder}: {error}") from error
        self._segments = opened.segments
        self.torn_bytes = opened.torn_bytes
        """Bytes of a write cut short that were cut off when the log was opened."""
        self._older_bytes = sum(s.state.length for s in self._segments)
        self._next_id = self._first_id_now()

    def _open_locked(self) -> Opened:
        try:
            return open_segments(self._folder, self._clock.now_ms(), self._max_future_ms)
        except (OSError, LogDamaged):
            os.close(self._lock)
            raise

    def _first_id_now(self) -> int:
        if not self._segments:
            return 1
        return max(self.last_id(), self._segments[-1].header.first_id) + 1 + SKIPPED_IDS

    @property
    def damaged_records(self) -> int:
        """Places found since the opening that should be records and are not."""
        return len(self._damaged)

    # -- writing

    def append(self, block: Block) -> int:
        writer = self._writer_with_room()
        prepared = writer.prepare(block)
        if self.size_bytes() + len(prepared.data) > self._max_bytes:
            raise Rejected("the sample log is full: log.max_bytes is reached")
        return self._write(writer, prepared)

    def append_hole(self, hole: Hole) -> int:
        writer = self._writer_with_room()
        return self._write(writer, writer.prepare_hole(hole))

    def check_room(self) -> None:
        self._check_disk()
        if self.size_bytes() >= self._max_bytes:
            raise Rejected("the sample log is full: log.max_bytes is reached")

    def _check_disk(self) -> None:
        if self._refusal:
            raise Rejected(self._refusal)
        if self._free_bytes() < self._min_free_disk:
            raise Rejected("the disk of the sample log has less than log.min_free_disk left")

    def _writer_with_room(self) -> SegmentWriter:
        self._check_disk()
        if self._writer and self._is_done(self._writer):
            self._seal(self._writer)
        if self._writer is None:
            self._writer = self._begin()
        return self._writer

    def _free_bytes(self) -> int:
        try:
            return self._disk_free()
        except OSError as error:
            raise Rejected(f"cannot see how full the disk of {self._folder} is: {error.strerror}") from error

    def _is_done(self, writer: SegmentWriter) -> bool:
        segment = writer.segment
        age_ms = self._clock.now_ms() - segment.header.created_ms
        return not writer.is_empty() and (
            age_ms >= self._segment_ms or segment.state.length >= self._segment_bytes
        )  # fmt: skip

    def _begin(self) -> SegmentWriter:
        now_ms, floor_ms = self._clock.now_ms(), self._floor_ms()
        try:
            segment = begin_segment(self._folder, self._next_id, self.last_id(), now_ms, floor_ms)
            writer = SegmentWriter(segment, self._table)
        except OSError as error:
            raise Rejected(f"cannot begin a segment in {self._folder}: {error.strerror}") from error
        self._segments += (segment,)
        return writer

    def _write(self, writer: SegmentWriter, prepared: Prepared) -> int:
        before = writer.segment.state
        writer.write(prepared)
        if self._fsync_every_append:
            try:
                self.sync()
            except Rejected:
                writer.take_back(before)
                raise
        return prepared.state.last_id

    def _seal(self, writer: SegmentWriter) -> None:
        self._writer = None
        self._next_id = self.last_id() + 1
        try:
            writer.seal()
        except OSError as error:
            self._refuse(error)
        finally:
            self._older_bytes += writer.segment.state.length

    def rotate(self, table: SeriesTable) -> None:
        self._table = table
        if self._writer and self._writer.is_empty():
            self._writer.begin(table)
        elif self._writer:
            self._seal(self._writer)

    def sync(self) -> None:
        writer = self._writer
        if writer:
            try:
                writer.sync()
            except OSError as error:
                self._refuse(error)

    def _refuse(self, error: OSError) -> None:
        """After a failed sync nobody knows what is on the disk: nothing more is accepted by this process."""
        self._refusal = f"cannot sync the sample log in {self._folder}: {error.strerror}"
        logger.error("%s; writes are refused until a restart", self._refusal)
        raise Rejected(self._refusal) from error

    def close(self) -> None:
        try:
            if self._writer:
                self._seal(self._writer)
        finally:
            os.close(self._lock)

    # -- reading

    def read(self, after: int, table: SeriesTable) -> Iterator[Entry]:
        # taken now, not at the first entry: all that was appended before this call is seen
        return self._replay([(s, s.state) for s in self._segments], after, table)

    def _replay(self, snapshot: Snapshot, after: int, table: SeriesTable) -> Iterator[Entry]:
        before: seg.Segment | None = None
        for segment, state in snapshot:
            if before and before.state.last_id < segment.header.before_id > after:
                yield self._missing_file(before, segment)
            if state.last_id > after:
                yield from self._entries(segment, state, after, table)
            before = segment

    def _entries(
        self, segment: seg.Segment, state: seg.SegmentState, after: int, table: SeriesTable
    ) -> Iterator[Entry]:  # fmt: skip
        try:
            yield from SegmentReader(segment, state, table, self._damaged).entries(after)
        except OSError as error:
            if segment in self._segments:
                logger.error("cannot read %s: %s", segment.path, error.strerror)
                yield Entry(state.last_id, None, Hole(state.after_ms, state.until_ms))

    def _missing_file(self, before: seg.Segment, segment: seg.Segment) -> Entry:
        logger.error("a segment between %s and %s is missing", before.path, segment.path)
        until_ms = segment.header.created_ms + self._max_future_ms
        return Entry(segment.header.before_id, None, Hole(before.header.floor_ms, until_ms))

    # -- what is kept

    def last_id(self) -> int:
        return self._segments[-1].state.last_id if self._segments else 0

    def first_id(self, before_ms: int) -> int:
        older, newest = self._segments[:-1], self._segments[-1:]
        left = (*(s for s in older if s.state.until_ms > before_ms), *newest)
        return left[0].header.first_id if left else 0

    def lost(self, first: int, last: int, base_ms: int) -> tuple[Hole, ...]:
        """Where samples are missing if entries `first` to `last` (0: not known) must be here, as they were once.

        base_ms: what was let go of on purpose lies at or before it. New entries get ids after `last` in any case.
        """
        self._next_id = max(self._next_id, last + 1 + SKIPPED_IDS) if last else self._next_id
        until_ms, holes = self._clock.now_ms() + self._max_future_ms, list[Hole]()
        if not self._segments:
            return (Hole(base_ms, until_ms),) if last else ()
        oldest, newest = self._segments[0], self._segments[-1]
        if first and oldest.header.first_id > first:
            logger.error("a segment before %s is missing", oldest.path)
            holes.append(Hole(base_ms, oldest.header.created_ms + self._max_future_ms))
        if newest.state.last_id < last:
            logger.error("what came after %s is missing: entries up to %d", newest.path, last)
            holes.append(Hole(newest.header.floor_ms, until_ms))
        return tuple(holes)

    def trim(self, before_ms: int) -> None:
        while len(self._segments) > 1 and self._segments[0].state.until_ms <= before_ms:
            # out of the list first: a reader that does not find the file looks there for the reason
            oldest, self._segments = self._segments[0], self._segments[1:]
            try:
                oldest.path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("cannot drop %s: %s", oldest.path, error.strerror)
                self._segments = (oldest, *self._segments)
                return
            self._older_bytes -= oldest.state.length

    def size_bytes(self) -> int:
        return self._older_bytes + (self._writer.segment.state.length if self._writer else 0)

    def oldest_ms(self) -> int | None:
        times = [s.state.oldest_ms for s in self._segments if s.state.oldest_ms is not None]
        return min(times, default=None)
