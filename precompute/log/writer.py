"""Writing one segment: encode first, so that room can be checked, then one write for all of it."""

import errno
import logging
import os
import secrets
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from precompute.errors import Rejected
from precompute.labels import SeriesTable
from precompute.log import segment as seg
from precompute.log.base import Hole
from precompute.log.codec import NOTHING_DEFINED, U32, Definitions, compress, encode_samples, rows_by_base
from precompute.samples import I32, Block

logger = logging.getLogger(__name__)

MAX_ROWS = 1 << 20
"""Rows in one record; longer blocks become several, written together."""


@dataclass(frozen=True)
class Prepared:
    """Records ready to be written, and what holds once they are."""

    data: bytes
    state: seg.SegmentState
    defined: I32
    """Series of the table whose definitions are among these records, in the order of their local ids."""


def begin_segment(folder: Path, first_id: int, before_id: int, created_ms: int, floor_ms: int) -> seg.Segment:
    """Create a segment file that holds its header only; under its name it is never without one."""
    header = seg.Header(first_id, before_id, created_ms, floor_ms, secrets.token_bytes(4))
    path = folder / seg.file_name(first_id)
    unnamed = path.with_suffix(".tmp")
    fd = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        if os.write(fd, header.pack()) < seg.HEADER_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(unnamed, path)
    seg.sync_folder(folder)
    return seg.Segment(path, header, seg.SegmentState(seg.HEADER_BYTES, before_id))


class SegmentWriter:
    """The only writer of one segment. Local ids are dense, in the order in which series are first used."""

    def __init__(self, segment: seg.Segment, table: SeriesTable) -> None:
        self.segment = segment
        self._fd = os.open(segment.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._whole, self._closed = True, False
        self._closing = threading.Lock()
        self.begin(table)

    def begin(self, table: SeriesTable) -> None:
        """Take the series of `table` from now on; only while the segment is empty."""
        self._table = table
        self._local = np.full(max(1024, 2 * len(table)), -1, np.int32)
        self._defined = 0

    def is_empty(self) -> bool:
        return self.segment.state.last_id < self.segment.header.first_id

    def prepare(self, block: Block) -> Prepared:
        """Encode a block; nothing changes until `write`."""
        local, fresh = self._localise(block.sid)
        definitions = NOTHING_DEFINED
        if len(fresh):
            definitions = Definitions(self._defined, *self._table.canonical(fresh))
        data, state = b"", self.segment.state
        for base_ms, rows in rows_by_base(block.t_ms, MAX_ROWS):
            t_ms = block.t_ms[rows]
            body, compressed = compress(encode_samples(local[rows], t_ms, block.value[rows], base_ms, definitions))
            flags = seg.COMPRESSED * compressed | seg.DEFINES * bool(len(definitions))
            after_ms = max(int(t_ms.min()), seg.MIN_MS + 1) - 1
            record = seg.Record(seg.SAMPLES, flags, self._id_after(state), after_ms, int(t_ms.max()))
            packed, state = self._pack(record, body, state)
            data, definitions = data + packed if data else packed, NOTHING_DEFINED
        return Prepared(data, state, fresh)

    def prepare_hole(self, hole: Hole) -> Prepared:
        """Encode a hole; nothing changes until `write`."""
        state = self.segment.state
        record = seg.Record(seg.HOLE, 0, self._id_after(state), hole.after_ms, hole.until_ms)
        data, state = self._pack(record, hole.metric.encode(), state)
        return Prepared(data, state, np.empty(0, np.int32))

    def write(self, prepared: Prepared) -> None:
        """Append what was prepared last, whole or not at all; raises Rejected if the disk refuses."""
        self._make_whole()
        try:
            written = os.write(self._fd, prepared.data)
        except OSError as error:
            self._undo(str(error.strerror), error)
        if written < len(prepared.data):
            self._undo("the disk took only a part of it", None)
        last = self._defined + len(prepared.defined)
        self._local[prepared.defined] = np.arange(self._defined, last, dtype=np.int32)
        self._defined, self.segment.state = last, prepared.state

    def take_back(self, state: seg.SegmentState) -> None:
        """Return to an earlier state of the file, after `write` succeeded but what must follow it did not."""
        self.segment.state, self._whole = state, False
        self._make_whole()

    def sync(self) -> None:
        """Make what was written survive a power cut; may run beside everything else. Raises OSError."""
        with self._closing:
            if self._closed:
                return
            fd = os.dup(self._fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def seal(self) -> None:
        """Write the footer, sync and close; an empty segment gets no footer. Raises OSError if it cannot sync."""
        try:
            if not self.is_empty():
                self._write_footer()
            self.sync()
        finally:
            with self._closing:
                self._closed = True
                os.close(self._fd)

    def _write_footer(self) -> None:
        state, mark = self.segment.state, self.segment.header.mark
        footer = seg.pack_footer(state, mark)
        try:
            self.write(Prepared(footer, replace(state, length=state.length + len(footer)), np.empty(0, np.int32)))
        except Rejected as reason:
            logger.warning("%s has no footer and will be scanned when it is opened: %s", self.segment.path, reason)

    def _id_after(self, state: seg.SegmentState) -> int:
        return max(state.last_id + 1, self.segment.header.first_id)

    def _localise(self, sid: I32) -> tuple[U32, I32]:
        """Local ids of the rows, and the series that have none yet, in the order in which they get theirs."""
        if len(self._local) < len(self._table):
            grown = np.full(2 * len(self._table), -1, np.int32)
            grown[: len(self._local)] = self._local
            self._local = grown
        local = self._local[sid]
        missing = local < 0
        if not missing.any():
            return local.view(np.uint32), np.empty(0, np.int32)
        fresh = np.unique(sid[missing])
        if fresh[0] < 0 or fresh[-1] >= len(self._table):
            raise IndexError("a block names a series that the log's table does not have")
        local[missing] = self._defined + np.searchsorted(fresh, sid[missing])
        return local.view(np.uint32), fresh

    def _pack(self, record: seg.Record, body: bytes, state: seg.SegmentState) -> tuple[bytes, seg.SegmentState]:
        data = seg.pack_record(record, body, self.segment.header.mark)
        return data, state.plus(record, state.length + len(data))

    def _undo(self, reason: str, cause: OSError | None) -> NoReturn:
        self._whole = False
        self._make_whole()
        raise Rejected(f"cannot write to the sample log in {self.segment.path.parent}: {reason}") from cause

    def _make_whole(self) -> None:
        """Cut off the rest of a write that failed, before anything can follow it."""
        if self._whole:
            return
        try:
            os.ftruncate(self._fd, self.segment.state.length)
        except OSError as error:
            raise Rejected(f"cannot repair {self.segment.path}: {error.strerror}") from error
        self._whole = True
