"""Compiling the kernels before they are needed."""

import numpy as np

from ingest.decoders.remote_write import decode
from ingest.kernels.labels import has_name, metric_names
from ingest.limits import LabelLimits, scan

_LABELS = b"\x0a\x06\x0a\x01a\x12\x01b"
_SERIES = _LABELS + b"\x12\x02\x10\x01"
_REQUEST = b"\x0a" + bytes([len(_SERIES)]) + _SERIES + b"\x1a\x03\x12\x01a"


def warm() -> None:
    """Compile, or load from numba's cache, every kernel that a request needs."""
    columns = decode(np.frombuffer(bytearray(_REQUEST), np.uint8), 1 << 20)
    found = scan(columns.buf, columns.label_start, columns.label_length, LabelLimits())
    has_name(columns.buf, found.first, found.spans, np.frombuffer(b"replica", np.uint8))
    metric_names(columns.buf, columns.label_start, columns.label_length)
