"""From label runs on the wire to series ids: known series at once, new ones through the limits.

    run known      one kernel looks its bytes up: no Python for this series
    run unknown    scanned and checked, sorted, freed of empty values and of the replica label, interned; from
                   then on its bytes are known

Every source resolves its series here, so equal labels are one series however they came.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ingest.errors import BadBody
from ingest.ha import NO_ROOM, ReplicaPairs
from ingest.kernels.labels import has_name
from ingest.limits import MALFORMED, NO_PAIR, LabelLimits, ScannedLabels, scan
from ingest.names import metrics_of
from precompute.intake_port import IntakePort
from precompute.labels import Labels, SeriesTable
from precompute.samples import I32, I64, U8, Bool


@dataclass(frozen=True)
class Resolved:
    """What n label runs stand for."""

    table: SeriesTable
    """The intake's table when they were looked up."""
    sid: I32
    """Series ids of it; -1 where refused; int32[n]."""
    tag: I32
    """Replica pairs (`ingest.ha`); 0 where none; int32[n]."""
    verdict: U8
    """0, or why refused: an index in `ingest.limits.REASONS`; uint8[n]."""


class SeriesResolver:
    """Finds and makes series in the intake's table; safe to use from several threads."""

    def __init__(self, intake: IntakePort, limits: LabelLimits, pairs: ReplicaPairs) -> None:
        self.pairs = pairs
        self._intake, self._limits = intake, limits
        self._unsplit: tuple[SeriesTable, I32] | None = None

    def resolve(self, buf: U8, start: I64, length: I64) -> Resolved:
        """Series of n runs `buf[start:start+length]`; BadBody, and nothing learned, if one is no label run."""
        table = self._intake.table
        sid, tag = table.lookup(buf, start, length)
        self._forget_unsplit(table, sid, tag)
        verdict = np.zeros(len(sid), np.uint8)
        unknown = np.flatnonzero(sid < 0)
        if len(unknown):
            new = self._learn(table, buf, start[unknown], length[unknown])
            sid[unknown], tag[unknown], verdict[unknown] = new.sid, new.tag, new.verdict
        return Resolved(table, sid, tag, verdict)

    def metrics_of(self, buf: U8, start: I64, length: I64) -> set[str]:
        """Names of the metrics of n runs, without those that are too long for a series to have."""
        return metrics_of(buf, start, length, self._limits.max_value_length)

    def _forget_unsplit(self, table: SeriesTable, sid: I32, tag: I32) -> None:
        """Treat as unknown the series that still carry a pair, from a log written under other HA labels."""
        if self._unsplit is None or self._unsplit[0] is not table:
            columns = table.columns(np.arange(len(table), dtype=np.int32), self.pairs.names)
            self._unsplit = table, np.flatnonzero((columns > 0).all(axis=1)).astype(np.int32)
        unsplit = self._unsplit[1]
        if len(unsplit):
            sid[np.isin(sid, unsplit) & (tag == 0)] = -1

    def _learn(self, table: SeriesTable, buf: U8, start: I64, length: I64) -> Resolved:
        found = scan(buf, start, length, self._limits)
        if (found.verdict == MALFORMED).any():
            raise BadBody("not a prometheus.WriteRequest: damaged labels")
        n = len(start)
        sid, tag, verdict = np.full(n, -1, np.int32), np.zeros(n, np.int32), found.verdict
        canonical = found.canonical.tolist()
        plain_runs = self._plain(buf, found)
        with self._intake.intern_lock:
            sid[plain_runs] = table.intern_runs(buf, start[plain_runs], length[plain_runs])
            for i, raw, labels in _series_of(buf, start, length, found, (found.verdict == 0) & (sid < 0)):
                plain, pair = self.pairs.split(labels)
                if pair == NO_ROOM:
                    verdict[i] = NO_PAIR
                    continue
                sid[i], tag[i] = table.intern(plain), pair
                if pair or not canonical[i]:
                    table.alias(raw, int(sid[i]), pair)
        return Resolved(table, sid, tag, verdict)

    def _plain(self, buf: U8, found: ScannedLabels) -> I64:
        """Runs that can be interned as they stand: fine, canonical, and of no replica."""
        replica = np.frombuffer(self.pairs.names[1].encode(), np.uint8)
        fine = (found.verdict == 0) & (found.canonical == 1)
        return np.flatnonzero(fine & ~has_name(buf, found.first, found.spans, replica))


def _series_of(
    buf: U8, start: I64, length: I64, found: ScannedLabels, which: Bool
) -> Iterator[tuple[int, bytes, Labels]]:
    """(index, run, labels) of the runs where `which`, bool[n], is true."""
    starts, lengths, first = start.tolist(), length.tolist(), found.first.tolist()
    for i in np.flatnonzero(which).tolist():
        at = starts[i]
        raw = buf[at : at + lengths[i]].tobytes()
        spans = (found.spans[first[i] : first[i + 1]] - at).tolist()
        yield i, raw, tuple([(raw[a:b].decode(), raw[c:d].decode()) for a, b, c, d in spans])
