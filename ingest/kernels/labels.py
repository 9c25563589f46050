"""Kernels that find, check and sort the labels of series (prompb/types.proto: Label name = 1, value = 2)."""

import numpy as np

from ingest.kernels.wire import read_field
from precompute.kernels import bare, kernel
from precompute.kernels.bytes import load_u64, same_run

OK, NO_NAME, DUPLICATE, EMPTY_NAME, BAD_UTF8, TOO_MANY, LONG_NAME, LONG_VALUE, MALFORMED = range(9)

_NAME, _VALUE = 0x0A, 0x12
_METRIC_NAME = np.frombuffer(b"__name__", np.uint8)
_HIGH_BITS = np.uint64(0x8080808080808080)


@kernel
def scan_labels(buf, start, length, bounds):
    """(verdict uint8[n], canonical uint8[n], first int64[n + 1], spans int64[k, 4]) of n label runs.

    buf     uint8[m]; run i is buf[start[i]:start[i] + length[i]], start and length int64[n]
    bounds  int64[3]: most labels, longest name, longest value
    spans   name start, name end, value start, value end; sorted by name's bytes, empty values left out;
            none for a run whose verdict is not OK
    """
    n = len(start)
    verdict = np.zeros(n, np.uint8)
    canonical = np.zeros(n, np.uint8)
    first = np.zeros(n + 1, np.int64)
    spans = np.empty((max(_count_labels(buf, start, length, bounds[0]), 1), 4), np.int64)
    used = 0
    for i in range(n):
        verdict[i], labels, canonical[i] = _scan_run(buf, start[i], start[i] + length[i], bounds, spans[used:])
        if verdict[i] == OK:
            used += labels
        first[i + 1] = used
    return verdict, canonical, first, spans[:used]


@bare
def _count_labels(buf, start, length, most):
    """An upper bound of the spans needed: no run uses more than `most`."""
    total = 0
    for i in range(len(start)):
        pos = start[i]
        end = pos + length[i]
        labels = 0
        while pos < end and labels < most:
            _tag, _payload, pos = read_field(buf, pos, end)
            if pos < 0:
                break
            labels += 1
        total += labels
    return total


@bare
def _scan_run(buf, pos, end, bounds, spans):
    """(verdict, labels with a value, whether canonical) of one run; fills the head of `spans`."""
    labels = 0
    sent = 0
    size = end - pos
    plain = True
    while pos < end:
        tag, payload, after = read_field(buf, pos, end)
        if after < 0 or tag != _NAME:
            return MALFORMED, 0, False
        if sent == bounds[0]:
            return TOO_MANY, 0, False
        sent += 1
        name, name_end, value, value_end = _read_label(buf, payload, after)
        if name < 0:
            return MALFORMED, 0, False
        fault = _label_fault(buf, name, name_end, value, value_end, bounds)
        if fault != OK:
            return fault, 0, False
        size -= _canonical_size(name_end - name, value_end - value)
        plain &= name < value
        order = _place(buf, spans, labels, name, name_end, value, value_end)
        if order < 0:
            return DUPLICATE, 0, False
        plain &= order == labels
        labels += 1
        pos = after
    kept = _drop_empty(spans, labels)
    named = False
    for k in range(kept):
        named |= _is_metric_name(buf, spans[k, 0], spans[k, 1])
    if not named:
        return NO_NAME, 0, False
    return OK, kept, plain and kept == labels and size == 0


@bare
def _read_label(buf, pos, end):
    """Spans of name and value in the Label at buf[pos:end], empty where absent; name start -1 if damaged."""
    name, name_end, value, value_end = pos, pos, pos, pos
    while pos < end:
        tag, payload, after = read_field(buf, pos, end)
        if after < 0:
            return np.int64(-1), name_end, value, value_end
        if tag == _NAME:
            name, name_end = payload, after
        elif tag == _VALUE:
            value, value_end = payload, after
        elif tag >> 3 == 1 or tag >> 3 == 2:
            return np.int64(-1), name_end, value, value_end
        pos = after
    return name, name_end, value, value_end


@bare
def _label_fault(buf, name, name_end, value, value_end, bounds):
    if name == name_end:
        return EMPTY_NAME
    if name_end - name > bounds[1]:
        return LONG_NAME
    if value_end - value > bounds[2]:
        return LONG_VALUE
    if not (_is_utf8(buf, name, name_end) and _is_utf8(buf, value, value_end)):
        return BAD_UTF8
    return OK


