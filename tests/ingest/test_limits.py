"""The label rules, against a plain model in Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.limits import REASONS, LabelLimits, ScannedLabels, scan
from precompute.labels import canonical_bytes
from tests.ingest.wire import encode_labels, field

LIMITS = LabelLimits(max_labels=4, max_name_length=8, max_value_length=6)
NAME = ("__name__", "up")


def scanned(*runs: bytes, limits: LabelLimits = LIMITS) -> ScannedLabels:
    length = np.array([len(run) for run in runs], np.int64)
    buf = np.frombuffer(bytearray(b"".join(runs)), np.uint8)
    return scan(buf, np.cumsum(length) - length, length, limits)


def reasons(*runs: bytes) -> list[str]:
    return [REASONS[verdict] for verdict in scanned(*runs).verdict]


def labels_of(found: ScannedLabels, runs: list[bytes], i: int) -> list[tuple[bytes, bytes]]:
    buf = b"".join(runs)
    spans = found.spans[found.first[i] : found.first[i + 1]].tolist()
    return [(buf[a:b], buf[c:d]) for a, b, c, d in spans]


def label(name: bytes, value: bytes) -> bytes:
    return field(1, field(1, name) + field(2, value))


def test_it_works() -> None:
    runs = [encode_labels((NAME, ("job", "a")))]
    found = scanned(*runs)
    assert (found.verdict.tolist(), found.canonical.tolist()) == ([0], [1])
    assert labels_of(found, runs, 0) == [(b"__name__", b"up"), (b"job", b"a")]


@pytest.mark.parametrize(
    ("reason", "run"),
    [
        ("no_metric_name", b""),
        ("no_metric_name", encode_labels([("job", "a")])),
        ("no_metric_name", encode_labels([("__name__", "")])),
        ("duplicate_label_name", encode_labels([NAME, ("a", "1"), ("a", "2")])),
        ("duplicate_label_name", encode_labels([("a", "1"), NAME, ("a", "1")])),
        ("duplicate_label_name", encode_labels([NAME, ("a", "1"), ("a", "")])),
        ("duplicate_label_name", encode_labels([NAME, NAME])),
        ("empty_label_name", encode_labels([NAME, ("", "x")])),
        ("empty_label_name", encode_labels([NAME, ("", "")])),
        ("invalid_utf8", encode_labels([NAME]) + label(b"\xff", b"x")),
        ("invalid_utf8", encode_labels([NAME]) + label(b"a", b"\xc3")),
        ("too_many_labels", encode_labels([NAME, *((f"l{i}", "x") for i in range(4))])),
        ("label_name_too_long", encode_labels([NAME, ("n" * 9, "x")])),
        ("label_value_too_long", encode_labels([NAME, ("a", "v" * 7)])),
        ("malformed", b"\x0a\x03\x0a\x05a"),
        ("malformed", encode_labels([NAME]) + field(1, b"\x08\x01")),
        ("ok", encode_labels([NAME, ("ünïcø", "☃☃")])),
        ("ok", encode_labels([NAME, ("n" * 8, "v" * 6)])),
        ("ok", encode_labels([NAME, ("a b", ""), ("c", "")])),
    ],
)
def test_a_series_is_judged(reason: str, run: bytes) -> None:
    assert reasons(run) == [reason]


def test_one_bad_series_leaves_its_neighbours_alone() -> None:
    good, bad = encode_labels((NAME, ("job", "a"))), encode_labels([NAME, ("z", "1"), ("a", "2"), ("a", "3")])
    runs = [good, bad, b"\x0a\x7f", good]
    found = scanned(*runs)
    assert [REASONS[v] for v in found.verdict] == ["ok", "duplicate_label_name", "malformed", "ok"]
    assert labels_of(found, runs, 3) == labels_of(found, runs, 0) == [(b"__name__", b"up"), (b"job", b"a")]


@given(st.binary(max_size=12))
def test_utf8_is_what_python_takes_for_utf8(value: bytes) -> None:
    try:
        value.decode()
        wanted = "ok"
    except UnicodeDecodeError:
        wanted = "invalid_utf8"
    run = encode_labels([NAME]) + label(b"a", value)
    assert REASONS[scanned(run, limits=LabelLimits()).verdict[0]] == wanted


@pytest.mark.parametrize(
    "edge", [chr(k) for k in (0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)]
)
def test_every_length_of_utf8_is_taken(edge: str) -> None:
    assert reasons(encode_labels([NAME, ("a", edge)])) == ["ok"]


@pytest.mark.parametrize(
    "bad", ["c080", "c1bf", "e08080", "e09fbf", "eda080", "edbfbf", "f08080", "f4908080", "f5808080"]
)
def test_overlong_forms_surrogates_and_numbers_beyond_unicode_are_no_utf8(bad: str) -> None:
    assert reasons(encode_labels([NAME]) + label(b"a", bytes.fromhex(bad))) == ["invalid_utf8"]


names = st.text(min_size=1, max_size=3)


@given(st.dictionaries(names, st.text(max_size=3), max_size=8), st.randoms(use_true_random=False))
def test_any_order_gives_the_sorted_labels_without_empty_values(pairs: dict[str, str], random: object) -> None:
    sent = [*pairs.items(), NAME]
    random.shuffle(sent)  # type: ignore[attr-defined]
    wanted = tuple(sorted((name, value) for name, value in sent if value))
    runs = [encode_labels(sent)]
    found = scanned(*runs, limits=LabelLimits())
    assert labels_of(found, runs, 0) == [(name.encode(), value.encode()) for name, value in wanted]
    assert bool(found.canonical[0]) == (runs[0] == canonical_bytes(wanted))


def test_other_writings_of_the_same_labels_are_not_canonical() -> None:
    value_first = field(1, field(2, b"up") + field(1, b"__name__"))
    long_length = b"\x0a\x8e\x00" + encode_labels([NAME])[2:]
    extra = field(1, field(1, b"__name__") + field(2, b"up") + field(9, b""))
    found = scanned(value_first, long_length, extra)
    assert (found.verdict.tolist(), found.canonical.tolist()) == ([0, 0, 0], [0, 0, 0])
