"""Summaries are cut, joined and re-aggregated without changing what they say."""

import math
from dataclasses import replace
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import BlobError
from precompute.sketches.base import one_pane
from precompute.sketches.columns import take_columns
from precompute.sketches.registry import STATISTICS, accumulator
from precompute.stores import blob
from precompute.stores.blob import from_bytes, to_bytes
from precompute.summaries import FAILED, HOLE, Summary, between, build, empty, only, pack, regroup, select
from tests.precompute.made_summaries import ALL, ends, same, summary
from tests.precompute.sketches.made import drawn, same_bits

FIRST = ("count", "max", "min", "quantile", "stddev", "sum")
"""The accumulators of the first version."""

GOLDEN = Path(__file__).parent / "sketches" / "golden" / "summary_v1.bin"


def no_time(panes: int) -> np.ndarray:
    return np.zeros(panes, np.int64)


def answers(s: Summary, statistic: str, parameter: float = math.nan) -> dict[tuple[int, object], float]:
    """(end, key) -> answer"""
    values = STATISTICS[statistic].estimate(s.states, parameter)
    return {(int(s.ends_ms[p]), s.keys[g]): float(v) for p, g, v in zip(s.pane_of_row(), s.group, values, strict=True)}


def test_a_group_without_a_value_has_no_row_and_an_empty_pane_still_stands() -> None:
    s = summary(ends(1, 3), keys=[("a",), ("b",), ("c",)], series=3, present=0.5, seed=1)
    assert s.panes == 3
    assert s.rows == int(s.states["count"]["n"].sum()) < 9
    none = summary(ends(1, 2), present=0.0)
    assert (none.panes, none.rows, none.keys) == (2, 0, ())


def test_groups_that_stand_in_no_pane_are_not_kept() -> None:
    values = one_pane(np.array([1.0, 2.0]), np.array([1, 3], np.int32), np.zeros(2, np.int32), 4)
    keys = [("a",), ("b",), ("c",), ("d",)]
    s = build(values, keys, ["sum"], np.array([15]), no_time(1), no_time(1), np.zeros(1, np.uint8))
    assert s.keys == (("b",), ("d",))
    assert answers(s, "sum") == {(15, ("b",)): 1.0, (15, ("d",)): 2.0}


@drawn
@given(first=st.integers(0, 9), last=st.integers(0, 12), present=st.sampled_from([0.0, 0.1, 1.0]))
def test_an_interval_of_panes_is_left_open_and_right_closed(first: int, last: int, present: float) -> None:
    part = between(summary(ends(1, 10), present=present), first * 15_000, last * 15_000)
    assert same(part, summary_of(first + 1, min(last, 10), present))


def summary_of(first: int, last: int, present: float) -> Summary:
    """Panes first..last of the ten, cut pane by pane."""
    whole = summary(ends(1, 10), present=present)
    return select(whole, np.arange(first - 1, last)) if first <= last else select(whole, np.zeros(0, np.int64))


@drawn
@given(cuts=st.sets(st.integers(1, 19)), order=st.randoms(use_true_random=False))
def test_pieces_packed_in_any_order_are_the_whole(cuts: set[int], order) -> None:
    whole = summary(ends(1, 20))
    parts = [select(whole, part) for part in np.split(np.arange(20), sorted(cuts))]
    order.shuffle(parts)
    assert same(pack(parts), whole)


def test_packing_unites_key_tables_in_order() -> None:
    one = summary(ends(1, 1), keys=[("b",), ("d",)])
    two = summary(ends(2, 2), keys=[("a",), ("b",), ("c",)])
    packed = pack([one, two])
    assert packed.keys == (("a",), ("b",), ("c",), ("d",))
    assert answers(packed, "sum") == answers(one, "sum") | answers(two, "sum")


def test_a_pane_in_two_summaries_is_refused() -> None:
    with pytest.raises(ValueError, match="two summaries"):
        pack([summary(ends(1, 3)), summary(ends(3, 4))])


def test_summaries_of_different_accumulators_are_not_packed() -> None:
    with pytest.raises(ValueError, match="same accumulators"):
        pack([summary(ends(1, 1)), summary(ends(2, 2), accumulators=["sum"])])


def test_an_empty_summary_can_be_packed_with_others() -> None:
    assert same(pack([empty(ALL), summary(ends(1, 2))]), summary(ends(1, 2)))


