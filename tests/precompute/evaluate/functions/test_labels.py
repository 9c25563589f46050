"""label_replace and label_join."""

import pytest

from precompute.errors import ExecutionError, LimitExceeded
from precompute.evaluate.context import Features
from precompute.evaluate.functions.expand import Template
from precompute.evaluate.limits import Limits
from precompute.matchers import compile_regex
from tests.precompute.evaluate.functions.asked import Asked, rows

SERIES = {'x{src="a-1",z="q"}': [1], 'x{src="b-2"}': [2], "x": [3]}


@pytest.mark.parametrize(
    ("replacement", "text"),
    [
        ("$1", "ab"), ("${1}x", "abx"), ("$1x", ""), ("$word-$2", "ab-"), ("$$1", "$1"), ("$", "$"), ("a$", "a$"),
        ("$ 1", "$ 1"), ("${1", "${1"), ("${}", "${}"), ("$9", ""), ("$01", ""), ("$0", "ab7"), ("$nobody", ""),
        ("${1}${3}", "ab7"), ("$123456789012", ""), ("$1_", ""), ("$1.é", "ab.é"),
    ],
)  # fmt: skip
def test_templates_are_gos(replacement: str, text: str) -> None:
    regex = compile_regex("(?P<word>[a-z]+)(_)?([0-9])")
    assert "".join(Template(replacement, regex).pieces(regex.fullmatch("ab7"))) == text


def test_only_a_match_of_the_whole_value_replaces() -> None:
    assert rows(SERIES, 'label_replace(x, "dst", "<$1>", "src", "([a-z])-1")', 0) == {
        "__name__=x,dst=<a>,src=a-1,z=q": [1], "__name__=x,src=b-2": [2], "__name__=x": [3]
    }  # fmt: skip


def test_an_absent_source_is_the_empty_text() -> None:
    assert rows(SERIES, 'label_replace(x, "dst", "none", "src", "")', 0)["__name__=x,dst=none"] == [3]


def test_an_empty_replacement_takes_the_label_away() -> None:
    assert "__name__=x,src=a-1" in rows(SERIES, 'label_replace(x, "z", "", "z", ".*")', 0)


def test_the_dot_matches_newlines() -> None:
    assert rows({'x{a="1\\n2"}': [1]}, 'label_replace(x, "a", "$1", "a", "1(.)2")', 0) == {"__name__=x,a=\n": [1]}


def test_the_metric_name_may_be_made_anew() -> None:
    text = 'label_replace(abs(x), "__name__", "new_$1", "src", "(.).*")'
    right = {"__name__=new_a,src=a-1,z=q": [1], "__name__=new_b,src=b-2": [2]}
    for delayed in (False, True):
        got = Asked(SERIES, text, 0, features=Features(delayed_name_removal=delayed)).rows()
        assert {labels: got[labels] for labels in right} == right and len(got) == 3


def test_rows_that_become_one_must_not_meet() -> None:
    series = {'x{a="1"}': [1, None], 'x{a="2"}': [None, 2]}
    text = 'label_replace(x, "a", "", "a", ".*")'
    assert Asked(series, text, 0).rows() == {"__name__=x": [1]}
    with pytest.raises(ExecutionError, match="same labelset"):
        Asked(series, text, 10)


def test_join_puts_the_separator_between_all() -> None:
    assert rows({'x{a="1",c="3"}': [1]}, 'label_join(x, "d", "-", "a", "b", "c")', 0) == {
        "__name__=x,a=1,c=3,d=1--3": [1]
    }
    assert rows({'x{a="1"}': [1]}, 'label_join(x, "a", "-")', 0) == {"__name__=x": [1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('label_replace(x, "d", "", "s", "(a")', r"invalid regular expression in label_replace\(\): \(a"),
        ('label_replace(x, "", "", "s", "a")', r"invalid destination label name in label_replace\(\): "),
        ('label_join(x, "", "", "s")', r"invalid destination label name in label_join\(\): "),
        ('label_join(x, "d", "", "")', r"invalid source label name in label_join\(\): "),
    ],
)
def test_wrong_arguments_are_named(text: str, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        Asked(SERIES, text, 0)


def test_texts_are_bounded_before_they_are_made() -> None:
    bomb = "$1" * 20_000
    with pytest.raises(LimitExceeded, match="label values of more than 1000000 bytes"):
        Asked({'x{s="' + "y" * 10_000 + '"}': [1]}, f'label_replace(x, "d", "{bomb}", "s", "(.*)")', 0,
              limits=Limits(max_matrix_bytes=1_000_000))  # fmt: skip
