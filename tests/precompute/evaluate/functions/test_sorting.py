"""Orders that a query asks for."""

import math
from random import Random

import pytest

from precompute.evaluate.order import natural_ranks
from tests.precompute.evaluate.functions.asked import Asked, Drawn, rows

NATURAL = ["", "!", "1", "2", "10", "99999999999999999999", "100000000000000000000", "a", "a1", "a2", "a2b", "a10", "b"]


def test_numbers_in_texts_count_as_numbers() -> None:
    shuffled = NATURAL.copy()
    Random(1).shuffle(shuffled)
    ranks = natural_ranks(shuffled)
    assert [text for _, text in sorted(zip(ranks.tolist(), shuffled, strict=True))] == NATURAL
    assert len(set(ranks.tolist())) == len(NATURAL)


def test_leading_zeros_do_not_count() -> None:
    assert natural_ranks(["a01", "a1", "a2"]).tolist() == [0, 0, 1]


def test_nan_is_last_in_both_directions() -> None:
    series: Drawn = {'x{i="1"}': [2], 'x{i="2"}': [math.nan], 'x{i="3"}': [-math.inf], 'x{i="4"}': [3]}
    for text, order in (("sort(x)", "3142"), ("sort_desc(x)", "4132")):
        asked = Asked(series, text, 0)
        assert [row[-1] for row in asked.rows()] == list(order)
        assert asked.value.ordered  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "turn"), [("sort_by_label", 1), ("sort_by_label_desc", -1)])
def test_labels_sort_in_natural_order_then_whole_sets(name: str, turn: int) -> None:
    series = {f'x{{a="p{i}",b="{j}"}}': [1] for i in (10, 2) for j in (2, 1)} | {'x{b="0"}': [1]}
    asked = Asked(series, f'{name}(x, "a")', 0)
    order = ["b=0", "a=p2,b=1", "a=p2,b=2", "a=p10,b=1", "a=p10,b=2"]
    assert [row.removeprefix("__name__=x,") for row in asked.rows()] == order[::turn]


def test_over_several_steps_an_order_is_no_use() -> None:
    for text in ("sort(x)", 'sort_by_label(x, "a")'):
        asked = Asked({"x": [1, 2]}, text, 0, 10)
        assert asked.notes.warnings == (
            "PromQL warning: sort is ineffective for range queries since results are always ordered by labels",
        )
        assert asked.rows() == {"__name__=x": [1, 2]}


def test_nothing_sorts_into_nothing() -> None:
    assert rows({}, "sort(x)", 0) == {} and rows({}, 'sort_by_label(x, "a")', 0) == {}