def test_regrouping_filters_and_adds_up_by_pane() -> None:
    keys = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    s = summary(ends(1, 5), keys=keys, series=40)
    by_first = regroup(s, np.array([0, 0, 1, 1], np.int32), [("a",), ("b",)])
    only_x = regroup(s, np.array([0, -1, 0, -1], np.int32), [("x",)])
    sums, counts = answers(s, "sum"), answers(s, "count")
    for end in ends(1, 5):
        assert answers(by_first, "count")[end, ("a",)] == counts[end, keys[0]] + counts[end, keys[1]]
        assert answers(only_x, "sum")[end, ("x",)] == pytest.approx(sums[end, keys[0]] + sums[end, keys[2]], rel=1e-12)


def test_regrouping_into_the_same_groups_changes_nothing() -> None:
    s = summary(ends(1, 4), keys=[("a",), ("b",), ("c",)], present=0.3)
    assert same(regroup(s, np.arange(3, dtype=np.int32), s.keys), s)


@drawn
@given(keep=st.lists(st.booleans(), min_size=4, max_size=4), turn=st.permutations([0, 1, 2, 3]))
def test_renaming_and_filtering_groups_changes_no_bit_of_those_kept(keep: list[bool], turn: list[int]) -> None:
    s = summary(ends(1, 3), keys=[("a",), ("b",), ("c",), ("d",)], series=300, present=0.6)
    there = np.where(keep, turn, -1).astype(np.int32)
    renamed = regroup(s, there, [(str(i),) for i in range(4)])
    for old, new in enumerate(there):
        for name, state in s.states.items():
            columns = accumulator(name).columns
            before = take_columns(columns, state, np.flatnonzero(s.group == old))
            after = take_columns(columns, renamed.states[name], np.flatnonzero(renamed.group == new))
            assert new < 0 or same_bits(before, after)
    assert renamed.rows == int(np.isin(s.group, np.flatnonzero(keep)).sum())


def test_accumulators_that_are_not_read_can_be_left_out() -> None:
    s = summary(ends(1, 3))
    part = only(s, ["sum", "count"])
    assert sorted(part.states) == ["count", "sum"]
    assert answers(part, "avg") == answers(s, "avg")


def test_regrouping_folds_groups_in_order_of_their_keys() -> None:
    s = summary(ends(1, 1), keys=[("a",), ("b",), ("c",)], accumulators=["sum"], series=90)
    state, one = s.states["sum"], accumulator("sum")
    by_hand = one.merge(state, np.zeros(3, np.int64), 1)
    assert same_bits(regroup(s, np.zeros(3, np.int32), [("all",)]).states["sum"], by_hand)


def test_filtering_everything_out_leaves_panes_without_rows() -> None:
    left = regroup(summary(ends(1, 3)), np.full(2, -1, np.int32), [])
    assert (left.panes, left.rows, left.row_off.tolist()) == (3, 0, [0, 0, 0, 0])


@drawn
@given(
    panes=st.integers(0, 5),
    keys=st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=4, unique=True).map(sorted),
    accumulators=st.sets(st.sampled_from(ALL)).map(sorted),
    series=st.sampled_from([0, 5, 300]),
    flags=st.sampled_from([0, FAILED, HOLE, FAILED | HOLE]),
)
def test_bytes_give_back_the_summary(panes: int, keys, accumulators: list[str], series: int, flags: int) -> None:
    s = summary(ends(1, panes), keys, accumulators=accumulators, series=series, flags=flags)
    again = from_bytes(to_bytes(s))
    assert same(again, s)
    assert again.keys == s.keys
    assert to_bytes(again) == to_bytes(s)


@pytest.mark.parametrize("keys", [[()], [("", "x"), ("é\n", "")], [(("a", "1"),), (("a", "1"), ("b", "2"))]])
def test_keys_of_every_grouping_mode_survive(keys: list[tuple[object, ...]]) -> None:
    assert from_bytes(to_bytes(summary(ends(1, 1), keys))).keys == tuple(keys)


def test_any_flipped_bit_is_refused() -> None:
    data = to_bytes(summary(ends(1, 1), accumulators=["count"], series=4))
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BlobError):
            from_bytes(bytes(flipped))


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"", lambda b: b[:20]])
def test_bytes_of_another_length_are_refused(change) -> None:
    with pytest.raises(BlobError):
        from_bytes(change(to_bytes(summary(ends(1, 2)))))


