"""From matchers to series: regular expressions, absent labels, and selections that grow with the table."""

from random import Random

import numpy as np
import pytest

from precompute.errors import BadExpression
from precompute.evaluate.expr import Matcher
from precompute.labels import Labels, SeriesTable
from precompute.matchers import Condition, accepts_everything, compile_regex
from precompute.selection import Index
from tests.reference.promql import accepts

VALUES = ("a", "b", "ab", "a.b", "", "A", "a\nb", "ü")
PATTERNS = ("a", "a.*", ".*", ".+", "", "a|b", "|a", "(?i)a", "[ab]+", "a.b", "ü", "b$", "^a", ".*b")


def matchers(random: Random) -> tuple[Matcher, ...]:
    drawn = []
    for name in random.sample(("__name__", "x", "y", "nosuch"), random.randint(1, 3)):
        op = random.choice(("=", "!=", "=~", "!~"))
        drawn.append(Matcher(name, op, random.choice(VALUES if op in ("=", "!=") else PATTERNS)))
    return tuple(drawn)


def label_set(random: Random) -> Labels:
    pairs = {"__name__": random.choice(("a", "b")), "x": random.choice(VALUES), "y": random.choice(VALUES)}
    pairs["i"] = str(random.randrange(1000))
    return tuple(sorted((n, v) for n, v in pairs.items() if v))


@pytest.mark.parametrize("seed", range(20))
def test_selections_that_grow_with_the_table_are_as_fresh_ones_and_as_the_labels_say(seed: int) -> None:
    random, table, index = Random(seed), SeriesTable(hash_seed=seed), Index()
    asked = [matchers(random) for _ in range(12)]
    for _ in range(4):
        for _ in range(random.randrange(60)):
            table.intern(label_set(random))
        for wanted in asked:
            kept = index.select(wanted, table, len(table))
            fresh = Index().select(wanted, table, len(table))
            right = [i for i in range(len(table)) if all(accepts(m, dict(table.labels_of(i))) for m in wanted)]
            assert sorted(kept.sids.tolist()) == right
            assert kept.sids.tolist() == fresh.sids.tolist() == table.in_hash_order(np.array(right, np.int32)).tolist()
            assert [kept.frame.labels(k) for k in range(len(kept))] == [table.labels_of(s) for s in kept.sids.tolist()]
            assert kept.shard.tolist() == table.shard_of(kept.sids).tolist()


def test_only_series_with_a_place_in_the_head_are_selected() -> None:
    table, index = SeriesTable(), Index()
    for i in range(10):
        table.intern((("__name__", "m"), ("i", str(i))))
    wanted = (Matcher("__name__", "=", "m"),)
    assert len(index.select(wanted, table, 4)) == 4
    assert len(index.select(wanted, table, 10)) == 10


def test_a_new_table_is_selected_from_anew() -> None:
    index, wanted = Index(), (Matcher("__name__", "=", "m"),)
    for size in (5, 3):
        table = SeriesTable()
        for i in range(size):
            table.intern((("__name__", "m"), ("i", str(i))))
        chosen = index.select(wanted, table, size)
        assert len(chosen) == size
        assert chosen.table is table


def test_an_absent_label_is_the_empty_string() -> None:
    assert Condition(Matcher("x", "=", "")).accepts("")
    assert not Condition(Matcher("x", "!=", "")).accepts("")
    assert Condition(Matcher("x", "=~", "|a")).accepts("")
    assert Condition(Matcher("x", "!~", "a+")).accepts("")


def test_regular_expressions_are_anchored_and_the_dot_takes_newlines() -> None:
    regex = Condition(Matcher("x", "=~", "a|b.c"))
    assert [regex.accepts(v) for v in ("a", "b\nc", "ab.c", "xa", "ax", "b\nc\n")] == [True, True] + [False] * 4


def test_a_regular_expression_that_would_explode_takes_linear_time_or_is_refused() -> None:
    assert not Condition(Matcher("x", "=~", "(a*)*b")).accepts("a" * 100_000)
    with pytest.raises(BadExpression, match="error parsing regexp"):
        compile_regex("((a{1000}){1000}){1000}")


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?=a)", "\\1", "[", "*"])
def test_what_is_no_re2_expression_is_a_bad_expression(pattern: str) -> None:
    with pytest.raises(BadExpression, match="error parsing regexp"):
        Condition(Matcher("x", "=~", pattern))


@pytest.mark.parametrize("pattern", (*PATTERNS, "(.*)", "^.*$", ".*?", "|.*", ".*|", "(|.*)", "(.*|)"))
@pytest.mark.parametrize("op", ["=", "!=", "=~", "!~"])
def test_a_matcher_said_to_accept_everything_does(op: str, pattern: str) -> None:
    matcher = Matcher("x", op, pattern)
    if accepts_everything(matcher):
        assert all(Condition(matcher).accepts(v) for v in VALUES)


def test_selections_are_kept_up_to_a_bound_in_bytes_and_the_newest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    table, index = SeriesTable(), Index()
    for i in range(1000):
        table.intern((("__name__", "m"), ("i", str(i))))
    asked = [(Matcher("__name__", "=", "m"), Matcher("x", "!=", str(k))) for k in range(20)]
    one = index.select(asked[0], table, 1000).size_bytes()
    monkeypatch.setattr("precompute.selection._KEPT_BYTES", 5 * one)
    for wanted in asked:
        index.select(wanted, table, 1000)
    assert list(index._kept) == asked[-5:]
