"""The decoder against an encoder of its own."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decoders.remote_write import MAX_METADATA, Metadata, WriteColumns, decode
from ingest.errors import BadBody
from precompute.samples import STALE, STALE_BITS
from tests.ingest.wire import (
    encode_columns,
    encode_labels,
    encode_metadata,
    encode_sample,
    encode_series,
    encode_write_request,
    field,
    varint,
)

UP = (("__name__", "up"), ("job", "a"))
text = st.text(max_size=20)
labels = st.lists(st.tuples(text, text), max_size=6)
timestamps = st.integers(-(2**63), 2**63 - 1)
samples = st.lists(st.tuples(timestamps, st.floats(width=64)), max_size=5)


def decoded(request: bytes) -> WriteColumns:
    return decode(np.frombuffer(bytearray(request), np.uint8), 1 << 20)


def rows(columns: WriteColumns, series: int) -> list[tuple[int, bytes]]:
    """(timestamp, bytes of the value) of one series, so that NaNs compare by their bits."""
    first, last = columns.sample_first[series], columns.sample_first[series + 1]
    bits = columns.value.view(np.uint64)
    return [(int(columns.t_ms[k]), struct.pack("<Q", int(bits[k]))) for k in range(first, last)]


def test_it_works() -> None:
    columns = decoded(encode_write_request([(UP, [(1000, 1.0), (2000, 0.5)]), ((("__name__", "x"),), [(3000, 7.0)])]))
    assert columns.labels(0) == encode_labels(UP)
    assert columns.sample_first.tolist() == [0, 2, 3]
    assert columns.t_ms.tolist() == [1000, 2000, 3000]
    assert columns.value.tolist() == [1.0, 0.5, 7.0]
    assert columns.histograms.tolist() == [0, 0]


@given(st.lists(st.tuples(labels, samples), max_size=5))
def test_what_was_encoded_is_decoded(series: list[tuple[list[tuple[str, str]], list[tuple[int, float]]]]) -> None:
    columns = decoded(encode_write_request(series))
    assert len(columns.label_start) == len(series)
    for i, (pairs, wanted) in enumerate(series):
        assert columns.labels(i) == encode_labels(pairs)
        assert rows(columns, i) == [(t, struct.pack("<d", v)) for t, v in wanted]


@given(st.integers(1, 4), st.integers(1, 4))
def test_the_fast_encoder_agrees_with_the_slow_one(series: int, per_series: int) -> None:
    runs = [encode_labels((("__name__", f"m{i}"),)) for i in range(series)]
    t_ms = 1_700_000_000_000 + np.arange(series * per_series, dtype=np.int64)
    values = np.linspace(1, 2, series * per_series)
    slow = [
        (
            (("__name__", f"m{i}"),),
            [(int(t_ms[k]), float(values[k])) for k in range(i * per_series, (i + 1) * per_series)],
        )
        for i in range(series)
    ]
    assert encode_columns(runs, t_ms, values, per_series) == encode_write_request(slow)


def test_a_field_that_is_absent_is_zero() -> None:
    columns = decoded(field(1, encode_labels(UP) + field(2, b"")))
    assert (columns.t_ms.tolist(), columns.value.tolist()) == ([0], [0.0])


def test_the_last_of_a_repeated_field_wins() -> None:
    twice = field(2, b"\x10\x05\x10\x07\x09" + struct.pack("<d", 1.5) + b"\x09" + struct.pack("<d", 2.5))
    columns = decoded(field(1, encode_labels(UP) + twice))
    assert (columns.t_ms.tolist(), columns.value.tolist()) == ([7], [2.5])


def test_a_staleness_marker_keeps_its_bits() -> None:
    columns = decoded(encode_write_request([(UP, [(1, STALE), (2, math.nan)])]))
    assert int(columns.value.view(np.uint64)[0]) == STALE_BITS
    assert int(columns.value.view(np.uint64)[1]) != STALE_BITS


def test_labels_behind_the_samples_are_found() -> None:
    columns = decoded(field(1, encode_sample(5, 1.0) + encode_labels(UP)))
    assert columns.labels(0) == encode_labels(UP)
    assert columns.t_ms.tolist() == [5]


def test_labels_that_stand_apart_are_gathered() -> None:
    first, second = encode_labels(UP[:1]), encode_labels(UP[1:])
    apart = field(1, first + encode_sample(5, 1.0) + second)
    columns = decoded(apart + encode_series(UP, [(6, 2.0)]) + apart)
    assert [columns.labels(i) for i in range(3)] == [encode_labels(UP)] * 3
    assert columns.t_ms.tolist() == [5, 6, 5]


def test_unknown_fields_are_skipped() -> None:
    unknown = varint(99 << 3) + varint(2**64 - 1) + varint(98 << 3 | 1) + bytes(8) + varint(97 << 3 | 5) + bytes(4)
    unknown += field(96, b"anything")
    sample = field(2, unknown + b"\x10\x07")
    columns = decoded(unknown + field(1, encode_labels(UP) + unknown + sample) + unknown)
    assert (columns.labels(0), columns.t_ms.tolist()) == (encode_labels(UP), [7])


def test_exemplars_are_skipped_and_histograms_counted() -> None:
    columns = decoded(field(1, encode_labels(UP) + field(3, b"exemplar") + field(4, b"a") + field(4, b"b")))
    assert columns.histograms.tolist() == [2]
    assert columns.sample_first.tolist() == [0, 0]


def test_an_empty_request_has_no_series() -> None:
    columns = decoded(b"")
    assert (len(columns.label_start), columns.sample_first.tolist()) == (0, [0])


def test_metadata_is_read() -> None:
    request = encode_metadata(1, "http_requests_total", "Requests.", "requests") + encode_metadata(2, "up")
    assert decoded(request).metadata == (
        Metadata("http_requests_total", "counter", "Requests.", "requests"),
        Metadata("up", "gauge", "", ""),
    )


def test_a_metric_type_of_the_future_is_unknown() -> None:
    assert decoded(encode_metadata(42, "up")).metadata[0].type == "unknown"


def test_metadata_is_bounded_in_number_and_size() -> None:
    many = decoded(encode_metadata(1, "m", "h") * (MAX_METADATA + 5)).metadata
    assert len(many) == MAX_METADATA
    long = decoded(encode_metadata(1, "m", "h" * 10_000) + encode_metadata(1, "n" * 10_000)).metadata
    assert [(entry.family, len(entry.help)) for entry in long] == [("m", 4096)]


@pytest.mark.parametrize(
    ("what", "request_bytes"),
    [
        ("a length beyond the request", b"\x0a\x05\x0a"),
        ("a label beyond its series", b"\x0a\x02\x0a\x05" + bytes(9)),
        ("a sample beyond its series", b"\x0a\x02\x12\x05" + bytes(9)),
        ("a value beyond its sample", field(1, field(2, b"\x09\x00\x00")) + bytes(9)),
        ("a field number 0", b"\x02\x00"),
        ("a group", b"\x0b\x0c"),
        ("a group inside a series", field(1, b"\x33\x34")),
        ("a group inside a sample", field(1, field(2, b"\x33\x34"))),
        ("an unknown wire type", b"\x36"),
        ("a varint of 11 bytes", field(1, field(2, b"\x10" + b"\x80" * 10 + b"\x01"))),
        ("a varint above 64 bits", field(1, field(2, b"\x10" + b"\xff" * 9 + b"\x02"))),
        ("a length above 63 bits", b"\x0a" + b"\xff" * 9 + b"\x01"),
        ("a length just below 63 bits", b"\x0a" + b"\xff" * 8 + b"\x7f"),
        ("a tag above 32 bits", varint(1 << 35 | 2) + b"\x00"),
        ("a number where series belong", b"\x08\x01"),
        ("a number where metadata belongs", b"\x18\x01"),
        ("a number where labels belong", field(1, b"\x08\x01")),
        ("a number where the value belongs", field(1, field(2, b"\x08\x01"))),
        ("a double where the timestamp belongs", field(1, field(2, b"\x11" + bytes(8)))),
        ("a number where a family's name belongs", field(3, b"\x10\x01")),
        ("metadata that ends early", field(3, b"\x12\x05a")),
        ("a tag without a field", b"\x0a"),
    ],
)
def test_a_damaged_request_is_refused(what: str, request_bytes: bytes) -> None:
    with pytest.raises(BadBody):
        decoded(request_bytes)
