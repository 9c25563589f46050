"""The exact accumulators over keys and values: sets with churn, top k, counts of values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import BlobError
from precompute.sketches.base import State
from precompute.sketches.registry import accumulator
from tests.precompute.sketches.made import ODD, drawn
from tests.precompute.sketches.one_row import merged, seen, weighed

NAN = math.nan
SETS = st.sets(st.integers(0, 20))


@drawn
@given(panes=st.lists(SETS, min_size=2, max_size=5), order=st.randoms(use_true_random=False))
def test_churn_at_each_pane_is_the_difference_of_the_sets_before_and_after(
    panes: list[set[int]], order: object
) -> None:
    kept = accumulator("keyset")
    states = [kept.build(seen(sorted(keys), [1000 * p] * len(keys))) for p, keys in enumerate(panes)]
    order.shuffle(states)  # type: ignore[attr-defined]  # hypothesis' Random
    whole = merged(kept, states)
    assert kept.estimate(whole, "distinct")[0] == len(set().union(*panes))
    for p in range(1, len(panes)):
        before, after = set().union(*panes[:p]), set().union(*panes[p:])
        since_ms = 1000.0 * (p - 1)
        assert kept.estimate(whole, "appeared", since_ms)[0] == len(after - before)
        assert kept.estimate(whole, "gone", since_ms)[0] == len(before - after)


def best(items: list[tuple[int, float]], k: int, largest: bool) -> list[tuple[int, str]]:
    """The k best of keys' best values: numbers before NaN, larger (or smaller) first, then by key."""

    def rank(value: float) -> tuple[bool, float, float]:
        sign = -1 if largest else 1
        return math.isnan(value), 0.0 if math.isnan(value) else sign * value, sign * math.copysign(1, value)

    of_key: dict[int, float] = {}
    for key, value in items:
        of_key[key] = min((of_key.get(key, value), value), key=rank)
    ordered = sorted(of_key.items(), key=lambda kv: (*(rank(kv[1]) if not math.isnan(kv[1]) else (True, 0, 0)), kv[0]))
    return [(key, repr(value)) for key, value in ordered[:k]]


@pytest.mark.parametrize("name", ["topk", "bottomk"])
@drawn
@given(
    items=st.lists(st.tuples(st.integers(0, 8), st.floats() | st.sampled_from(ODD) | st.just(1.0)), max_size=40),
    k=st.integers(1, 6),
    cut=st.integers(0, 40),
)
def test_the_best_keys_are_those_of_a_sort_however_the_parts_are_cut(
    name: str, items: list[tuple[int, float]], k: int, cut: int
) -> None:
    kept = accumulator(f"{name}(k={k})")
    state = merged(
        kept,
        [kept.build(weighed([key for key, _ in part], [v for _, v in part])) for part in (items[:cut], items[cut:])],
    )
    assert list(zip(state["key"].tolist(), map(repr, state["value"].tolist()), strict=True)) == best(
        items, k, name == "topk"
    )


def test_ranks_of_top_k_count_from_one_and_end_at_k() -> None:
    kept = accumulator("topk(k=2)")
    state = kept.build(weighed([1, 2, 3], [5.0, 7.0, 6.0]))
    assert [kept.estimate(state, "topk", rank)[0] for rank in (1, 2)] == [7.0, 6.0]
    assert math.isnan(kept.estimate(state, "topk", 3)[0])


def test_values_are_counted_with_one_nan_and_two_zeros() -> None:
    kept = accumulator("valuecounts")
    whole = merged(
        kept, [kept.build(weighed([0] * 4, [0.0, -0.0, NAN, 2.5])), kept.build(weighed([0] * 2, [-NAN, 2.5]))]
    )
    counted = [kept.estimate(whole, "count_values", value)[0] for value in (0.0, -0.0, NAN, 2.5, 9.0)]
    assert counted == [1, 1, 2, 2, 0]
    assert len(whole["value"]) == 4


def damaged(name: str, state: State, column: str, values: list[float]) -> State:
    return {**state, column: np.array(values, state[column].dtype)}


@pytest.mark.parametrize(
    ("name", "column", "values"),
    [
        ("keyset", "key", [2, 1, 3]),
        ("keyset", "last_ms", [-1, 0, 0]),
        ("topk", "value", [1.0, 2.0, 3.0]),
        ("topk(k=2)", "key_off", [0, 3]),
        ("valuecounts", "hits", [1, 0, 1]),
        ("valuecounts", "value", [2.0, 1.0, 3.0]),
    ],
)
def test_columns_that_no_items_give_are_refused(name: str, column: str, values: list[float]) -> None:
    kept = accumulator(name)
    state = accumulator(name.split("(")[0]).build(weighed([1, 2, 3], [3.0, 2.0, 1.0]))
    with pytest.raises(BlobError, match="do not fit"):
        kept.check(damaged(name, state, column, values))
