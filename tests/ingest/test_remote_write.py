"""From the wire to the log."""

import math
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.errors import BadBody, TooLarge, UnsupportedType
from ingest.limits import LabelLimits
from ingest.room import Room
from precompute.errors import Rejected
from precompute.labels import SeriesTable
from precompute.samples import STALE, is_stale
from tests.ingest.node import HOUR_MS, NOW_MS, Node, make_node
from tests.ingest.wire import (
    encode_labels,
    encode_metadata,
    encode_sample,
    encode_series,
    encode_write_request,
    field,
    snappy,
    zstd,
)

UP = (("__name__", "up"), ("job", "a"))
T = NOW_MS


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return make_node(tmp_path)


def test_it_works(node: Node) -> None:
    outcome = node.send(encode_write_request([(UP, [(T, 1.0), (T + 1, 2.0)])]))
    assert (outcome.accepted, outcome.refused, outcome.ha_dropped) == (2, {}, 0)
    assert node.kept() == {UP: [(T, 1.0), (T + 1, 2.0)]}
    assert node.count("asap_ingest_samples_total", source="remote_write") == 2


def test_zstd_bodies_are_read(node: Node) -> None:
    body = zstd(encode_write_request([(UP, [(T, 1.0)])]))
    assert node.remote_write.write(body, "application/x-protobuf", "zstd").accepted == 1


def test_a_request_without_samples_is_fine(node: Node) -> None:
    assert node.send(b"").accepted == 0
    assert node.send(encode_series(UP, [])).accepted == 0
    assert len(node.table) == 0


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("application/json", "snappy"),
        ("application/x-protobuf;proto=io.prometheus.write.v2.Request", "snappy"),
        ("application/x-protobuf; proto=io.prometheus.write.v2.Request", "snappy"),
        ("application/x-protobuf", "gzip"),
        ("application/x-protobuf", "identity"),
    ],
)
def test_other_types_are_refused_before_the_body_is_looked_at(node: Node, content_type: str, encoding: str) -> None:
    with pytest.raises(UnsupportedType):
        node.remote_write.write(b"whatever", content_type, encoding)


@pytest.mark.parametrize("content_type", ["", "application/x-protobuf;proto=prometheus.WriteRequest"])
def test_absent_headers_and_the_full_type_mean_version_one(node: Node, content_type: str) -> None:
    body = snappy(encode_write_request([(UP, [(T, 1.0)])]))
    assert node.remote_write.write(body, content_type, "").accepted == 1


def test_any_order_of_labels_and_empty_values_are_one_series(node: Node) -> None:
    for labels in (UP, UP[::-1], (*UP, ("zone", "")), (("area", ""), *UP)):
        for value in (1.0, 2.0):
            node.send(encode_write_request([(labels, [(T, value)])]))
    assert list(node.kept()) == [UP]
    assert len(node.kept()[UP]) == 8


def test_labels_that_stand_apart_are_the_same_series(node: Node) -> None:
    apart = encode_labels(UP[:1]) + encode_sample(T, 1.0) + encode_labels(UP[1:])
    node.send(field(1, apart) + encode_series(UP, [(T + 1, 2.0)]))
    assert node.kept() == {UP: [(T, 1.0), (T + 1, 2.0)]}


def test_a_series_may_come_twice_in_a_request(node: Node) -> None:
    node.send(encode_write_request([(UP, [(T, 1.0)]), (UP, [(T + 1, 2.0)])]))
    assert node.kept() == {UP: [(T, 1.0), (T + 1, 2.0)]}


def test_a_staleness_marker_reaches_the_log_as_such(node: Node) -> None:
    node.send(encode_write_request([(UP, [(T, math.nan), (T + 1, STALE)])]))
    blocks = [entry.block for entry in node.log.read(0, node.table)]
    assert blocks[0] is not None
    assert is_stale(blocks[0].value).tolist() == [False, True]


