"""What the labels of a series must be, checked where they stand on the wire.

Label names are any UTF-8 (Prometheus 3). An empty value is an absent label. One bad series is refused, not
its request.
"""

from dataclasses import dataclass

import numpy as np

from ingest.kernels.labels import scan_labels
from precompute.samples import I64, U8

REASONS = (
    "ok",
    "no_metric_name",
    "duplicate_label_name",
    "empty_label_name",
    "invalid_utf8",
    "too_many_labels",
    "label_name_too_long",
    "label_value_too_long",
    "malformed",
    "too_many_replica_pairs",
)
"""Why a series is refused, by its verdict: those of `ingest.kernels.labels`, then the resolver's own."""

MALFORMED, NO_PAIR = 8, 9


@dataclass(frozen=True)
class LabelLimits:
    """Bounds on a new series' labels; lengths in bytes of UTF-8, labels counted as sent."""

    max_labels: int = 64
    max_name_length: int = 1024
    max_value_length: int = 4096


@dataclass(frozen=True)
class ScannedLabels:
    """The labels of n runs."""

    verdict: U8
    """0, or the index in REASONS; uint8[n]."""
    canonical: U8
    """1 where the run is written as `precompute.labels.canonical_bytes` writes it; uint8[n]."""
    first: I64
    """Labels of run i are spans first[i] to first[i + 1] - 1; int64[n + 1]."""
    spans: I64
    """Start and end of name and of value, sorted by name, without empty values; int64[k, 4]."""


def scan(buf: U8, start: I64, length: I64, limits: LabelLimits) -> ScannedLabels:
    """Check n label runs `buf[start:start+length]` and find their labels."""
    bounds = np.array([limits.max_labels, limits.max_name_length, limits.max_value_length], np.int64)
    return ScannedLabels(*scan_labels(buf, start, length, bounds))
