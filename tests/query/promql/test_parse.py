"""From PromQL to expressions and back."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import BadExpression, QueryError, Unsupported
from precompute.evaluate.expr import (
    COMPARISONS,
    SET_OPERATORS,
    Aggregate,
    Binary,
    Call,
    Expr,
    Matcher,
    Matching,
    Negate,
    Number,
    Range,
    Selector,
    String,
    Subquery,
)
from precompute.evaluate.types import type_of
from precompute.labels import METRIC_NAME
from query.promql.parse import parse, parse_selector

CORPUS = Path(os.environ.get("CORPUS_DIR", Path(__file__).parents[4] / "shared" / "corpus")) / "dashboard_queries.jsonl"


def named(metric: str, *matchers: Matcher, **rest: object) -> Selector:
    return Selector(tuple(sorted((Matcher(METRIC_NAME, "=", metric), *matchers))), **rest)  # type: ignore[arg-type]


UP = named("up")


def test_it_works() -> None:
    rate = Call("rate", (Range(named("c_total", Matcher("job", "!=", "test")), 300_000),))
    assert parse('sum by (job, code) (rate(c_total{job!="test"}[5m]))') == Aggregate("sum", rate, ("code", "job"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("up", UP),
        ("(up)", UP),
        ("+up", UP),
        ("-up", Negate(UP)),
        ("-1", Number(-1)),
        ("5m", Number(300)),
        ("0x1F", Number(31)),
        ('"a\\nb"', String("a\nb")),
        ("'it\\'s'", String("it's")),
        ("`a\\nb`", String("a\\nb")),
        ('"\\xc3\\xa9\\u00e9\\351"'.replace("\\351", "\\303\\251"), String("ééé")),
        ('{"metric.name", a="b"}', named("metric.name", Matcher("a", "=", "b"))),
        ('up{"a.b"="c"}', named("up", Matcher("a.b", "=", "c"))),
        ('up{or="x",bool!="y"}', named("up", Matcher("bool", "!=", "y"), Matcher("or", "=", "x"))),
        ('{a!=""}', Selector((Matcher("a", "!=", ""),))),
        ('{a!~".*"}', Selector((Matcher("a", "!~", ".*"),))),
        ('{a=~"[[]"}', Selector((Matcher("a", "=~", "[[]"),))),
        ("up[300]", Range(UP, 300_000)),
        ("up[1h30m]", Range(UP, 5_400_000)),
        ("up offset -5m", named("up", offset_ms=-300_000)),
        ("up offset 0s", UP),
        ("rate(up[5m] offset -0)", Call("rate", (Range(UP, 300_000),))),
        ("offset - 0", Binary("-", named("offset"), Number(0))),
        ("up @ 10.5", named("up", at=10_500)),
        ("up @ -10.1234", named("up", at=-10_123)),
        ("up[5m] @ start() offset 1m", Range(named("up", at="start", offset_ms=60_000), 300_000)),
        ("up # sum(((", UP),
        ("-1 ^ 2", Negate(Binary("^", Number(1), Number(2)))),
        ("2 ^ 3 ^ 2", Binary("^", Number(2), Binary("^", Number(3), Number(2)))),
        ("up == bool 3", Binary("==", UP, Number(3), True)),
        ("up + on () 1", Binary("+", UP, Number(1))),
        ('sum without ("a b", a) (up)', Aggregate("sum", UP, ("a", "a b"), True)),
        ("topk(3, up)", Aggregate("topk", UP, parameter=Number(3))),
        ("up * on (a) group_right (c, b) up", Binary("*", UP, UP, False, Matching(True, ("a",), "right", ("b", "c")))),
        ("up[5m:1m]", Subquery(UP, 300_000, 60_000)),
        ("rate(up[5m:])", Call("rate", (Subquery(UP, 300_000),))),
        ("up[5m:] @ end() offset -1m", Subquery(UP, 300_000, None, -60_000, "end")),
        ("up @ 1m40s", named("up", at=100_000)),
        ("up @ -1m", named("up", at=-60_000)),
        ("up + fill (0) up", Binary("+", UP, UP, False, Matching(fill_left=Number(0), fill_right=Number(0)))),
        ("up + fill_right (1) up", Binary("+", UP, UP, False, Matching(fill_right=Number(1)))),
        ('info(up, {a=~".*"})', Call("info", (UP, named("target_info", Matcher("a", "=~", ".*"))))),
        ("up and ignoring (a) up", Binary("and", UP, UP, False, Matching(False, ("a",)))),
    ],
)
def test_a_text_is_read_as_prometheus_reads_it(text: str, expected: Expr) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["up / {}", "clamp_min(up, {})", "quantile({}, up)", "up + fill ({}) up"])
def test_expressions_are_equal_where_they_mean_the_same_number(text: str) -> None:
    zero, below, nan = (text.format(number) for number in ("0", "-0", "NaN"))
    assert parse(zero) != parse(below), "divided by, they differ"
    assert len({parse(one) for one in (zero, zero, below, below, nan, nan)}) == 3
    assert all(parse(str(parse(one))) == parse(one) for one in (zero, below, nan))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "parse error: no expression found in input"),
        ("sum by (a) up", "parse error: invalid promql query"),
        ("foo(up)", 'parse error: unknown function with name "foo"'),
        ("rate(up)", 'parse error: expected type range vector in call to function "rate", got instant vector'),
        ("log2(-0.5)", 'parse error: expected type instant vector in call to function "log2", got scalar'),
        ("{}", "parse error: vector selector must contain at least one non-empty matcher"),
        ('{a=~".*",b!="c"}', "parse error: vector selector must contain at least one non-empty matcher"),
        ('up{"__name__"="down"}', 'parse error: metric name must not be set twice: "up" or "down"'),
        ('up{a="b" or c="d"}', 'parse error: unexpected "or" in label matching, expected "," or "}"'),
        ('up{a=~"("}', "error parsing regexp: missing ): ("),
        ('up{a=~"(?=b)"}', "error parsing regexp: invalid perl operator: (?="),
        ("up + fill (1) 2", "parse error: filling in missing series only allowed between instant vectors"),
        ("up and fill (1) up", "parse error: filling in missing series not allowed for set operators"),
        ("1 > 1", "parse error: comparisons between scalars must use BOOL modifier"),
        ("up + bool up", "parse error: bool modifier can only be used on comparison operators"),
        ("up and 1", 'parse error: set operator "and" not allowed in binary scalar expression'),
        (
            'up + on ("a") group_left (a) up',
            'parse error: label "a" must not occur in ON and GROUP clause at once',
        ),
        ("up[5m] + 1", "parse error: binary expression must contain only scalar and instant vector types"),
        ("up offset 5m offset 5m", "parse error: offset may not be set multiple times"),
        ("up[0.0001]", "parse error: duration must be greater than 0"),
        ("up[300y]", "parse error: duration out of range"),
        ("up[1e300]", "parse error: duration out of range"),
        ("up[5m:1e300]", "parse error: duration out of range"),
        ("up offset 1e300", "parse error: duration out of range"),
        ("up offset -inf", "parse error: duration out of range"),
        ("up offset NaN", "parse error: duration out of range"),
        ("up offset 300y", "parse error: duration out of range"),
        ("up @ 1e300", "parse error: timestamp out of bounds for @ modifier: "),
        ("up @ NaN", "parse error: timestamp out of bounds for @ modifier: nan"),
        ('"\\xff"', "parse error: a string literal is not valid UTF-8"),
        ('"\\q"', "parse error: unknown escape sequence \\q in a string literal"),
        ('"a\nb"', "parse error: unterminated quoted string"),
        ('up{a="b', "parse error: unterminated quoted string"),
    ],
)
def test_what_is_no_promql_is_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(BadExpression) as refused:
        parse(text)
    assert message in str(refused.value)


def test_match_takes_a_selector_and_nothing_else() -> None:
    assert parse_selector('up{job="a"}') == (Matcher(METRIC_NAME, "=", "up"), Matcher("job", "=", "a"))
    for text in ("up offset 5m", "up @ 3", "rate(up[5m])", "1", "{}"):
        with pytest.raises(BadExpression):
            parse_selector(text)


PLAIN = st.sampled_from(["up", "x:y", "node_load1", "m"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = st.one_of(st.sampled_from(["a", "job", "le"]), TEXTS.filter(lambda t: t not in ("", METRIC_NAME)))
NUMBERS = st.floats(0, allow_nan=False, allow_infinity=False).map(lambda x: Number(abs(x)))
DURATIONS_MS = st.integers(1, 10**12)
TIMES = st.one_of(st.none(), st.sampled_from(["start", "end"]), st.integers(-(10**13), 10**13))
MATCHERS = st.one_of(
    st.builds(Matcher, NAMES, st.sampled_from(["=", "!="]), TEXTS),
    st.builds(Matcher, NAMES, st.sampled_from(["=~", "!~"]), st.sampled_from(["", ".*", "a|b", "\\d+", "[[]", "\\."])),
)


@st.composite
def selectors(draw: st.DrawFn) -> Selector:
    matchers = {Matcher(METRIC_NAME, "=", draw(PLAIN)), *draw(st.lists(MATCHERS, max_size=2))}
    return Selector(tuple(sorted(matchers)), draw(st.integers(-(10**12), 10**12)), draw(TIMES))


RANGED = st.builds(Range, selectors(), DURATIONS_MS)
LABELS = st.sets(NAMES, max_size=2).map(lambda names: tuple(sorted(names)))


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    vectors = inner.filter(lambda e: type_of(e) == "vector")
    return st.one_of(
        st.builds(Negate, vectors),
        st.builds(lambda f, e: Call(f, (e,)), st.sampled_from(["abs", "sort", "scalar"]), vectors),
        st.builds(Aggregate, st.sampled_from(["sum", "count", "min"]), vectors, LABELS, st.just(True)),
        st.builds(Aggregate, st.sampled_from(["quantile", "topk"]), vectors, LABELS, st.just(False), NUMBERS),
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "%", "^", "atan2"]), inner, inner),
        st.builds(Binary, st.sampled_from(sorted(COMPARISONS)), inner, inner, st.just(True)),
        st.builds(Binary, st.sampled_from(sorted(SET_OPERATORS)), vectors, vectors, st.just(False), _matching("")),
        st.builds(Binary, st.just("*"), vectors, vectors, st.just(False), _matching("left", "right")),
    )


@st.composite
def _matching(draw: st.DrawFn, *groups: str) -> Matching:
    group, on = draw(st.sampled_from(groups)), draw(st.booleans())
    labels, include = draw(LABELS), draw(LABELS) if group else ()
    return Matching(on, labels, group, tuple(name for name in include if not on or name not in labels))


EXPRESSIONS = st.recursive(
    st.one_of(selectors(), NUMBERS, st.builds(lambda r: Call("rate", (r,)), RANGED)), _grown, max_leaves=6
)


@given(EXPRESSIONS)
def test_an_expressions_text_reads_back_as_the_same(expr: Expr) -> None:
    assert parse(str(expr)) == expr


def corpus() -> Iterator[str]:
    with CORPUS.open() as lines:
        yield from (json.loads(line)["expr"] for line in lines)


@pytest.mark.skipif(not CORPUS.is_file(), reason=f"no corpus of dashboard queries at {CORPUS}")
def test_what_dashboards_ask_is_read_and_reads_back_as_the_same() -> None:
    unsupported = 0
    for text in corpus():
        try:
            expr = parse(text)
        except Unsupported:
            unsupported += 1
        else:
            assert parse(str(expr)) == expr, text
    assert unsupported < 300


@given(st.text(alphabet="up{}[]()=~!\"'`\\#@,:-+*/^<>abc05.mse \n\x00é", max_size=40))
def test_no_text_ends_in_anything_but_an_expression_or_a_query_error(text: str) -> None:
    with contextlib.suppress(QueryError):
        assert isinstance(parse(text), Expr)


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("rate(up[5m] smoothed)", "anchored and smoothed selectors"),
        ("up </ 3", "histogram trim operators"),
        ("up[5m * 2]", "arithmetic of durations"),
        ("up offset (1m + 2m)", "arithmetic of durations"),
    ],
)
def test_right_promql_that_the_parser_does_not_know_is_named(text: str, feature: str) -> None:
    with pytest.raises(Unsupported) as missing:
        parse(text)
    assert missing.value.feature == feature


def test_a_word_in_a_string_is_no_feature() -> None:
    with pytest.raises(BadExpression):
        parse('up{a="smoothed </ [1+2]"')
