"""A segment file: a header, then records one after another, then, once it is sealed, a footer.

    header    8s magic, u32 version, 4s mark, u64 first id, u64 id before it, i64 created_ms, i64 floor_ms, u32 crc
    record    4s mark, u32 crc of the head, u32 crc of the body, u32 length of the body,
              u8 kind, u8 flags, u16 0, u64 id, i64 after_ms, i64 until_ms, body
    footer    a record of kind END: the whole segment's last id, the interval of its samples; its body, i64, the oldest

Every record says in its head which times it holds, `(after_ms, until_ms]`: trimming, and knowing what a
damaged body may have held, need no body. The mark is random and also seeds the checksums, so neither old
blocks of another file nor bytes that a sender put into a label can pass for a record.

What was torn and what was damaged: a crash leaves a part of a record at the end of the file, and that was
never acknowledged. Anything else that is no record held acknowledged samples.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from precompute.errors import LogDamaged

VERSION = 1
MAGIC = b"ASAPLOG\n"

_HEADER = struct.Struct("<8sI4sQQqq")
_HEAD = struct.Struct("<IIBBHQqq")
_CRC = struct.Struct("<I")
_OLDEST = struct.Struct("<q")

HEADER_BYTES = _HEADER.size + _CRC.size
HEAD_BYTES = 4 + _CRC.size + _HEAD.size
FOOTER_BYTES = HEAD_BYTES + _OLDEST.size

SAMPLES, HOLE, END = 1, 2, 3
COMPRESSED, DEFINES = 1, 2

MIN_MS, MAX_MS = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Header:
    """What was known when the segment was begun."""

    first_id: int
    before_id: int
    """The last id of the segment before; smaller than `first_id - 1` where ids were skipped after a crash."""
    created_ms: int
    floor_ms: int
    """No sample in the segment is as old as this: the floor only rises."""
    mark: bytes

    def pack(self) -> bytes:
        head = _HEADER.pack(
            MAGIC, VERSION, self.mark, self.first_id, self.before_id, self.created_ms, self.floor_ms
        )  # fmt: skip
        return head + _CRC.pack(zlib.crc32(head))


def unpack_header(data: bytes, path: Path) -> Header | None:
    """The header of a segment file, None where it is damaged; raises LogDamaged for an unknown version."""
    head = data[: _HEADER.size]
    if len(data) < HEADER_BYTES or zlib.crc32(head) != _CRC.unpack(data[_HEADER.size : HEADER_BYTES])[0]:
        return None
    magic, version, mark, first_id, before_id, created_ms, floor_ms = _HEADER.unpack(head)
    if magic != MAGIC or version != VERSION:
        raise LogDamaged(f"{path} was written by another version (format {version}, this one reads {VERSION})")
    return Header(first_id, before_id, created_ms, floor_ms, mark)


@dataclass(frozen=True)
class SegmentState:
    """How far a segment reaches; replaced as a whole, so that a reader beside the writer sees no mixture."""

    length: int
    last_id: int
    after_ms: int = MAX_MS
    until_ms: int = MIN_MS
    """The times of all samples lie in `(after_ms, until_ms]`. What holes cover, and how far ahead, keeps no segment."""
    oldest_ms: int | None = None
    """The oldest sample."""

    def plus(self, record: "Record", length: int) -> "SegmentState":
        """The state after one more record, at the file's new length."""
        last_id = max(self.last_id, record.id)
        if record.kind == HOLE:
            return replace(self, length=length, last_id=last_id)
        oldest = self.oldest_ms
        if record.kind == SAMPLES:
            first = record.after_ms + 1
            oldest = first if oldest is None else min(oldest, first)
        return SegmentState(
            length, last_id, min(self.after_ms, record.after_ms), max(self.until_ms, record.until_ms), oldest
        )  # fmt: skip


class Segment:
    """One segment file and what is known of it."""

    def __init__(self, path: Path, header: Header, state: SegmentState) -> None:
        self.path, self.header, self.state = path, header, state


def file_name(first_id: int) -> str:
    return f"{first_id:020d}.seg"


