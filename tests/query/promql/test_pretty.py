"""Queries told back: as a tree and formatted, both as Prometheus does it."""

import pytest

from precompute.errors import BadExpression, LimitExceeded, Unsupported
from query.promql.parse import MAX_DEPTH, parse
from query.promql.pretty import pretty
from query.promql.tree import tree_of
from tests.e2e.expressions import FROM_SUMMARIES, FROM_THE_HEAD

LONG = "m" * 101


def formatted(text: str) -> str:
    return pretty(tree_of(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("foo/bar", "foo / bar"),
        ("sum (rate(x{z='1',a=~'b'}[90s])) without (i,g)", 'sum without (i, g) (rate(x{a=~"b",z="1"}[1m30s]))'),
        ("sum by() (m)", "sum(m)"),
        ("sum without() (m)", "sum without () (m)"),
        ("quantile(0.9,m)", "quantile(0.9, m)"),
        ("a*on(x,y)group_left(z)b", "a * on (x, y) group_left (z) b"),
        ("a*ignoring()b", "a * b"),
        ("a * on() b", "a * on () b"),
        ("a > bool b", "a > bool b"),
        ("a + fill(1000000) b", "a + fill (1e+06) b"),
        ("a + fill_left(0.5) fill_right(1e-5) b", "a + fill_left (0.5) fill_right (1e-05) b"),
        ("((a))", "((a))"),
        ("-(a)", "-(a)"),
        ("m offset 7d", "m offset 1w"),
        ("m offset 8d", "m offset 8d"),
        ("m[365d:1m] @ end() offset -90m", "m[1y:1m] @ end() offset -1h30m"),
        ("m @ 1.5", "m @ 1.500"),
        ("max_over_time(m[5m:])", "max_over_time(m[5m:])"),
        ("1e3+0x1F", "1000 + 31"),
        ("-Inf", "-Inf"),
        ('"é\\n\\x01\\""', '"é\\n\\x01\\""'),
        ('{"foo.bar", "b-c"="d"}', '{"b-c"="d",__name__="foo.bar"}'),
        ('sum by ("b-c") (m)', 'sum by ("b-c") (m)'),
        ("m # a comment", "m"),
    ],
)
def test_a_short_query_is_one_line(text: str, expected: str) -> None:
    assert formatted(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LONG, LONG),
        (f"sum by (a) ({LONG})", f"sum by (a) (\n  {LONG}\n)"),
        (f"topk(10, {LONG})", f"topk(\n  10,\n  {LONG}\n)"),
        (f"rate({LONG}[5m])", f"rate(\n  {LONG}[5m]\n)"),
        (f"({LONG})", f"(\n  {LONG}\n)"),
        (f"-(({LONG}))", f"-(\n  (\n    {LONG}\n  )\n)"),
        (f"a + on (b) {LONG}", f"  a\n+ on (b)\n  {LONG}"),
        (f"sum(a + {LONG})", f"sum(\n    a\n  +\n    {LONG}\n)"),
        (f"round({LONG}, 0.1)", f"round(\n  {LONG},\n  0.1\n)"),
        (f"sum({LONG})[5m:]", f"sum(\n  {LONG}\n)[5m:]"),
        ("m" * 90 + ' + {a="éééé"}', "  " + "m" * 90 + '\n+\n  {a="éééé"}'),
    ],
)
def test_a_line_of_more_than_100_bytes_is_broken(text: str, expected: str) -> None:
    assert formatted(text) == expected


@pytest.mark.parametrize("text", FROM_SUMMARIES + FROM_THE_HEAD)
def test_a_formatted_query_means_the_same_and_stays_as_it_is(text: str) -> None:
    once = formatted(text)
    assert parse(once) == parse(text)
    assert formatted(once) == once


def test_a_selector_is_told_as_prometheus_tells_it() -> None:
    name = {"name": "__name__", "type": "=", "value": "m"}
    assert tree_of('m{b="1",a!~"2"} @ 1.5 offset 5m') == {
        "type": "vectorSelector",
        "name": "m",
        "matchers": [{"name": "b", "type": "=", "value": "1"}, {"name": "a", "type": "!~", "value": "2"}, name],
        "offset": 300_000,
        "offsetExpr": None,
        "timestamp": 1500,
        "startOrEnd": None,
        "anchored": False,
        "smoothed": False,
    }


def test_a_call_tells_its_function() -> None:
    told = tree_of("round(m)")
    assert told["func"] == {
        "name": "round", "argTypes": ["vector", "scalar"], "variadic": 1, "returnType": "vector"
    }  # fmt: skip
    assert [arg["name"] for arg in told["args"]] == ["m"]


def test_an_aggregation_keeps_the_order_of_its_labels() -> None:
    told = tree_of("topk by (b, a) (3, m)")
    assert (told["type"], told["op"], told["grouping"], told["without"]) == ("aggregation", "topk", ["b", "a"], False)
    assert told["param"] == {"type": "numberLiteral", "val": "3"}
    assert tree_of("sum(m)")["param"] is None


def test_only_two_vectors_are_matched() -> None:
    nothing = {"lhs": None, "rhs": None}
    plain = {"card": "one-to-one", "labels": [], "on": False, "include": [], "fillValues": nothing}
    assert tree_of("a + b")["matching"] == plain
    assert tree_of("a and b")["matching"] == {**plain, "card": "many-to-many"}
    assert tree_of("a * on (x) group_right (y) b")["matching"] == {
        **plain, "card": "one-to-many", "labels": ["x"], "on": True, "include": ["y"]
    }  # fmt: skip
    assert tree_of("a + 1")["matching"] is tree_of("1 + (2)")["matching"] is tree_of("time() + 1")["matching"] is None
    assert tree_of("a > bool 1")["bool"] is True


def test_what_is_wrong_or_too_deep_or_not_known_is_told_as_when_it_is_evaluated() -> None:
    for text, error in (("m[", BadExpression), ("(" * 101, LimitExceeded), ("m anchored", Unsupported)):
        with pytest.raises(error):
            tree_of(text)
    deepest = "abs(" * (MAX_DEPTH - 1) + "m" + ")" * (MAX_DEPTH - 1)
    assert formatted(deepest).replace("\n", "").replace(" ", "") == deepest
