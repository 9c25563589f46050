"""The steps that every source shares: resolve series, choose among replicas, hand a block to the core, count."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.limits import REASONS
from ingest.metrics import IngestMetrics
from ingest.series import Resolved, SeriesResolver
from precompute.errors import TableReplaced
from precompute.intake_port import Admission, IntakePort
from precompute.metadata import Described
from precompute.samples import F64, I32, I64, U8, Block

NoteMetadata = Callable[[Sequence[Described]], None]
"""Keeps what is said of metric families at a time."""


@dataclass(frozen=True)
class SeriesColumns:
    """Samples of s series in the order they came, n in all."""

    buf: U8
    """What the label runs point into."""
    label_start: I64
    """int64[s]."""
    label_length: I64
    """Bytes; int64[s]."""
    samples: I64
    """How many of the rows belong to each series, 1 or more; int64[s]."""
    t_ms: I64
    """Milliseconds since the epoch; int64[n]."""
    value: F64
    """float64[n]."""


@dataclass(frozen=True)
class Outcome:
    """What became of the samples of one write; the accepted ones are in the log."""

    accepted: int
    ha_dropped: int
    refused: dict[str, int]
    """Samples by reason, the first reason first; empty when nothing was refused."""
    detail: str
    """Where the first reason applies, in words."""

    def text(self) -> str:
        """One sentence for the sender's log."""
        refused = sum(self.refused.values())
        reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in self.refused.items())
        total = self.accepted + self.ha_dropped + refused
        return f"refused {refused} of {total} samples, the others are taken: {reasons}; {self.detail}"


def columns_of(runs: Sequence[bytes], t_ms: I64, value: F64) -> SeriesColumns:
    """Columns of s series with one sample each; `runs` are their label fields as on the wire."""
    length = np.fromiter(map(len, runs), np.int64, len(runs))
    start = np.cumsum(length) - length
    return SeriesColumns(
        np.frombuffer(bytearray(b"".join(runs)), np.uint8), start, length, np.ones(len(runs), np.int64), t_ms, value
    )


class Writer:
    """Writes columns of samples into the intake; safe to use from several threads."""

    def __init__(self, intake: IntakePort, resolver: SeriesResolver, metrics: IngestMetrics) -> None:
        self._intake, self._resolver, self._metrics = intake, resolver, metrics

    def write(self, source: str, columns: SeriesColumns) -> Outcome:
        """Take what can be taken; when this returns, the log has it.

        source: the metrics' label, such as `remote_write`. Raises Rejected and BadBody; nothing was taken then.
        """
        while True:
            try:
                return self._write_once(source, columns)
            except TableReplaced:
                continue

    def _write_once(self, source: str, columns: SeriesColumns) -> Outcome:
        self._intake.check_room()
        resolved = self._resolver.resolve(columns.buf, columns.label_start, columns.label_length)
        self._note_refused(columns, resolved)
        sid, ha_dropped = self._without_dropped(resolved, columns.samples)
        rows = np.repeat(sid, columns.samples)
        block = Block(rows, columns.t_ms, columns.value)
        if (sid < 0).any():
            block = block.take(rows >= 0)
        admission = self._intake.write(block, resolved.table) if len(block) else Admission(0, 0, 0, 0)
        outcome = _outcome(resolved, columns.samples, admission, ha_dropped)
        self._count(source, outcome)
        return outcome

    def _note_refused(self, columns: SeriesColumns, resolved: Resolved) -> None:
        """Metrics of refused series are not held whole."""
        refused = np.flatnonzero(resolved.verdict)
        if len(refused):
            start, length = columns.label_start[refused], columns.label_length[refused]
            self._intake.note_partial(self._resolver.metrics_of(columns.buf, start, length))

    def note_histograms(self, buf: U8, start: I64, length: I64) -> None:
        """The metrics of these label runs have histogram samples."""
        self._intake.note_histograms(self._resolver.metrics_of(buf, start, length))

    def _without_dropped(self, resolved: Resolved, samples: I64) -> tuple[I32, int]:
        """(ids with -1 for series of replicas that are not elected, how many samples those have)."""
        if not resolved.tag.any():
            return resolved.sid, 0
        dropped = self._resolver.pairs.dropped(np.unique(resolved.tag).tolist())
        if not dropped:
            return resolved.sid, 0
        out = np.isin(resolved.tag, dropped)
        return np.where(out, np.int32(-1), resolved.sid), int(samples[out].sum())

    def _count(self, source: str, outcome: Outcome) -> None:
        self._metrics.samples.labels(source).inc(outcome.accepted)
        self._metrics.ha_dropped.inc(outcome.ha_dropped)
        for reason, count in outcome.refused.items():
            self._metrics.refused.labels(reason).inc(count)


def _outcome(resolved: Resolved, samples: I64, admission: Admission, ha_dropped: int) -> Outcome:
    refused, details = _refused_series(resolved.verdict, samples)
    if admission.too_old:
        refused["too_old"] = admission.too_old
        details.append(f"samples up to {admission.floor_ms} ms are too old")
    if admission.too_far_ahead:
        refused["too_far_ahead"] = admission.too_far_ahead
        details.append("samples above ingest.max_future are too far ahead")
    return Outcome(admission.accepted, ha_dropped, refused, "; ".join(details))


def _refused_series(verdict: U8, samples: I64) -> tuple[dict[str, int], list[str]]:
    """Refused samples by reason in order of first sight, and where that was."""
    if not verdict.any():
        return {}, []
    reasons, first = np.unique(verdict, return_index=True)
    counts = np.bincount(verdict, weights=samples)
    seen = [int(reasons[k]) for k in np.argsort(first) if reasons[k]]
    place = int(first[reasons == seen[0]][0])
    refused = {REASONS[reason]: int(counts[reason]) for reason in seen}
    return refused, [f"{REASONS[seen[0]].replace('_', ' ')} first in series {place}, counted from 0"]
