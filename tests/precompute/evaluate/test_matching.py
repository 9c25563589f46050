"""Operators between vectors against a slow reading of the rules (prometheus/promql/engine.go, VectorBinop and sets)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import ExecutionError, LimitExceeded
from precompute.evaluate.binary import binary
from precompute.evaluate.expr import Binary, Matching
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.labels import Labels
from query.promql.parse import parse
from tests.precompute.evaluate.made import at_step, drawn, nowhere, vector

NAME = "__name__"
STEPS = 4
Elements = dict[Labels, float]
OPS: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b, "*": lambda a, b: a * b, ">": lambda a, b: a > b, "==": lambda a, b: a == b,
}  # fmt: skip


class Fails(Exception):
    """No answer by the rules."""


def signature(matching: Matching, labels: Labels) -> Labels:
    if matching.on:
        return tuple((n, v) for n, v in labels if n in matching.labels)
    return tuple((n, v) for n, v in labels if n not in (NAME, *matching.labels))


def sets(node: Binary, left: Elements, right: Elements) -> Elements:
    mine = {signature(node.matching, labels) for labels in left}
    theirs = {signature(node.matching, labels) for labels in right}
    if node.op == "and":
        return {labels: v for labels, v in left.items() if signature(node.matching, labels) in theirs}
    if node.op == "unless":
        return {labels: v for labels, v in left.items() if signature(node.matching, labels) not in theirs}
    rest = {labels: v for labels, v in right.items() if signature(node.matching, labels) not in mine}
    if rest.keys() & left.keys():
        raise Fails
    return left | rest


def between(node: Binary, left: Elements, right: Elements) -> Elements:
    matching, turned = node.matching, node.matching.group == "right"
    many, one = (right, left) if turned else (left, right)
    if not (left and right) and not (matching.fills and (left or right)):
        return {}
    ones = {signature(matching, labels): labels for labels in one}
    if len(ones) < len(one):
        raise Fails
    met: dict[Labels, set[Labels]] = {}
    out: Elements = {}

    def add(many_labels: Labels, a: float, one_labels: Labels, b: float, key: Labels) -> None:
        x, y = (b, a) if turned else (a, b)
        result = OPS[node.op](x, y)
        filters = node.op in (">", "==") and not node.bool_
        labels = _result(node, many_labels, one_labels, filters)
        if (not matching.group and key in met) or labels in met.get(key, ()):
            raise Fails
        met.setdefault(key, set()).add(labels)
        if filters and not result:
            return
        if labels in out:
            raise Fails
        out[labels] = x if filters else float(result)

    for labels, a in many.items():
        key = signature(matching, labels)
        if key in ones:
            add(labels, a, ones[key], one[ones[key]], key)
        elif matching.fill_right is not None:
            add(labels, a, key, matching.fill_right.value, key)
    if matching.fill_left is not None:
        for labels, b in one.items():
            key = signature(matching, labels)
            if key not in met:
                add(key, matching.fill_left.value, labels, b, key)
    return out


def _result(node: Binary, many: Labels, one: Labels, filters: bool) -> Labels:
    matching, named, theirs = node.matching, dict(many), dict(one)
    if not filters:
        named.pop(NAME, None)
    if not matching.group:
        named = {n: v for n, v in named.items() if (n in matching.labels) == matching.on}
    named |= {name: theirs.get(name, "") for name in matching.include}
    return tuple(sorted((n, v) for n, v in named.items() if v))


def same(a: Elements, b: Elements) -> bool:
    return a.keys() == b.keys() and all(a[k] == b[k] or (math.isnan(a[k]) and math.isnan(b[k])) for k in a)


def expected(node: Binary, left: Vector, right: Vector) -> list[Elements] | None:
    rule = sets if node.op in ("and", "or", "unless") else between
    try:
        return [rule(node, at_step(left, step), at_step(right, step)) for step in range(STEPS)]
    except Fails:
        return None


MATCHINGS = ("", "on ()", "on (a)", "on (a, b)", "on (b, nosuch)", "ignoring (a)", "ignoring (b, c)", "ignoring (c)")
GROUPS = ("", "", "group_left ()", "group_left (c)", "group_left (c, d)", "group_right ()", "group_right (d, c)")
FILLS = ("", "", "", "fill (2)", "fill_left (0)", "fill_right (-1)", "fill_left (1) fill_right (3)")


def operator(random: Random) -> str:
    matching = random.choice(MATCHINGS)
    if random.random() < 0.3:
        return f"l {random.choice(('and', 'or', 'unless'))} {matching} r"
    bool_ = random.choice(("", " bool"))
    op = random.choice(("+", "*", f">{bool_}", f"=={bool_}"))
    group = random.choice(GROUPS) if matching else ""
    return f"l {op} {matching} {group} {random.choice(FILLS)} r"


@pytest.mark.parametrize("seed", range(40))
def test_any_match_is_what_the_rules_say(seed: int) -> None:
    random = Random(seed)
    answered = 0
    for _ in range(60):
        text = operator(random)
        left = drawn(random, "l", random.choice(("a", "ab", "abc")), random.randrange(7), STEPS)
        right = drawn(random, random.choice(("l", "r")), random.choice(("a", "ab", "bd")), random.randrange(5), STEPS)
        node = parse(text)
        assert isinstance(node, Binary)
        right_answer = expected(node, left, right)
        if right_answer is None:
            with pytest.raises(ExecutionError):
                binary(node, left, right, nowhere(STEPS))
            continue
        made = binary(node, left, right, nowhere(STEPS))
        assert isinstance(made, Vector)
        for step in range(STEPS):
            assert same(at_step(made, step), right_answer[step]), f"{text} at step {step}"
        answered += 1
    assert answered > 5


def test_a_cross_product_is_refused_before_it_is_made() -> None:
    rows = 3000
    # one series at a time has the signature, but each of them may meet each of the others
    many = vector([({"a": str(k)}, [1.0]) for k in range(rows)], 1)
    one = vector([({"b": str(k)}, [1.0 if k == 0 else None]) for k in range(rows)], 1)
    node = parse("l * on () group_left (b) r")
    assert isinstance(node, Binary)
    small = Budget(Limits(max_matrix_bytes=1 << 20), ManualClock(), 60_000)
    with pytest.raises(LimitExceeded):
        binary(node, many, one, replace(nowhere(1), budget=small))


def test_a_match_without_labels_to_include_makes_no_more_rows_than_it_had() -> None:
    rows = 2000
    many = vector([({"a": str(k)}, [1.0]) for k in range(rows)], 1)
    one = vector([({"b": str(k)}, [3.0 if k == 7 else None]) for k in range(rows)], 1)
    node = parse("l * on () group_left () r")
    assert isinstance(node, Binary)
    made = binary(node, many, one, nowhere(1))
    assert isinstance(made, Vector)
    assert made.values.shape == (rows, 1)
    assert np.unique(made.values).tolist() == [3.0]


def test_a_name_that_is_included_stays() -> None:
    many, one = vector([({"a": "x"}, [1.0])], 1), vector([({"__name__": "r", "a": "x"}, [1.0])], 1)
    node = parse("l == bool on (a) group_left (__name__) r")
    assert isinstance(node, Binary)
    made = binary(node, many, one, nowhere(1))
    assert isinstance(made, Vector)
    assert made.drop_name is None
    assert at_step(made, 0) == {(("__name__", "r"), ("a", "x")): 1.0}
