"""From the body of a remote-write request to samples in the log.

    type checked -> room checked, taken -> unpacked -> decoded -> (writer: series, replicas, log) -> notes

Histogram samples are not kept; the core is told the metrics that have them, since it does not hold those.
"""

import numpy as np

from ingest.content import encoding_of
from ingest.decoders.compression import decompress, unpacked_bytes
from ingest.decoders.remote_write import WriteColumns, decode
from ingest.metrics import IngestMetrics
from ingest.room import Room
from ingest.writer import NoteMetadata, Outcome, SeriesColumns, Writer
from precompute.intake_port import IntakePort
from precompute.metadata import Family
from precompute.samples import U8

SOURCE = "remote_write"
_BODIES_AT_ONCE = 2
"""Of the largest size; of those that senders make, many."""


class RemoteWrite:
    """Takes remote-write requests; safe to use from several threads."""

    def __init__(
        self, intake: IntakePort, writer: Writer, metrics: IngestMetrics, note_metadata: NoteMetadata,
        max_body_bytes: int,
    ) -> None:  # fmt: skip
        self._intake, self._writer, self._note_metadata = intake, writer, note_metadata
        self.metrics, self.max_body_bytes = metrics, max_body_bytes
        self._room = Room(_BODIES_AT_ONCE * max_body_bytes)

    def write(self, body: bytes, content_type: str, content_encoding: str) -> Outcome:
        """Take a request's samples; when this returns, the log has the accepted ones.

        Raises UnsupportedType, Rejected, TooLarge, BadBody; nothing was taken then.
        """
        encoding = encoding_of(content_type, content_encoding)
        self._intake.check_room()
        with self.metrics.seconds.time():
            self.metrics.request_bytes.inc(len(body))
            with self._room.taken(unpacked_bytes(body, encoding, self.max_body_bytes)):
                return self._take(decompress(body, encoding, self.max_body_bytes))

    def _take(self, request: U8) -> Outcome:
        columns = decode(request, self.max_body_bytes)
        outcome = self._writer.write(SOURCE, _with_samples(columns))
        self._note(columns)
        return outcome

    def _note(self, columns: WriteColumns) -> None:
        if columns.histograms.any():
            self.metrics.histograms.inc(int(columns.histograms.sum()))
            having = np.flatnonzero(columns.histograms)
            start, length = columns.label_start[having], columns.label_length[having]
            self._writer.note_histograms(columns.buf, start, length)
        if columns.metadata:
            said = [(entry.family, Family(entry.type, entry.help, entry.unit)) for entry in columns.metadata]
            self._note_metadata(said)


def _with_samples(columns: WriteColumns) -> SeriesColumns:
    """The series that have samples; one with exemplars or histograms alone is not made known."""
    samples = np.diff(columns.sample_first)
    start, length = columns.label_start, columns.label_length
    if not samples.all():
        used = np.flatnonzero(samples)
        samples, start, length = samples[used], start[used], length[used]
    return SeriesColumns(columns.buf, start, length, samples, columns.t_ms, columns.value)