def test_a_bad_series_is_refused_and_its_neighbours_are_kept(node: Node) -> None:
    nameless, twice = (("job", "a"),), (("__name__", "x"), ("a", "1"), ("a", "2"))
    outcome = node.send(
        encode_write_request(
            [(UP, [(T, 1.0)]), (twice, [(T, 1.0), (T + 1, 1.0)]), (nameless, [(T, 1.0)]), (UP, [(T, 2.0)])]
        )
    )
    assert outcome.accepted == 2
    assert list(outcome.refused.items()) == [("duplicate_label_name", 2), ("no_metric_name", 1)]
    assert outcome.text() == (
        "refused 3 of 5 samples, the others are taken: duplicate label name 2, no metric name 1; "
        "duplicate label name first in series 1, counted from 0"
    )
    assert list(node.kept()) == [UP]
    assert node.count("asap_ingest_samples_refused_total", reason="no_metric_name") == 1


@pytest.mark.parametrize("has_upstream", [True, False])
def test_where_an_upstream_has_it_the_metric_of_a_refused_series_is_noted(tmp_path: Path, has_upstream: bool) -> None:
    node = make_node(tmp_path, has_upstream=has_upstream)
    twice, nameless = (("__name__", "x"), ("a", "1"), ("a", "2")), (("job", "a"),)
    node.send(encode_write_request([(UP, [(T, 1.0)]), (twice, [(T, 1.0)]), (nameless, [(T, 1.0)])]))
    assert node.intake.progress.partial_metrics == ({"x"} if has_upstream else set())


def test_a_bad_series_is_refused_each_time_it_comes(node: Node) -> None:
    for _ in range(2):
        assert node.send(encode_write_request([((("job", "a"),), [(T, 1.0)])])).refused == {"no_metric_name": 1}


def test_samples_too_old_or_too_far_ahead_are_refused_one_by_one(node: Node) -> None:
    samples = [(T - HOUR_MS, 1.0), (T - HOUR_MS + 1, 2.0), (T + 60_000, 3.0), (T + 60_001, 4.0)]
    outcome = node.send(encode_write_request([(UP, samples)]))
    assert (outcome.accepted, outcome.refused) == (2, {"too_old": 1, "too_far_ahead": 1})
    assert str(T - HOUR_MS) in outcome.text()
    assert node.kept() == {UP: samples[1:3]}


def test_times_at_the_ends_of_int64_are_refused(node: Node) -> None:
    outcome = node.send(encode_write_request([(UP, [(-(2**63), 1.0), (2**63 - 1, 1.0)])]))
    assert outcome.refused == {"too_old": 1, "too_far_ahead": 1}


def test_damaged_labels_refuse_the_whole_request_and_teach_nothing(node: Node) -> None:
    with pytest.raises(BadBody):
        node.send(encode_series(UP, [(T, 1.0)]) + field(1, field(1, b"\x0a\x05a") + encode_sample(T, 1.0)))
    assert (node.kept(), len(node.table)) == ({}, 0)


def test_a_body_above_the_limit_is_refused(tmp_path: Path) -> None:
    node = make_node(tmp_path, max_body_bytes=1000)
    with pytest.raises(TooLarge):
        node.send(encode_write_request([(UP, [(T + k, 1.0) for k in range(100)])]))


@pytest.mark.parametrize(
    ("request_", "what"),
    [(b"\x0a\x00" * 63, "63 series"), (field(1, encode_labels(UP) + b"\x12\x00" * 126), "126 samples")],
)
def test_more_series_or_samples_than_a_body_can_name_are_refused(tmp_path: Path, request_: bytes, what: str) -> None:
    node = make_node(tmp_path, max_body_bytes=1000)
    with pytest.raises(TooLarge, match=what):
        node.send(request_)
    node.send(encode_write_request([(UP, [(T + k, 0.0) for k in range(40)])]))


def test_bodies_beside_one_another_are_bounded(node: Node) -> None:
    node.remote_write._room = Room(1000, wait_s=0)
    with node.remote_write._room.taken(1000), pytest.raises(Rejected, match="being decoded"):
        node.send(encode_write_request([(UP, [(T, 1.0)])]))
    assert node.send(encode_write_request([(UP, [(T, 1.0)])])).accepted == 1


