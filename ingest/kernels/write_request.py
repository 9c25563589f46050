"""Kernels that scan a `prometheus.WriteRequest`: one pass counts and checks, the next ones fill columns.

All return a position: negative for a damaged request (see `ingest.kernels.wire.py`).
"""

import numpy as np

from ingest.kernels.wire import read_field
from precompute.kernels import bare
from precompute.kernels.bytes import load_u64

SERIES, SAMPLES, SIDE_BYTES, METADATA = 0, 1, 2, 3
"""Rows of `counts`: series, samples, bytes of label runs that must be gathered, metadata entries."""

_FIELD_1, _FIELD_2, _FIELD_3, _FIELD_4, _FIELD_5 = 0x0A, 0x12, 0x1A, 0x22, 0x2A
_VALUE, _TIMESTAMP, _TYPE = 0x09, 0x10, 0x08
_BYTES = 2


@bare
def count_request(buf, counts):
    """Add up `counts` int64[4] over the request `buf` uint8[m]; checks all but the samples' insides."""
    pos = np.int64(0)
    end = np.int64(len(buf))
    while pos < end:
        tag, payload, after = read_field(buf, pos, end)
        if after < 0:
            return after
        if tag == _FIELD_1:
            failed = _count_series(buf, payload, after, counts)
            if failed < 0:
                return failed
        elif tag == _FIELD_3:
            counts[METADATA] += 1
        elif tag >> 3 == 1 or tag >> 3 == 3:
            return -1 - pos
        pos = after
    return pos


@bare
def _count_series(buf, pos, end, counts):
    """Count one TimeSeries, which lies in buf[pos:end]."""
    run_end = np.int64(-1)
    label_bytes = np.int64(0)
    apart = False
    while pos < end:
        tag, _payload, after = read_field(buf, pos, end)
        if after < 0:
            return after
        if tag == _FIELD_1:
            apart |= run_end >= 0 and run_end != pos
            run_end = after
            label_bytes += after - pos
        elif tag == _FIELD_2:
            counts[SAMPLES] += 1
        elif 1 <= tag >> 3 <= 4 and tag & 7 != _BYTES:
            return -1 - pos
        pos = after
    counts[SERIES] += 1
    if apart:
        counts[SIDE_BYTES] += label_bytes
    return pos


@bare
def fill_series(buf, end, label_start, label_length, sample_first, value_bits, t_ms, histograms):
    """Fill the columns of a request that was counted.

    buf           uint8[end + SIDE_BYTES]: the request, then room for gathered label runs
    label_start, label_length  int64[s];  sample_first int64[s + 1], [0] = 0;  histograms int32[s]
    value_bits    uint64[n], IEEE 754;  t_ms int64[n], milliseconds
    """
    pos = np.int64(0)
    side = np.int64(end)
    series = 0
    rows = np.int64(0)
    while pos < end:
        tag, payload, after = read_field(buf, pos, end)
        if after < 0:
            return after
        if tag == _FIELD_1:
            start, length, apart, skipped, rows = _fill_one(buf, payload, after, value_bits, t_ms, rows)
            if rows < 0:
                return rows
            if apart:
                _gather_labels(buf, payload, after, side)
                start = side
                side += length
            label_start[series] = start
            label_length[series] = length
            histograms[series] = skipped
            series += 1
            sample_first[series] = rows
        pos = after
    return pos


@bare
def _fill_one(buf, pos, end, value_bits, t_ms, row):
    """One TimeSeries: (label start, label bytes, whether labels stand apart, histograms, next row or error)."""
    start = pos
    run_end = np.int64(-1)
    length = np.int64(0)
    apart = False
    skipped = 0
    while pos < end:
        tag, payload, after = read_field(buf, pos, end)
        if tag == _FIELD_2:
            bits, t, failed = _read_sample(buf, payload, after)
            if failed < 0:
                return start, length, apart, skipped, failed
            value_bits[row] = bits
            t_ms[row] = t
            row += 1
        elif tag == _FIELD_1:
            if run_end < 0:
                start = pos
            elif run_end != pos:
                apart = True
            run_end = after
            length += after - pos
        elif tag == _FIELD_4:
            skipped += 1
        pos = after
    return start, length, apart, skipped, row


@bare
def _read_sample(buf, pos, end):
    """(value's bits, timestamp, position) of the Sample in buf[pos:end]."""
    bits = np.uint64(0)
    t = np.int64(0)
    if end - pos > 9 and buf[pos] == _VALUE:
        bits = load_u64(buf, pos + 1)
        pos += 9
    while pos < end:
        tag, payload, after = read_field(buf, pos, end)
        if after < 0:
            return bits, t, after
        if tag == _TIMESTAMP:
            t = payload
        elif tag == _VALUE:
            bits = load_u64(buf, payload)
        elif tag >> 3 == 1 or tag >> 3 == 2:
            return bits, t, -1 - pos
        pos = after
    return bits, t, pos


@bare
def _gather_labels(buf, pos, end, out):
    """Copy the label fields of the TimeSeries in buf[pos:end] one after another to buf[out:]."""
    while pos < end:
        tag, _payload, after = read_field(buf, pos, end)
        if tag == _FIELD_1:
            for k in range(pos, after):
                buf[out] = buf[k]
                out += 1
        pos = after


@bare
def fill_metadata(buf, spans):
    """Read the first k metadata entries of a request that was counted.

    spans  int64[k, 7], zeroed: type, then start and length of name, help and unit
    """
    pos = np.int64(0)
    end = np.int64(len(buf))
    entry = 0
    while pos < end and entry < len(spans):
        tag, payload, after = read_field(buf, pos, end)
        if tag == _FIELD_3:
            failed = _fill_entry(buf, payload, after, spans[entry])
            if failed < 0:
                return failed
            entry += 1
        pos = after
    return pos


@bare
def _fill_entry(buf, pos, end, span):
    while pos < end:
        tag, payload, after = read_field(buf, pos, end)
        if after < 0:
            return after
        if tag == _TYPE:
            span[0] = payload
        elif tag in (_FIELD_2, _FIELD_4, _FIELD_5):
            column = 1 if tag == _FIELD_2 else 3 if tag == _FIELD_4 else 5
            span[column] = payload
            span[column + 1] = after - payload
        elif tag >> 3 == 1 or tag >> 3 == 2 or tag >> 3 == 4 or tag >> 3 == 5:
            return -1 - pos
        pos = after
    return pos