def test_another_version_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(blob, "ENVELOPE", replace(blob.ENVELOPE, version=2))
        data = to_bytes(summary(ends(1, 1)))
    with pytest.raises(BlobError, match="version 2; this is version 1"):
        from_bytes(data)


def signed(raw: int, body: bytes) -> bytes:
    """A blob with a right checksum around any body."""
    packed = bytes(cramjam.zstd.compress(body))
    return blob.ENVELOPE.prefix(raw, packed) + packed


def test_a_size_over_the_limit_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(BlobError, match="over the limit"):
        from_bytes(signed(1 << 60, b"x"))


def test_a_body_that_grows_beyond_its_size_is_refused() -> None:
    with pytest.raises(BlobError):
        from_bytes(signed(100, bytes(10_000_000)))
    with pytest.raises(BlobError, match="shorter"):
        from_bytes(signed(100, b"x"))


@drawn
@given(body=st.binary(max_size=200), header=st.binary(max_size=60))
def test_a_body_with_a_right_checksum_but_no_sense_is_refused(body: bytes, header: bytes) -> None:
    for nonsense in (body, len(header).to_bytes(4, "little") + header + body):
        with pytest.raises(BlobError):
            from_bytes(signed(len(nonsense), nonsense))


@pytest.mark.parametrize(
    "header",
    [
        b'{"keys":[],"accumulators":{},"columns":[]}',
        b'{"keys":[],"accumulators":{},"columns":[["group","<f8",-1]]}',
        b'{"keys":[],"accumulators":{},"columns":[["group","<i4",1000000000000]]}',
        b'{"keys":[],"accumulators":{},"columns":[["group","|O",0]]}',
        b'{"keys":[1],"accumulators":{"sum":1},"columns":[]}',
        b'{"keys":[],"accumulators":{"no such":1},"columns":[]}',
        b'{"keys":[],"accumulators":[1],"columns":[]}',
        b'{"keys":[],"accumulators":{},"columns":[[["x"],"<i4",0]]}',
        b"[]",
        b"7",
    ],
)
def test_headers_that_do_not_describe_a_summary_are_refused(header: bytes) -> None:
    body = len(header).to_bytes(4, "little") + header
    body += bytes(-len(body) % 8)
    with pytest.raises(BlobError):
        from_bytes(signed(len(body), body))


def test_a_summary_stored_by_the_first_version_still_reads_the_same() -> None:
    s = from_bytes(GOLDEN.read_bytes())
    assert s.ends_ms.tolist() == [15_000, 30_000, 45_000]
    assert (s.seen.tolist(), s.plan.tolist(), s.flags.tolist()) == ([7, 8, 9], [3, 3, 3], [0, 0, 0])
    assert s.keys == (("cpu", "é"), ("mem", ""))
    pane = 15_000
    expected = {
        "sum": (5050.5, -3.0),
        "count": (101.0, 3.0),
        "min": (0.5, -5.0),
        "max": (100.0, 1.5),
        "avg": (5050.5 / 101, -1.0),
    }
    for statistic, (cpu, mem) in expected.items():
        found = answers(s, statistic)
        assert (found[pane, s.keys[0]], found[pane, s.keys[1]]) == (cpu, mem)
    assert answers(s, "quantile", 0.5)[pane, s.keys[1]] == 0.5
    assert answers(s, "quantile", 0.5)[pane, s.keys[0]] == pytest.approx(50.0, rel=0.01)
    assert answers(s, "stddev")[pane, s.keys[0]] == pytest.approx(float(np.std([0.5, *range(1, 101)])), rel=1e-12)


def golden() -> Summary:
    """What the golden file holds: group 0 has 0.5 and 1 to 100, group 1 three values, in every pane."""
    values = np.r_[0.5, np.arange(1.0, 101.0), -5.0, 0.5, 1.5]
    group = np.r_[np.zeros(101, np.int32), np.ones(3, np.int32)]
    shard = np.sort(np.arange(104, dtype=np.int32) % 4)
    one = one_pane(values, group, shard, 2)
    panes = [
        build(
            one,
            [("cpu", "é"), ("mem", "")],
            FIRST,
            np.array([end]),
            np.array([seen]),
            np.array([3]),
            np.zeros(1, np.uint8),
        )
        for end, seen in ((15_000, 7), (30_000, 8), (45_000, 9))
    ]
    return pack(panes)


def test_what_is_stored_today_is_what_the_first_version_stored() -> None:
    assert same(golden(), from_bytes(GOLDEN.read_bytes()))