def test_a_full_log_rejects_and_nothing_is_taken(tmp_path: Path) -> None:
    node = make_node(tmp_path, log_bytes=60)
    assert node.send(encode_write_request([(UP, [(T, 1.0)])])).accepted == 1
    with pytest.raises(Rejected):
        node.send(encode_write_request([(UP, [(T + k, 1.0) for k in range(9)])]))
    assert node.kept() == {UP: [(T, 1.0)]}


def test_a_stopping_node_rejects_before_it_looks_at_the_body(node: Node) -> None:
    node.intake.stop()
    with pytest.raises(Rejected):
        node.remote_write.write(b"no snappy", "", "")


def test_histograms_are_skipped_counted_and_remembered_by_metric(node: Node) -> None:
    latency = (("__name__", "latency"), ("job", "a"))
    request = field(1, encode_labels(latency) + field(4, b"h") + field(4, b"h")) + encode_series(UP, [(T, 1.0)])
    assert node.send(request).accepted == 1
    assert node.count("asap_ingest_histogram_samples_skipped_total") == 2
    assert node.intake.progress.histogram_metrics == {"latency"}


def test_histograms_without_a_readable_name_are_only_counted(node: Node) -> None:
    bad = field(1, field(1, b"__name__") + field(2, b"\xff"))
    node.send(field(1, bad + field(4, b"h")) + field(1, field(4, b"h")))
    assert node.count("asap_ingest_histogram_samples_skipped_total") == 2
    assert node.intake.progress.histogram_metrics == frozenset()


def test_names_too_long_for_a_series_are_noted_nowhere(tmp_path: Path) -> None:
    node = make_node(tmp_path, has_upstream=True, limits=LabelLimits(max_value_length=100))
    for name in ("l" * 100, "l" * 101):
        node.send(field(1, encode_labels((("__name__", name),)) + field(4, b"h")))
        node.send(encode_series((("__name__", name), ("job", "j" * 101)), [(T, 1.0)]))
    assert node.intake.progress.histogram_metrics == node.intake.progress.partial_metrics == {"l" * 100}


def test_metadata_is_handed_on(node: Node) -> None:
    node.send(encode_metadata(1, "http_requests_total", "Requests.", "requests"))
    assert node.metadata == {"http_requests_total": ("counter", "Requests.", "requests")}


def test_the_replica_that_is_not_elected_is_dropped_and_its_label_goes(node: Node) -> None:
    def from_replica(replica: str, t_ms: int) -> bytes:
        labels = (*UP, ("cluster", "c"), ("__replica__", replica))
        return encode_write_request([(sorted(labels), [(t_ms, 1.0)])])

    plain = tuple(sorted((*UP, ("cluster", "c"))))
    for k in range(3):
        assert node.send(from_replica("a", T + k)).accepted == 1
        dropped = node.send(from_replica("b", T + k))
        assert (dropped.accepted, dropped.ha_dropped, dropped.refused) == (0, 1, {})
    assert node.kept() == {plain: [(T, 1.0), (T + 1, 1.0), (T + 2, 1.0)]}
    assert node.count("asap_ingest_ha_dropped_samples_total") == 3
    node.clock.advance(30_001)
    assert node.send(from_replica("b", T + 3)).accepted == 1
    assert node.send(from_replica("a", T + 4)).ha_dropped == 1


def test_series_without_the_pair_pass_beside_a_dropped_replica(node: Node) -> None:
    pair = (("__name__", "x"), ("__replica__", "a"), ("cluster", "c"))
    other = (("__name__", "x"), ("__replica__", "b"), ("cluster", "c"))
    node.send(encode_write_request([(pair, [(T, 1.0)])]))
    outcome = node.send(encode_write_request([(other, [(T, 2.0)]), (UP, [(T, 3.0)])]))
    assert (outcome.accepted, outcome.ha_dropped) == (1, 1)
    assert node.kept()[UP] == [(T, 3.0)]


def test_series_that_an_older_log_holds_with_their_replica_are_elected_too(tmp_path: Path) -> None:
    table = SeriesTable()
    pair = (("__name__", "x"), ("__replica__", "a"), ("cluster", "c"))
    table.intern(pair)
    node = make_node(tmp_path, table=table)
    for _ in range(2):
        node.send(encode_write_request([(pair, [(T, 1.0)])]))
    assert node.kept() == {(pair[0], pair[2]): [(T, 1.0), (T, 1.0)]}


