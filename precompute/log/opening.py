"""Opening a folder of segments: what is there, how far it reaches, and what a crash left at the end."""

import fcntl
import logging
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from precompute.errors import LogDamaged
from precompute.log import segment as seg

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """What a folder holds: segments in order, and the bytes cut off the last one."""

    segments: tuple[seg.Segment, ...]
    torn_bytes: int


def lock_folder(folder: Path) -> int:
    """Take the folder for this process; the lock's file descriptor. Raises LogDamaged if another has it."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise LogDamaged(f"the sample log in {folder} is in use by another process; stop it first") from error
    return fd


def open_segments(folder: Path, now_ms: int, max_future_ms: int) -> Opened:
    """Find out each segment's state, from its footer or else from its records' heads.

    A segment without a footer is scanned once, what a crash tore off its end is cut, and it is sealed:
    nothing is appended to it again. Raises LogDamaged for another version's files, OSError for a bad disk.
    """
    for unnamed in folder.glob("*.tmp"):
        unnamed.unlink()
    paths = sorted(folder.glob("[0-9]" * 20 + ".seg"))
    headers = [_read_header(path) for path in paths]
    segments: list[seg.Segment] = []
    torn_bytes = 0
    for i, (path, header) in enumerate(zip(paths, headers, strict=True)):
        following = next((h for h in headers[i + 1 :] if h), None)
        segment = seg.Segment(path, header or _guessed(path, segments), seg.SegmentState(0, 0))
        until_ms = max_future_ms + (following.created_ms if following else now_ms)
        if not _read_footer(segment, max(until_ms, max_future_ms + segment.header.created_ms)):
            torn_bytes += _Unsealed(segment, header is not None, following, until_ms).recover()
        segments.append(segment)
    return Opened(tuple(segments), torn_bytes)


def _read_header(path: Path) -> seg.Header | None:
    header = seg.unpack_header(seg.read_file(path, seg.HEADER_BYTES), path)
    return header if header and header.first_id == int(path.stem) else None


def _guessed(path: Path, earlier: list[seg.Segment]) -> seg.Header:
    """Stands for a damaged header. Its mark is new, so the whole segment will be one gap."""
    logger.error("the header of %s is damaged; its samples are lost", path)
    first_id, mark = int(path.stem), secrets.token_bytes(4)
    if not earlier:
        return seg.Header(first_id, first_id - 1, 0, seg.MIN_MS, mark)
    before = earlier[-1]
    return seg.Header(first_id, before.state.last_id, before.header.created_ms, before.header.floor_ms, mark)


def _read_footer(segment: seg.Segment, latest_ms: int) -> bool:
    """Whether the segment is sealed; its state is then known.

    latest_ms: no sample in it is newer. Footers of earlier versions count holes too, which may lie ages ahead.
    """
    length = segment.path.stat().st_size
    if length < seg.HEADER_BYTES + seg.FOOTER_BYTES:
        return False
    with open(segment.path, "rb") as file:
        file.seek(length - seg.FOOTER_BYTES)
        state = seg.unpack_footer(file.read(), length, segment.header.mark)
    if state is not None:
        segment.state = replace(state, until_ms=min(state.until_ms, latest_ms))
    return state is not None


class _Unsealed:
    """A segment that was not closed, or whose footer is damaged."""

    def __init__(self, segment: seg.Segment, readable: bool, following: seg.Header | None, until_ms: int) -> None:
        self._segment, self._readable = segment, readable
        self._following, self._until_ms = following, until_ms

    def recover(self) -> int:
        """Learn its state, cut what was torn, seal it; the bytes cut."""
        header, path = self._segment.header, self._segment.path
        data = seg.read_file(path, path.stat().st_size)
        found = list(seg.scan(data, header.mark))
        torn = 0
        if found and isinstance(found[-1], seg.Gap) and seg.is_torn(data, found[-1], header.mark):
            torn = len(data) - found.pop().start
            logger.warning("%s: cut off %d bytes of a write that a crash had cut short", path, torn)
        self._segment.state = self._state(found, len(data) - torn)
        if self._readable:
            self._repair(torn > 0)
        return torn

    def _state(self, found: list[seg.Record | seg.Gap], length: int) -> seg.SegmentState:
        header = self._segment.header
        state, entries = seg.SegmentState(length, header.before_id), 0
        for record in found:
            if isinstance(record, seg.Record):
                state = state.plus(record, length)
                entries += record.kind != seg.END
        if self._following:
            state = replace(state, last_id=max(state.last_id, self._following.before_id))
        elif not self._readable or (found and isinstance(found[-1], seg.Gap)):
            state = replace(state, last_id=max(state.last_id + 1, header.first_id))
        lost = entries < state.last_id - header.first_id + 1
        return self._widened(state) if lost else state

    def _widened(self, state: seg.SegmentState) -> seg.SegmentState:
        """The state of a segment with lost entries: they may have held anything that was accepted then."""
        after_ms = min(state.after_ms, self._segment.header.floor_ms)
        return replace(state, after_ms=after_ms, until_ms=max(state.until_ms, self._until_ms))

    def _repair(self, torn: bool) -> None:
        state, header = self._segment.state, self._segment.header
        fd = os.open(self._segment.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            if torn:
                os.ftruncate(fd, state.length)
            if state.last_id >= header.first_id:
                self._seal(fd, seg.pack_footer(state, header.mark))
            os.fsync(fd)
        finally:
            os.close(fd)

    def _seal(self, fd: int, footer: bytes) -> None:
        """Write the footer; without room for it the next opening scans again."""
        state = self._segment.state
        try:
            whole = os.write(fd, footer) == len(footer)
        except OSError as error:
            logger.warning("cannot write a footer to %s: %s", self._segment.path, error.strerror)
            whole = False
        if whole:
            self._segment.state = replace(state, length=state.length + len(footer))
        else:
            os.ftruncate(fd, state.length)
