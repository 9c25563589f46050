"""What chooses and counts rows, against slow readings of the rules (prometheus/promql/engine.go, aggregationK)."""

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from precompute.evaluate.count_values import value_text
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.label_hash import label_hashes
from precompute.evaluate.values import Vector
from precompute.kernels.xxh64 import xxh64
from precompute.labels import Labels
from query.promql.parse import parse
from tests.precompute.evaluate.made import at_step, drawn, nowhere, vector

STEPS = 3


def evaluated(text: str, given: Vector) -> Vector:
    """The expression, whose operand `m` is this vector."""
    made = evaluate(parse(text), replace(nowhere(STEPS), known={parse("m"): given}))
    assert isinstance(made, Vector)
    return made


def groups(given: Vector, step: int, labels: tuple[str, ...]) -> dict[Labels, list[tuple[Labels, float]]]:
    out: dict[Labels, list[tuple[Labels, float]]] = {}
    for key, value in at_step(given, step).items():
        out.setdefault(tuple((n, v) for n, v in key if n in labels), []).append((key, value))
    return out


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("op", ["topk", "bottomk"])
def test_the_best_are_chosen_and_of_equal_ones_the_first(op: str, seed: int) -> None:
    random = Random(seed)
    given = drawn(random, "m", "abc", random.randrange(1, 30), STEPS)
    k = random.choice((1, 2, 3, 100))
    made = evaluated(f"{op} by (a) ({k}, m)", given)
    for step in range(STEPS):
        expected: dict[Labels, float] = {}
        for members in groups(given, step, ("a",)).values():
            sign = -1 if op == "topk" else 1
            best = sorted(members, key=lambda m: (math.isnan(m[1]), 0.0 if math.isnan(m[1]) else sign * m[1]))[:k]
            expected |= dict(best)
        got = at_step(made, step)
        assert got.keys() == expected.keys()
        assert all(got[key] == expected[key] or math.isnan(got[key]) for key in got)


@pytest.mark.parametrize("text", ["topk(9, m)", "bottomk(9, m)", "sort(m)", 'sort_by_label_desc(m, "a")'])
def test_an_instant_query_alone_is_put_in_order_not_one_step_of_a_range(text: str) -> None:
    """Else a sum over it would depend on how many steps are evaluated together."""
    given = drawn(Random(1), "m", "abc", 9, 1).seen()
    alone = replace(nowhere(1), known={parse("m"): given})
    of_many = replace(alone, end_ms=alone.start_ms + 1)
    ordered, plain = evaluate(parse(text), alone), evaluate(parse(text), of_many)
    assert isinstance(ordered, Vector)
    assert isinstance(plain, Vector)
    assert ordered.ordered
    assert not plain.ordered
    assert [plain.frame.labels(row) for row in range(len(plain))] == [
        given.frame.labels(row) for row in range(len(given))
    ]


@pytest.mark.parametrize("seed", range(10))
def test_limitk_takes_as_many_of_each_group_as_there_are_up_to_k(seed: int) -> None:
    random = Random(seed)
    given = drawn(random, "m", "abc", 25, STEPS)
    made = evaluated("limitk by (a) (2, m)", given)
    for step in range(STEPS):
        all_of, some_of = groups(given, step, ("a",)), groups(made, step, ("a",))
        assert {key: min(2, len(members)) for key, members in all_of.items()} == {k: len(v) for k, v in some_of.items()}
        assert at_step(made, step).keys() <= at_step(given, step).keys()


@pytest.mark.parametrize("seed", range(10))
def test_a_ratio_and_its_complement_part_the_rows(seed: int) -> None:
    random = Random(seed)
    given = drawn(random, "m", "abcd", 40, STEPS)
    ratio = random.random()
    taken, left = evaluated(f"limit_ratio({ratio}, m)", given), evaluated(f"limit_ratio({ratio} - 1, m)", given)
    for step in range(STEPS):
        one, other = at_step(taken, step).keys(), at_step(left, step).keys()
        assert not one & other
        assert one | other == at_step(given, step).keys()


@pytest.mark.parametrize("seed", range(10))
def test_values_are_counted_by_group_and_text(seed: int) -> None:
    random = Random(seed)
    given = drawn(random, "m", "ab", 20, STEPS)
    made = evaluated('count_values by (a) ("v", m)', given)
    for step in range(STEPS):
        expected: dict[Labels, float] = {}
        for key, members in groups(given, step, ("a",)).items():
            for _, value in members:
                labels = tuple(sorted((*key, ("v", value_text(value)))))
                expected[labels] = expected.get(labels, 0) + 1
        assert at_step(made, step) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (-0.0, "-0"), (1e21, "1000000000000000000000"), (1.5e-7, "0.00000015"), (math.nan, "NaN"),
     (math.inf, "+Inf"), (-math.inf, "-Inf"), (0.1, "0.1")],
)  # fmt: skip
def test_a_counted_value_is_written_as_go_does(value: float, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_hash_is_xxh64(text: bytes, expected: int) -> None:
    assert int(xxh64(np.frombuffer(text + b"\0", np.uint8), len(text))) == expected


def test_a_label_set_is_hashed_as_its_names_and_values_behind_their_lengths() -> None:
    given = vector([({"b": "2", "__name__": "m"}, [1.0]), ({"a": "x" * 300}, [1.0]), ({}, [1.0])], 1)
    raw = (b"\x08__name__\x01m\x01b\x012", b"\x01a\xff\x2c\x01\x00" + b"x" * 300, b"")
    expected = [int(xxh64(np.frombuffer(one + b"\0", np.uint8), len(one))) for one in raw]
    assert label_hashes(given.frame).tolist() == expected