def test_many_senders_of_the_same_new_series_make_each_known_once(node: Node) -> None:
    labels = [(("__name__", "x"), ("i", str(k))) for k in range(300)]
    barrier = threading.Barrier(4)

    def send(sender: int) -> None:
        barrier.wait()
        for k in range(0, 300, 10):
            node.send(encode_write_request([(one, [(T - sender, 1.0)]) for one in labels[k : k + 20]]))

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(node.table) == 300
    assert {one: len(samples) for one, samples in node.kept().items()} == {
        one: 4 if k < 10 else 8 for k, one in enumerate(labels)
    }


series = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["a", "b", "job", "__name__"]), st.sampled_from(["", "x", "y"])),
        st.lists(st.tuples(st.integers(T - 100, T), st.floats(allow_nan=False)), max_size=3),
    ),
    max_size=6,
)


@given(series, st.integers(1, 3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_log_holds_what_a_plain_model_holds(
    tmp_path: Path, sent: list[tuple[dict[str, str], list[tuple[int, float]]]], repeats: int
) -> None:
    node = make_node(tmp_path)
    model: dict[tuple[tuple[str, str], ...], list[tuple[int, float]]] = {}
    for _ in range(repeats):
        node.send(encode_write_request([(labels.items(), samples) for labels, samples in sent]))
        for labels, samples in sent:
            if labels.get("__name__") and samples:
                model.setdefault(tuple(sorted((n, v) for n, v in labels.items() if v)), []).extend(samples)
    assert node.kept() == model


def bodies(rng: np.random.Generator, count: int) -> list[bytes]:
    """Damaged requests: truncated, bit-flipped, spliced, with wrong lengths."""
    labels = (("__name__", "latency"), ("a", "é" * 70), ("job", "x"))
    whole = encode_series(labels, [(T + k, 1.5) for k in range(5)]) + encode_metadata(1, "latency", "h", "s")
    whole += field(1, encode_labels(UP) + field(3, b"exemplar") + field(4, b"h") + encode_sample(T, 2.0))
    out = []
    for k in range(count):
        body = bytearray(whole[: int(rng.integers(len(whole)))] if k % 4 == 0 else whole)
        for _ in range(int(rng.integers(1, 5))):
            if body and k % 4 == 1:
                body[int(rng.integers(len(body)))] ^= 1 << int(rng.integers(8))
            elif body and k % 4 == 2:
                body[int(rng.integers(len(body)))] = int(rng.integers(256))
            elif k % 4 == 3:
                at = int(rng.integers(len(body)))
                body[at : at + int(rng.integers(4))] = rng.bytes(int(rng.integers(4)))
        out.append(bytes(body))
    return out


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_damaged_requests_raise_nothing_but_their_errors(tmp_path: Path, seed: int) -> None:
    node = make_node(tmp_path, limits=LabelLimits(max_value_length=100))
    rng = np.random.default_rng(seed)
    fates = {"taken": 0, "bad": 0}
    for body in bodies(rng, 2500):
        try:
            node.send(body)
            fates["taken"] += 1
        except (BadBody, TooLarge):
            fates["bad"] += 1
    assert min(fates.values()) > 100
    assert node.send(encode_write_request([(UP, [(T + 9, 9.0)])])).accepted == 1


@pytest.mark.parametrize("encoding", ["snappy", "zstd"])
def test_damaged_packed_bodies_raise_nothing_but_their_errors(node: Node, encoding: str) -> None:
    rng = np.random.default_rng(7)
    whole = (snappy if encoding == "snappy" else zstd)(encode_write_request([(UP, [(T + k, 1.0) for k in range(50)])]))
    bad = 0
    for _ in range(2500):
        body = bytearray(whole[: int(rng.integers(len(whole) // 2, len(whole) + 1))])
        body[int(rng.integers(len(body)))] ^= 1 << int(rng.integers(8))
        try:
            node.remote_write.write(bytes(body), "", encoding)
        except (BadBody, TooLarge):
            bad += 1
    assert bad > 1000
