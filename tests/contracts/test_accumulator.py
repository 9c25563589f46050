"""What every accumulator promises (precompute/sketches/base.py)."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.samples import I64
from precompute.sketches.base import Accumulator, State, Vectors, one_pane
from precompute.sketches.columns import check_columns, concat_columns, empty_columns, size_bytes, take_columns
from precompute.sketches.registry import FAMILIES, STATISTICS, accumulator, kept_of_vectors
from tests.precompute.sketches.made import drawn, of_shard, same_bits, vectors

ORDER_FREE = ("count", "min", "max", "quantile")

each = pytest.mark.parametrize("name", sorted(kept_of_vectors()))
order_free = pytest.mark.parametrize("name", ORDER_FREE)


def of_shards(kept: Accumulator[Any], whole: Vectors, shards: list[int]) -> State:
    """The states of these shards, rows one after another."""
    return concat_columns(kept.columns, [kept.build(of_shard(whole, shard)) for shard in shards])


def onto_each_other(parts: int, rows: int) -> I64:
    return np.tile(np.arange(rows), parts)


@each
@drawn
@given(whole=vectors())
def test_shards_merged_in_order_are_the_whole_to_the_bit(name: str, whole: Vectors) -> None:
    kept = accumulator(name)
    merged = kept.merge(of_shards(kept, whole, [0, 1, 2, 3]), onto_each_other(4, whole.rows), whole.rows)
    assert same_bits(merged, kept.build(whole))


@each
@drawn
@given(whole=vectors())
def test_panes_built_together_are_the_panes_built_alone(name: str, whole: Vectors) -> None:
    kept = accumulator(name)
    alone = [
        kept.build(Vectors(whole.values[:, [p]], whole.present[:, [p]], whole.group, whole.shard, whole.groups))
        for p in range(whole.panes)
    ]
    assert same_bits(concat_columns(kept.columns, alone), kept.build(whole))


@order_free
@drawn
@given(whole=vectors(), shards=st.permutations([0, 1, 2, 3]), cut=st.integers(1, 3))
def test_any_order_and_any_grouping_of_parts_gives_the_same_bits(
    name: str, whole: Vectors, shards: list[int], cut: int
) -> None:
    kept = accumulator(name)
    halves = [
        kept.merge(of_shards(kept, whole, part), onto_each_other(len(part), whole.rows), whole.rows)
        for part in (shards[:cut], shards[cut:])
    ]
    merged = kept.merge(concat_columns(kept.columns, halves), onto_each_other(2, whole.rows), whole.rows)
    assert same_bits(merged, kept.build(whole))


@each
@drawn
@given(whole=vectors(), seed=st.integers(0, 2**32 - 1))
def test_merging_rows_is_merging_them_one_by_one_in_their_order(name: str, whole: Vectors, seed: int) -> None:
    kept, state = accumulator(name), accumulator(name).build(whole)
    into = np.random.default_rng(seed).integers(0, 2, whole.rows)
    stepwise = kept.merge(empty_columns(kept.columns), np.zeros(0, np.int64), 2)
    for row in range(whole.rows):
        both = concat_columns(
            kept.columns, [stepwise, take_columns(kept.columns, state, np.array([row]))]
        )
        stepwise = kept.merge(both, np.array([0, 1, into[row]]), 2)
    assert same_bits(kept.merge(state, into, 2), stepwise)


@each
@drawn
@given(whole=vectors())
def test_an_empty_row_changes_nothing_whichever_side_it_is_merged_from(name: str, whole: Vectors) -> None:
    kept, state = accumulator(name), accumulator(name).build(whole)
    nothing = kept.merge(empty_columns(kept.columns), np.zeros(0, np.int64), whole.rows)
    for both in ([state, nothing], [nothing, state]):
        merged = kept.merge(
            concat_columns(kept.columns, both), onto_each_other(2, whole.rows), whole.rows
        )
        assert same_bits(merged, state)


@each
@drawn
@given(whole=vectors())
def test_taking_rows_apart_and_putting_them_together_changes_nothing(name: str, whole: Vectors) -> None:
    columns, state = accumulator(name).columns, accumulator(name).build(whole)
    singles = [take_columns(columns, state, np.array([row])) for row in range(whole.rows)]
    assert same_bits(concat_columns(columns, singles), state)


@each
@drawn
@given(whole=vectors())
def test_the_columns_are_those_declared(name: str, whole: Vectors) -> None:
    state = accumulator(name).build(whole)
    check_columns(accumulator(name).columns, state, whole.rows)
    assert size_bytes(state) == sum(a.nbytes for a in state.values())


@each
@drawn
@given(whole=vectors())
def test_no_operation_changes_its_arguments(name: str, whole: Vectors) -> None:
    kept = accumulator(name)
    state = kept.build(whole)
    before = {column: a.copy() for column, a in state.items()}
    values = whole.values.copy()
    kept.build(whole)
    kept.merge(state, np.zeros(whole.rows, np.int64), 1)
    assert same_bits(state, before)
    assert whole.values.tobytes() == values.tobytes()


@each
def test_no_series_at_all_gives_empty_rows(name: str) -> None:
    kept = accumulator(name)
    none = one_pane(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int32), 2)
    nothing = kept.merge(empty_columns(kept.columns), np.zeros(0, np.int64), 2)
    assert same_bits(kept.build(none), nothing)


@pytest.mark.parametrize("statistic", sorted(STATISTICS))
@pytest.mark.parametrize("value", [7.25, -3.5, 0.0, 5e-324, 1.7e308])
def test_a_million_equal_values_are_answered_exactly_but_for_sums(statistic: str, value: float) -> None:
    n = 1_000_000
    shard = np.sort(np.random.default_rng(1).integers(0, 16, n)).astype(np.int32)
    whole = one_pane(np.full(n, value), np.zeros(n, np.int32), shard, 1)
    answer = STATISTICS[statistic]
    states = {name: accumulator(name).build(whole) for name in answer.needs}
    right = {"sum": value * n, "count": n, "group": 1.0, "stddev": 0.0, "stdvar": 0.0}.get(statistic, value)
    if answer.covered(states)[0]:
        assert answer.estimate(states, 1.0)[0] == right
    else:
        assert statistic == "avg"
        assert value == 1.7e308


def test_every_statistic_reads_accumulators_that_exist() -> None:
    assert all(set(s.needs) <= FAMILIES.keys() for s in STATISTICS.values())
    assert {s.bound.kind for s in STATISTICS.values()} == {"exact", "relative"}
    assert all(accumulator(name).name == name and accumulator(name).version >= 1 for name in FAMILIES)
