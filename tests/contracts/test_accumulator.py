"""What every accumulator promises (precompute/sketches/base.py)."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import BlobError
from precompute.samples import F64, I64
from precompute.sketches import bytes as state_bytes
from precompute.sketches.base import Accumulator, Items, State, Vectors, build_of, one_pane
from precompute.sketches.bytes import from_bytes, to_bytes
from precompute.sketches.columns import check_columns, concat_columns, empty_columns, size_bytes, take_columns
from precompute.sketches.registry import FAMILIES, STATISTICS, accumulator, family_of, kept_of_vectors
from tests.contracts.accumulator_lines import LINES, Line, parameter_of, worlds
from tests.precompute.sketches.made import ODD, drawn, of_row, same_bits, vectors

each = pytest.mark.parametrize("line", LINES, ids=str)
drawn_data = given(data=st.data())


def those(*promises: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("line", [line for line in LINES if line.parts in promises], ids=str)


def onto_each_other(parts: int, rows: int) -> I64:
    return np.tile(np.arange(rows), parts)


def no_rows(kept: Accumulator[Any], rows: int) -> State:
    """Rows that nothing was merged into."""
    return kept.merge(empty_columns(kept.columns), np.zeros(0, np.int64), rows)


def items_of(value: F64) -> Items:
    """Items of one row, a second apart, all of one key."""
    n = len(value)
    return Items(np.zeros(n, np.int32), value, np.arange(n) * 1000, np.full(n, 7, np.uint64), 1)


def test_every_family_has_a_line() -> None:
    assert {family_of(line.name).name for line in LINES} == set(FAMILIES)


@those("any order", "in order")
@drawn
@drawn_data
def test_parts_merged_in_order_are_the_whole_to_the_bit(line: Line, data: st.DataObject) -> None:
    world = data.draw(worlds(line))
    merged = world.kept.merge(world.joined([0, 1, 2, 3]), onto_each_other(4, world.rows), world.rows)
    assert same_bits(merged, world.whole)


@those("any order")
@drawn
@given(data=st.data(), order=st.permutations([0, 1, 2, 3]), cut=st.integers(1, 3))
def test_any_order_and_any_grouping_of_parts_gives_the_same_bits(
    line: Line, data: st.DataObject, order: list[int], cut: int
) -> None:
    world = data.draw(worlds(line))
    halves = [
        world.kept.merge(world.joined(part), onto_each_other(len(part), world.rows), world.rows)
        for part in (order[:cut], order[cut:])
    ]
    both = concat_columns(world.kept.columns, halves)
    assert same_bits(world.kept.merge(both, onto_each_other(2, world.rows), world.rows), world.whole)


@drawn
@given(whole=vectors(odd=False), seed=st.integers(0, 2**32 - 1))
def test_sums_and_moments_merged_in_any_order_stay_within_their_bounds(whole: Vectors, seed: int) -> None:
    series = np.random.default_rng(seed).permutation(len(whole.group))
    rows = np.arange(whole.rows)
    values = [of_row(whole, row) for row in rows]
    singles = [
        Vectors(whole.values[[i]], whole.present[[i]], whole.group[[i]], whole.shard[[i]], whole.groups) for i in series
    ]
    for name, column, right, scale in (
        ("sum", "sum", [math.fsum(v) for v in values], [math.fsum(abs(v)) for v in values]),
        ("stddev", "m2", [math.fsum((v - math.fsum(v) / max(len(v), 1)) ** 2) for v in values],
         [math.fsum(v**2) for v in values]),
    ):  # fmt: skip
        kept = accumulator(name)
        parts = concat_columns(kept.columns, [kept.build(single) for single in singles])
        merged = kept.merge(parts, np.tile(rows, len(singles)), whole.rows)
        assert (np.abs(merged[column] - right) <= 1e-12 * np.array(scale)).all()


@each
@drawn
@drawn_data
def test_panes_built_together_are_the_panes_built_alone(line: Line, data: st.DataObject) -> None:
    kept = accumulator(line.name)
    if kept.feeds is not Vectors:
        return
    whole = data.draw(vectors())
    alone = [
        kept.build(Vectors(whole.values[:, [p]], whole.present[:, [p]], whole.group, whole.shard, whole.groups))
        for p in range(whole.panes)
    ]
    assert same_bits(concat_columns(kept.columns, alone), kept.build(whole))


@pytest.mark.parametrize("line", [line for line in LINES if line.stepwise], ids=str)
@drawn
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_merging_rows_is_merging_them_one_by_one_in_their_order(line: Line, data: st.DataObject, seed: int) -> None:
    world = data.draw(worlds(line))
    kept, state, n = world.kept, world.joined([0, 1, 2, 3]), 4 * world.rows
    into = np.random.default_rng(seed).integers(0, 2, n)
    stepwise = no_rows(kept, 2)
    for row in range(n):
        both = concat_columns(kept.columns, [stepwise, take_columns(kept.columns, state, np.array([row]))])
        stepwise = kept.merge(both, np.array([0, 1, into[row]]), 2)
    assert same_bits(kept.merge(state, into, 2), stepwise)


@each
@drawn
@drawn_data
def test_the_same_order_twice_gives_the_same_bits(line: Line, data: st.DataObject) -> None:
    world = data.draw(worlds(line))
    once, again = (
        world.kept.merge(world.joined([2, 0, 3, 1]), onto_each_other(4, world.rows), world.rows) for _ in range(2)
    )
    assert same_bits(once, again)


@each
@drawn
@drawn_data
def test_an_empty_row_changes_nothing_whichever_side_it_is_merged_from(line: Line, data: st.DataObject) -> None:
    world = data.draw(worlds(line))
    nothing = no_rows(world.kept, world.rows)
    for both in ([world.whole, nothing], [nothing, world.whole]):
        rows = concat_columns(world.kept.columns, both)
        assert same_bits(world.kept.merge(rows, onto_each_other(2, world.rows), world.rows), world.whole)


@each
@drawn
@drawn_data
def test_taking_rows_apart_and_putting_them_together_changes_nothing(line: Line, data: st.DataObject) -> None:
    world = data.draw(worlds(line))
    columns = world.kept.columns
    singles = [take_columns(columns, world.whole, np.array([row])) for row in range(world.rows)]
    assert same_bits(concat_columns(columns, singles), world.whole)


@each
@drawn
@drawn_data
def test_the_columns_are_those_declared_and_fit_each_other(line: Line, data: st.DataObject) -> None:
    world = data.draw(worlds(line))
    for state in (world.whole, world.kept.merge(world.whole, np.zeros(world.rows, np.int64), 1)):
        check_columns(world.kept.columns, state, world.rows if state is world.whole else 1)
        world.kept.check(state)
        assert size_bytes(state) == sum(a.nbytes for a in state.values())


@each
@drawn
@drawn_data
def test_no_operation_changes_its_arguments(line: Line, data: st.DataObject) -> None:
    world = data.draw(worlds(line))
    before = {column: a.copy() for column, a in world.whole.items()}
    world.kept.merge(world.whole, np.zeros(world.rows, np.int64), 1)
    for statistic in world.kept.answers:
        world.kept.estimate(world.whole, statistic, parameter_of(statistic))
    assert same_bits(world.whole, before)


@drawn
@given(whole=vectors())
@pytest.mark.parametrize("name", kept_of_vectors())
def test_building_leaves_the_values_as_they_are(name: str, whole: Vectors) -> None:
    values = whole.values.copy()
    accumulator(name).build(whole)
    assert whole.values.tobytes() == values.tobytes()


@each
def test_no_values_at_all_give_empty_rows(line: Line) -> None:
    kept = accumulator(line.name)
    none = Items(np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.uint64), 2)
    assert same_bits(build_of(kept, none), no_rows(kept, 2))


@each
def test_every_statistic_is_estimated_for_all_rows_and_for_none(line: Line) -> None:
    kept = accumulator(line.name)
    for rows in (0, 3):
        for statistic in kept.answers:
            estimate = kept.estimate(no_rows(kept, rows), statistic, parameter_of(statistic))
            assert estimate.shape == (rows,)
            assert estimate.dtype == np.float64


@each
@pytest.mark.parametrize("value", ODD)
def test_an_odd_value_alone_and_among_others_is_taken_in(line: Line, value: float) -> None:
    kept = accumulator(line.name)
    for values in ([value], [1.0, value, -2.0], [value] * 500):
        state = build_of(kept, items_of(np.array(values)))
        kept.check(state)
        assert same_bits(state, build_of(kept, items_of(np.array(values))))


@pytest.mark.parametrize("statistic", sorted(STATISTICS))
@pytest.mark.parametrize("value", [7.25, -3.5, 0.0, 5e-324, 1.7e308])
def test_a_thousand_million_equal_values_are_answered_exactly(statistic: str, value: float) -> None:
    n, times = 1_000_000, 1000
    shard = np.sort(np.random.default_rng(1).integers(0, 16, n)).astype(np.int32)
    whole = one_pane(np.full(n, value), np.zeros(n, np.int32), shard, 1)
    answer = STATISTICS[statistic]
    states = {name: many(accumulator(name), accumulator(name).build(whole), times) for name in answer.needs}
    right = {"sum": value * n * times, "count": n * times, "group": 1.0, "stddev": 0.0, "stdvar": 0.0}
    if answer.covered(states)[0]:
        assert answer.estimate(states, 1.0)[0] == right.get(statistic, value)
    else:
        assert statistic == "avg"
        assert value == 1.7e308


@each
def test_a_thousand_million_equal_values_give_the_same_quantile(line: Line) -> None:
    kept = accumulator(line.name)
    if "quantile" not in kept.answers:
        return
    for value in (7.25, -3.5, 0.0, 5e-324, 1.7e308):
        state = many(kept, build_of(kept, items_of(np.full(1_000_000, value))), 1000)
        assert kept.estimate(state, "quantile", 1.0).tolist() == [value]
        middle = kept.estimate(state, "quantile", 0.3)[0]
        assert math.isclose(middle, value, rel_tol=1e-15, abs_tol=0)


def many(kept: Accumulator[Any], state: State, times: int) -> State:
    """One row merged with itself."""
    return kept.merge(take_columns(kept.columns, state, np.zeros(times, np.int64)), np.zeros(times, np.int64), 1)


@each
@drawn
@drawn_data
def test_bytes_give_back_the_state(line: Line, data: st.DataObject) -> None:
    state = data.draw(worlds(line)).whole
    name, again = from_bytes(to_bytes(line.name, state))
    assert name == line.name
    assert same_bits(again, state)
    assert to_bytes(name, again) == to_bytes(line.name, state)


@each
@drawn
@given(data=st.data(), at=st.integers(0, 2**20))
def test_a_flipped_bit_is_refused_by_name(line: Line, data: st.DataObject, at: int) -> None:
    blob = bytearray(to_bytes(line.name, data.draw(worlds(line)).whole))
    blob[at // 8 % len(blob)] ^= 1 << at % 8
    with pytest.raises(BlobError, match="a state"):
        from_bytes(bytes(blob))


@each
def test_another_version_is_refused_by_name(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = accumulator(line.name)
    state = build_of(kept, items_of(np.arange(9.0)))
    version = kept.version
    later = {"accumulator": kept.name, "version": version + 1, "rows": 1}
    with pytest.raises(BlobError, match=f"version {version + 1} is not known here; this is version {version}"):
        from_bytes(state_bytes.ENVELOPE.wrap(later, {c.name: state[c.name] for c in kept.columns}))
    with monkeypatch.context() as future:
        future.setattr(state_bytes, "ENVELOPE", replace(state_bytes.ENVELOPE, version=2))
        data = to_bytes(kept.name, state)
    with pytest.raises(BlobError, match="a state of version 2; this is version 1"):
        from_bytes(data)


def test_every_statistic_reads_accumulators_that_exist() -> None:
    assert all(set(s.needs) <= FAMILIES.keys() for s in STATISTICS.values())
    assert {s.bound.kind for s in STATISTICS.values()} == {"exact", "relative"}
    assert all(accumulator(line.name).name == line.name and accumulator(line.name).version >= 1 for line in LINES)
