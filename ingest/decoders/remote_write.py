"""Remote write 1.0: the bytes of a `prometheus.WriteRequest` as columns (prompb/remote.proto, types.proto).

    WriteRequest    timeseries = 1, metadata = 3
    TimeSeries      labels = 1, samples = 2, exemplars = 3, histograms = 4
    Sample          value = 1 (double), timestamp = 2 (int64, milliseconds)
    MetricMetadata  type = 1 (enum), metric_family_name = 2, help = 4, unit = 5

Pure: bytes in, columns out. Labels are not read here, only found: a known series is recognised by the
bytes of its labels as they stand on the wire.
"""

from dataclasses import dataclass

import numpy as np

from ingest.errors import BadBody, TooLarge
from ingest.kernels.write_request import (
    METADATA,
    SAMPLES,
    SERIES,
    SIDE_BYTES,
    count_request,
    fill_metadata,
    fill_series,
)
from precompute.samples import F64, I32, I64, U8

MAX_METADATA = 10_000
"""Metadata entries read of one request; Prometheus sends 500 at most."""
MAX_METADATA_BYTES = 4096
"""Longest name, help or unit that is kept; longer help is cut, longer names are left out."""

_SERIES_BYTES, _SAMPLE_BYTES = 16, 8
"""Fewer bytes than any series with a name, or sample with a time of today, has on the wire."""

METRIC_TYPES = ("unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")
"""By the enum's number, in the words of Prometheus' metadata API."""


@dataclass(frozen=True)
class Metadata:
    """What a sender says of one metric family."""

    family: str
    type: str
    help: str
    unit: str


@dataclass(frozen=True)
class WriteColumns:
    """A request of s series and n samples, both in the order of the wire."""

    buf: U8
    """What the label runs point into: the request, and behind it runs that were gathered."""
    label_start: I64
    """Where each series' run of label fields begins in `buf`; int64[s]."""
    label_length: I64
    """Bytes of the run; int64[s]."""
    sample_first: I64
    """Samples of series i are rows sample_first[i] to sample_first[i + 1] - 1; int64[s + 1]."""
    value: F64
    """float64[n]; NaNs keep their bits."""
    t_ms: I64
    """Milliseconds since the epoch; int64[n]."""
    histograms: I32
    """Histogram samples of each series, which are not read; int32[s]."""
    metadata: tuple[Metadata, ...]

    def labels(self, series: int) -> bytes:
        """The label run of one series."""
        start = int(self.label_start[series])
        return self.buf[start : start + int(self.label_length[series])].tobytes()


def decode(request: U8, max_bytes: int) -> WriteColumns:
    """The columns of an unpacked request, uint8[m].

    max_bytes: the largest m; a request with more series or samples than that many bytes have room for with a name and
    a time each is TooLarge, since those columns would take a multiple of its own memory.

    A series' labels that do not stand together are gathered behind the request. A field that is absent
    is 0 or empty, unknown fields are skipped. Raises BadBody, TooLarge.
    """
    counts = np.zeros(4, np.int64)
    _check(count_request(request, counts))
    s, n, side, m = (int(counts[k]) for k in (SERIES, SAMPLES, SIDE_BYTES, METADATA))
    _check_count(s, "series", max_bytes, _SERIES_BYTES)
    _check_count(n, "samples", max_bytes, _SAMPLE_BYTES)
    buf = request if side == 0 else np.concatenate((request, np.empty(side, np.uint8)))
    start, length, first = np.empty(s, np.int64), np.empty(s, np.int64), np.zeros(s + 1, np.int64)
    value_bits, t_ms, histograms = np.empty(n, np.uint64), np.empty(n, np.int64), np.empty(s, np.int32)
    _check(fill_series(buf, len(request), start, length, first, value_bits, t_ms, histograms))
    metadata = _metadata(request, min(m, MAX_METADATA))
    return WriteColumns(buf, start, length, first, value_bits.view(np.float64), t_ms, histograms, metadata)


def _check_count(count: int, what: str, max_bytes: int, each: int) -> None:
    if count > max_bytes // each:
        raise TooLarge(f"the body has {count} {what}; ingest.max_body = {max_bytes} allows one for {each} bytes")


def _metadata(request: U8, count: int) -> tuple[Metadata, ...]:
    if count == 0:
        return ()
    spans = np.zeros((count, 7), np.int64)
    _check(fill_metadata(request, spans))
    entries = (_entry(request, row) for row in spans.tolist())
    return tuple(entry for entry in entries if entry is not None)


def _entry(request: U8, row: list[int]) -> Metadata | None:
    """None where the family has no usable name."""
    kind, name_at, name_size, help_at, help_size, unit_at, unit_size = row
    if not 0 < name_size <= MAX_METADATA_BYTES:
        return None
    try:
        family = request[name_at : name_at + name_size].tobytes().decode()
    except UnicodeDecodeError:
        return None
    known = METRIC_TYPES[kind] if 0 <= kind < len(METRIC_TYPES) else METRIC_TYPES[0]
    return Metadata(family, known, _text(request, help_at, help_size), _text(request, unit_at, unit_size))


def _text(request: U8, at: int, size: int) -> str:
    return request[at : at + min(size, MAX_METADATA_BYTES)].tobytes().decode(errors="replace")


def _check(position: int) -> None:
    if position < 0:
        raise BadBody(f"not a prometheus.WriteRequest: damaged at byte {-1 - position}")