@bare
def _canonical_size(name_size, value_size):
    """Bytes of a Label field with both its parts and lengths in their shortest form."""
    message = 2 + _varint_size(name_size) + name_size + _varint_size(value_size) + value_size
    return 1 + _varint_size(message) + message


@bare
def _varint_size(number):
    size = 1
    while number >= 0x80:
        number >>= 7
        size += 1
    return size


@bare
def _place(buf, spans, labels, name, name_end, value, value_end):
    """Insert a label into the sorted head of `spans`; its place, or -1 if the name is there."""
    place = labels
    while place > 0:
        order = _compare(buf, spans[place - 1, 0], spans[place - 1, 1], name, name_end)
        if order == 0:
            return -1
        if order < 0:
            break
        place -= 1
    for k in range(labels, place, -1):
        for c in range(4):
            spans[k, c] = spans[k - 1, c]
    spans[place, 0] = name
    spans[place, 1] = name_end
    spans[place, 2] = value
    spans[place, 3] = value_end
    return place


@bare
def _compare(buf, a, a_end, b, b_end):
    """Below, at or above 0 as the bytes buf[a:a_end] sort before, with or after buf[b:b_end]."""
    while a < a_end and b < b_end:
        if buf[np.uint64(a)] != buf[np.uint64(b)]:
            return np.int64(buf[np.uint64(a)]) - np.int64(buf[np.uint64(b)])
        a += 1
        b += 1
    return (a_end - a) - (b_end - b)


@bare
def _drop_empty(spans, labels):
    kept = 0
    for k in range(labels):
        if spans[k, 2] < spans[k, 3]:
            for c in range(4):
                spans[kept, c] = spans[k, c]
            kept += 1
    return kept


@bare
def _is_metric_name(buf, pos, end):
    same = end - pos == len(_METRIC_NAME)
    k = 0
    while same and k < len(_METRIC_NAME):
        same = buf[pos + k] == _METRIC_NAME[k]
        k += 1
    return same


@kernel
def metric_names(buf, start, length):
    """Start and end of each run's metric name, int64[n, 2]; empty where it has none. Runs as in `scan_labels`."""
    spans = np.zeros((len(start), 2), np.int64)
    for i in range(len(start)):
        pos = start[i]
        end = pos + length[i]
        while 0 <= pos < end:
            _tag, payload, pos = read_field(buf, pos, end)
            if pos < 0:
                break
            name, name_end, value, value_end = _read_label(buf, payload, pos)
            if name >= 0 and _is_metric_name(buf, name, name_end):
                spans[i, 0] = value
                spans[i, 1] = value_end
    return spans


@bare
def _is_utf8(buf, pos, end):
    """Whether buf[pos:end] is UTF-8 (RFC 3629: shortest form, no surrogates, up to U+10FFFF)."""
    while end - pos >= 8 and load_u64(buf, pos) & _HIGH_BITS == 0:
        pos += 8
    while pos < end:
        lead = buf[np.uint64(pos)]
        more = _continuation_bytes(lead)
        if more < 0 or more >= end - pos:
            return False
        if more > 0 and not _second_byte_fits(lead, buf[np.uint64(pos + 1)]):
            return False
        for k in range(pos + 2, pos + 1 + more):
            if buf[np.uint64(k)] & 0xC0 != 0x80:
                return False
        pos += 1 + more
    return True


@bare
def _continuation_bytes(lead):
    if lead < 0x80:
        return 0
    if 0xC2 <= lead <= 0xDF:
        return 1
    if 0xE0 <= lead <= 0xEF:
        return 2
    if 0xF0 <= lead <= 0xF4:
        return 3
    return -1


@bare
def _second_byte_fits(lead, second):
    """RFC 3629, section 4: the ranges of the second byte."""
    low, high = 0x80, 0xBF
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xED:
        high = 0x9F
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x8F
    return low <= second <= high


@kernel
def has_name(buf, first, spans, name):
    """Which runs have a label of this name (u8[]); bool[n]. first, spans: as `scan_labels` gives them."""
    out = np.zeros(len(first) - 1, np.bool_)
    for i in range(len(out)):
        for k in range(first[i], first[i + 1]):
            length = spans[k, 1] - spans[k, 0]
            if length == len(name) and same_run(buf, spans[k, 0], name, 0, length):
                out[i] = True
    return out
