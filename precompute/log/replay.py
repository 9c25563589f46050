"""Reading a segment back: records to entries, with the series interned in the reader's table."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from precompute.labels import SeriesTable
from precompute.log import segment as seg
from precompute.log.base import Entry, Hole
from precompute.log.codec import Definitions, decode_samples, decompress
from precompute.samples import I32, I64, U8, Block

logger = logging.getLogger(__name__)


def intern_runs(table: SeriesTable, raw: U8, offsets: I64) -> I32:
    """Ids in `table` of n runs of canonical label bytes, int32[n]; raises ValueError where a run is none."""
    return table.intern_runs(raw, offsets[:-1], np.diff(offsets))


class DamagedBytes:
    """Copies aside what could not be read, once each, and counts it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[tuple[str, int]] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def keep(self, path: Path, start: int, data: bytes) -> None:
        """Note the bytes that begin at `start` of the file `path`; a disk that refuses the copy is only logged."""
        if (path.name, start) in self._seen:
            return
        self._seen.add((path.name, start))
        aside = self._folder / f"{path.stem}-{start}.bin"
        logger.error("%s is damaged at byte %d (%d bytes); they are kept in %s", path, start, len(data), aside)
        try:
            self._folder.mkdir(exist_ok=True)
            aside.write_bytes(data)
        except OSError as error:
            logger.error("cannot keep damaged bytes in %s: %s", aside, error.strerror)


class SegmentReader:
    """The entries of one segment as it stood in `state`."""

    def __init__(self, segment: seg.Segment, state: seg.SegmentState, table: SeriesTable, aside: DamagedBytes) -> None:
        self._segment, self._state, self._table, self._aside = segment, state, table, aside
        self._sids = np.full(1, -1, np.int32)
        self._defined = 0
        self._lost = Hole(state.after_ms, state.until_ms)
        self._told = False

    def entries(self, after: int) -> Iterator[Entry]:
        """Entries with id > `after`. Lost ones in a row are one hole, under the id of the last of them."""
        self._data = seg.read_file(self._segment.path, self._state.length)
        seen = self._segment.header.first_id - 1
        for found in seg.scan(self._data, self._segment.header.mark):
            if isinstance(found, seg.Gap):
                self._keep(found.start, found.end)
                continue
            lost = found.id - (found.kind != seg.END)
            if lost > max(seen, after):
                yield self._hole(lost)
            seen = found.id
            if found.kind != seg.END and (seen > after or found.flags & seg.DEFINES):
                yield from self._read(found, after)
        if self._state.last_id > max(seen, after):
            yield self._hole(self._state.last_id)

    def _read(self, record: seg.Record, after: int) -> Iterator[Entry]:
        """What one record gives: a block, a hole, both where definitions were lost, or nothing new."""
        try:
            body = self._body(record)
            if record.kind == seg.HOLE:
                yield Entry(record.id, None, Hole(record.after_ms, record.until_ms, body.tobytes().decode()))
                return
            block, lost_rows = self._block(body)
        except ValueError:
            self._keep(record.start, record.end)
            if record.id > after:
                yield self._damaged(record)
            return
        if record.id > after and len(block):
            yield Entry(record.id, block)
        if record.id > after and lost_rows and not self._told:
            yield self._hole(record.id)

    def _body(self, record: seg.Record) -> U8:
        stored = seg.body_of(self._data, record, self._segment.header.mark)
        if stored is None:
            raise ValueError("checksum differs")
        return decompress(stored) if record.flags & seg.COMPRESSED else np.frombuffer(stored, np.uint8)

    def _block(self, body: U8) -> tuple[Block, bool]:
        """The rows whose series are known, and whether there were others."""
        definitions, local, t_ms, value = decode_samples(body)
        if len(definitions):
            self._define(definitions)
        known = local < self._defined
        if not known.all():
            block = Block(self._sids[np.where(known, local, 0)], t_ms, value)
            return block.take(known & (block.sid >= 0)), True
        block = Block(self._sids[local], t_ms, value)
        lost = block.sid < 0
        return (block.take(~lost), True) if lost.any() else (block, False)

    def _define(self, definitions: Definitions) -> None:
        """Note the series of local ids; ids passed over (their record is damaged) stay -1."""
        last = definitions.first + len(definitions)
        if last > len(self._sids):
            grown = np.full(max(1024, 2 * last), -1, np.int32)
            grown[: len(self._sids)] = self._sids
            self._sids = grown
        self._sids[definitions.first : last] = intern_runs(self._table, definitions.raw, definitions.offsets)
        self._defined = max(self._defined, last)

    def _damaged(self, record: seg.Record) -> Entry:
        if record.flags & seg.DEFINES:
            return self._hole(record.id)
        return Entry(record.id, None, Hole(record.after_ms, record.until_ms))

    def _hole(self, entry: int) -> Entry:
        self._told = True
        return Entry(entry, None, self._lost)

    def _keep(self, start: int, end: int) -> None:
        self._aside.keep(self._segment.path, start, self._data[start:end])
