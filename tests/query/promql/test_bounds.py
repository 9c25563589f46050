"""Texts that would end the parser, or take for ever, are refused before it sees them."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from precompute.errors import LimitExceeded, QueryError
from query.promql.parse import MAX_DEPTH, MAX_LENGTH, parse

ROOT = Path(__file__).parents[3]

DEEP = {
    "parentheses": ("(", "x", ")"),
    "signs": ("-", "x", ""),
    "spaced signs": ("- ", "x", ""),
    "calls": ("abs(", "x", ")"),
    "aggregations": ("sum(", "x", ")"),
    "sums": ("x+", "x", ""),
    "powers": ("x^", "x", ""),
    "comparisons": ("x == ", "x", ""),
    "unions": ("x or ", "x", ""),
    "mixed": ("-(1+", "x", ")"),
    "nested sums": ("1+(", "x", ")"),
    "braces": ("{", "x", "}"),
    "brackets": ("[", "x", "]"),
    "subqueries": ("abs(", "x", "[5m:])"),
    "unclosed": ("(", "", ""),
    "groupings": ("sum by (a) (", "x", ")"),
}


def deep(shape: str, times: int) -> str:
    before, middle, after = DEEP[shape]
    return before * times + middle + after * times


@pytest.mark.parametrize("times", [1_000, 100_000])
@pytest.mark.parametrize("shape", DEEP)
def test_a_deep_text_is_refused(shape: str, times: int) -> None:
    with pytest.raises(QueryError):
        parse(deep(shape, times), max_length=10**7)


def test_a_process_survives_all_of_them() -> None:
    script = (
        "import sys\n"
        "from precompute.errors import QueryError\n"
        "from query.promql.parse import parse\n"
        "from tests.query.promql.test_bounds import DEEP, deep\n"
        "for shape in DEEP:\n"
        "    for length in (1 << 16, 10**7):\n"
        "        try: parse(deep(shape, 20_000), max_length=length)\n"
        "        except QueryError: pass\n"
        "        else: sys.exit(shape)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("shape", ["parentheses", "signs", "calls", "sums", "unions", "nested sums", "groupings"])
def test_the_deepest_allowed_text_fits_a_small_stack(shape: str) -> None:
    read: list[str] = []
    limit_before = threading.stack_size(512 << 10)
    try:
        times = MAX_DEPTH // (2 if shape in ("nested sums", "groupings") else 1)
        reader = threading.Thread(target=lambda: read.append(str(parse(deep(shape, times)))))
        reader.start()
    finally:
        threading.stack_size(limit_before)
    reader.join()
    assert read


def test_one_level_more_than_allowed_is_refused() -> None:
    assert parse(deep("parentheses", MAX_DEPTH))
    with pytest.raises(LimitExceeded, match="deeper than 100 levels"):
        parse(deep("parentheses", MAX_DEPTH + 1))
    with pytest.raises(LimitExceeded, match="deeper than 3 levels"):
        parse("((((x))))", max_depth=3)


def test_brackets_in_strings_and_comments_are_not_nested() -> None:
    assert parse('x{a="' + "(" * 500 + '"} # ' + "(" * 500)
    assert parse("label_replace(x, 'a', `" + "-" * 500 + "`, 'b', 'c')")


def test_depth_is_that_of_the_deepest_argument_not_of_all_together() -> None:
    argument = "-" * 60 + "1"
    assert parse(f"clamp(x, {argument}, {argument})")


def test_a_long_text_is_refused() -> None:
    with pytest.raises(LimitExceeded, match=f"the limit is {MAX_LENGTH}"):
        parse("x" * (MAX_LENGTH + 1))


@pytest.mark.parametrize("unit", ['b="c",', "a ", ") ", '"a" ', "a{b='c'} ", "1 ", "'", "\\", "[5m]", " offset 5m"])
def test_a_long_text_ends_soon(unit: str) -> None:
    text = ("x{" + unit * 9_000)[:MAX_LENGTH]
    with pytest.raises(QueryError):
        parse(text)