@dataclass(frozen=True)
class Record:
    """The head of a record and where in the file it lies."""

    kind: int
    flags: int
    id: int
    after_ms: int
    until_ms: int
    body_crc: int = 0
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Gap:
    """Bytes `[start, end)` of a segment that are no record."""

    start: int
    end: int


def pack_record(record: Record, body: bytes, mark: bytes) -> bytes:
    """The record as it is written; `body_crc`, `start` and `end` are not read."""
    seed = zlib.crc32(mark)
    head = _HEAD.pack(
        zlib.crc32(body, seed), len(body), record.kind, record.flags, 0, record.id, record.after_ms, record.until_ms
    )  # fmt: skip
    return mark + _CRC.pack(zlib.crc32(head, seed)) + head + body


def pack_footer(state: SegmentState, mark: bytes) -> bytes:
    """The footer of a segment that has at least one record."""
    oldest = MAX_MS if state.oldest_ms is None else state.oldest_ms
    return pack_record(Record(END, 0, state.last_id, state.after_ms, state.until_ms), _OLDEST.pack(oldest), mark)


def unpack_footer(tail: bytes, length: int, mark: bytes) -> SegmentState | None:
    """The state of a sealed segment of `length` bytes from its last FOOTER_BYTES; None where it is not sealed."""
    record = record_at(tail, 0, mark)
    if record is None or record.kind != END:
        return None
    body = body_of(tail, record, mark)
    if body is None:
        return None
    (oldest,) = _OLDEST.unpack(body)
    return SegmentState(
        length, record.id, record.after_ms, record.until_ms, None if oldest == MAX_MS else oldest
    )  # fmt: skip


def record_at(data: bytes, at: int, mark: bytes) -> Record | None:
    """The record that begins at `at`, if a whole one does; its body is not checked yet."""
    head = _head_at(data, at, mark)
    return head if head is not None and head.end <= len(data) else None


def _head_at(data: bytes, at: int, mark: bytes) -> Record | None:
    start = at + 4 + _CRC.size
    if data[at : at + 4] != mark or at + HEAD_BYTES > len(data):
        return None
    head = data[start : at + HEAD_BYTES]
    if zlib.crc32(head, zlib.crc32(mark)) != _CRC.unpack_from(data, at + 4)[0]:
        return None
    body_crc, length, kind, flags, _, entry, after_ms, until_ms = _HEAD.unpack(head)
    return Record(kind, flags, entry, after_ms, until_ms, body_crc, at, at + HEAD_BYTES + length)


def body_of(data: bytes, record: Record, mark: bytes) -> memoryview | None:
    """The record's stored body; None where its checksum is wrong."""
    body = memoryview(data)[record.start + HEAD_BYTES : record.end]
    return body if zlib.crc32(body, zlib.crc32(mark)) == record.body_crc else None


def scan(data: bytes, mark: bytes) -> Iterator[Record | Gap]:
    """The records of a segment file, footer included, in order, with the gaps between them."""
    at = HEADER_BYTES
    while at < len(data):
        record = record_at(data, at, mark)
        if record is not None:
            yield record
            at = record.end
        else:
            end = _next_record(data, at + 1, mark)
            yield Gap(at, end)
            at = end


def _next_record(data: bytes, at: int, mark: bytes) -> int:
    while (at := data.find(mark, at)) >= 0:
        if record_at(data, at, mark) is not None:
            return at
        at += 1
    return len(data)


def is_torn(data: bytes, gap: Gap, mark: bytes) -> bool:
    """Whether a gap is the first part of a record that a crash cut short, at the end of the file."""
    if gap.end < len(data):
        return False
    rest = data[gap.start :]
    if len(rest) < HEAD_BYTES:
        return rest[:4] == mark[: len(rest)]
    return _head_at(data, gap.start, mark) is not None


def read_file(path: Path, length: int) -> bytes:
    """The first `length` bytes of a file, fewer if it has fewer."""
    with open(path, "rb", buffering=0) as file:
        parts, left = [], length
        while left > 0 and (part := os.read(file.fileno(), min(left, 1 << 30))):
            parts.append(part)
            left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def sync_folder(folder: Path) -> None:
    """Make names created in a folder, or renamed, survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
