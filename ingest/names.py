"""Metric names of label runs on the wire."""

import numpy as np

from ingest.kernels.labels import metric_names
from precompute.kernels.bytes import hash_runs
from precompute.samples import I64, U8


def metrics_of(buf: U8, start: I64, length: I64, max_length: int) -> set[str]:
    """Names of the metrics of n label runs; one that is missing, not UTF-8 or above `max_length` bytes is left out."""
    spans = metric_names(buf, start, length)
    spans = spans[spans[:, 1] - spans[:, 0] <= max_length]
    first_byte, size = spans[:, 0].copy(), spans[:, 1] - spans[:, 0]
    _, first = np.unique(hash_runs(buf, first_byte, size, 0), return_index=True)
    raws = (buf[first_byte[i] : first_byte[i] + size[i]].tobytes() for i in first.tolist())
    return {name for name in map(_text, raws) if name}


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ""
