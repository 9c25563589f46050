"""Log entries of a shard as bytes: a small header and the log codec's body (log/codec.py).

    "A" u8 version · u8 flags (1: body compressed) · u32 crc32 of all after it · u64 writer · u32 segment · body

Series ids in a body are the writer's own, dense within (writer, segment); the
first entry that uses a series defines it.
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from precompute.labels import SeriesTable
from precompute.log.codec import Definitions, compress, decode_samples, decompress
from precompute.log.replay import intern_runs
from precompute.samples import I32, I64, U8, Block

_HEAD = struct.Struct("<cBBI")
_FROM = struct.Struct("<QI")
_VERSION, _COMPRESSED = 1, 1


class BadEntry(ValueError):
    """Bytes that are no entry, or one that uses series which nobody defined."""


def pack_entry(writer: int, segment: int, body: bytes) -> bytes:
    """An entry with this body (`codec.encode_samples`)."""
    stored, compressed = compress(body)
    rest = _FROM.pack(writer, segment) + stored
    return _HEAD.pack(b"A", _VERSION, compressed * _COMPRESSED, zlib.crc32(rest)) + rest


@dataclass(frozen=True)
class _Series:
    """The reader's ids of what one writer defined in one segment; -1 where a definition is missing."""

    sids: I32
    defined: int


class EntryReader:
    """Entries of one shard's log, read in order, as blocks of the reader's table."""

    def __init__(self, table: SeriesTable) -> None:
        self._table = table
        self._series: dict[tuple[int, int], _Series] = {}
        self._newest = 0
        """Segment of the last entry; a log's segments only grow."""

    def block(self, data: bytes) -> Block:
        """Rows with ids of the table, in which their series are interned. Raises BadEntry."""
        writer, segment, body = _unpacked(data)
        if segment > self._newest:
            self._newest = segment
            self.forget(segment)
        try:
            definitions, local, t_ms, value = decode_samples(body)
            series = self._series.get((writer, segment), _Series(np.empty(0, np.int32), 0))
            if len(definitions):
                series = self._series[writer, segment] = self._defined(series, definitions)
        except ValueError as error:
            raise BadEntry(str(error)) from error
        if len(local) and int(local.max()) >= series.defined:
            raise BadEntry("an entry uses series that were not defined before it")
        sids = series.sids[local]
        if (sids < 0).any():
            raise BadEntry("an entry uses series whose definition is lost")
        return Block(sids, t_ms, value)

    def move(self, table: SeriesTable) -> None:
        """Use ids of another table from now on, in which all series that are defined are interned."""
        for key, series in self._series.items():
            sids, known = np.full(len(series.sids), -1, np.int32), series.sids >= 0
            if known.any():
                sids[known] = intern_runs(table, *self._table.canonical(series.sids[known]))
            self._series[key] = _Series(sids, series.defined)
        self._table = table

    def forget(self, before_segment: int) -> None:
        """Segments before this one are gone, or read."""
        self._series = {key: series for key, series in self._series.items() if key[1] >= before_segment}

    def _defined(self, series: _Series, new: Definitions) -> _Series:
        last = new.first + len(new)
        sids = series.sids
        if last > len(sids):
            sids = np.full(max(1024, 2 * last), -1, np.int32)
            sids[: len(series.sids)] = series.sids
        sids[new.first : last] = intern_runs(self._table, new.raw, new.offsets)
        return _Series(sids, max(series.defined, last))


def entry_times(data: bytes) -> I64:
    """Times of an entry's samples alone, whatever their series. Raises BadEntry."""
    _, _, body = _unpacked(data)
    try:
        return decode_samples(body)[2]
    except ValueError as error:
        raise BadEntry(str(error)) from error


def _unpacked(data: bytes) -> tuple[int, int, U8]:
    """Writer, segment and body."""
    if len(data) < _HEAD.size + _FROM.size:
        raise BadEntry("an entry is too short")
    mark, version, flags, crc = _HEAD.unpack_from(data)
    if mark != b"A" or version != _VERSION:
        raise BadEntry(f"an entry of version {version} instead of {_VERSION}")
    if zlib.crc32(data[_HEAD.size :]) != crc:
        raise BadEntry("an entry's checksum is wrong")
    writer, segment = _FROM.unpack_from(data, _HEAD.size)
    stored = memoryview(data)[_HEAD.size + _FROM.size :]
    try:
        return writer, segment, decompress(stored) if flags & _COMPRESSED else np.frombuffer(stored, np.uint8)
    except ValueError as error:
        raise BadEntry(str(error)) from error
