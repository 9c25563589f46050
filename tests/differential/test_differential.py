"""A thousand random queries against a real Prometheus; `make differential` asks a hundred thousand."""

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from precompute.evaluate.aggregate import OPERATORS
from precompute.evaluate.functions import FUNCTIONS
from query.promql.parse import parse
from tests.differential.grammar import RENAMED, Grammar
from tests.differential.known import NEW_SINCE, Case, reason_for
from tests.differential.outcomes import Asked, Outcome, differences
from tests.differential.run import Tally, compare
from tests.differential.world import LENGTH_MS, World, draw
from tests.running import drawn_seed

QUERIES = 1000
MOMENTS = (1_764_500_000_950, 1_764_500_600_950)


@pytest.mark.e2e
def test_a_thousand_random_queries_are_answered_as_prometheus_answers_them(
    prometheus_binary: str, tmp_path: Path
) -> None:
    seed = drawn_seed()
    tally = Tally()
    for _ in compare(prometheus_binary, tmp_path, seed, QUERIES, tally):
        pass
    assert not tally.wrong, f"seed {seed}:\n" + "\n".join(tally.wrong[:20])
    assert not tally.lacking, f"not known to the evaluator: {tally.lacking}"
    assert tally.outcomes["answers"] > QUERIES / 2, f"most queries should find something: {tally.outcomes}"


def test_the_grammar_draws_every_function_and_operator_of_its_version() -> None:
    drawn = _words(10_000)
    known = {*FUNCTIONS, *OPERATORS, "and", "or", "unless", "atan2", "group_left", "group_right", "offset", "bool"}
    assert not {name for name in known - NEW_SINCE if drawn[name] < 3}


def test_nothing_is_said_to_be_newer_that_the_grammar_draws() -> None:
    assert not _words(10_000).keys() & (NEW_SINCE - {"start", "end"}), "those two also stand after @"


def test_every_query_drawn_is_one() -> None:
    grammar = Grammar(Random(3), MOMENTS)
    for _ in range(2000):
        parse(_translated(grammar.instant()))


def test_no_sample_lies_on_the_edge_of_a_range_of_whole_seconds() -> None:
    world = draw(Random(4), 0)
    fractions = {t % 1000 for samples in world.values() for t, _ in samples}
    assert min(fractions) > 0
    assert max(fractions) < 950
    assert max(t for samples in world.values() for t, _ in samples) <= LENGTH_MS + 1000


@pytest.mark.parametrize(
    ("first_s", "value", "differs"),
    [(60, 10.0, True), (60, 2.0, False), (60, 30.0, False), (10, 10.0, False)],
    ids=["zero a whole interval before", "zero near", "zero long before", "no gap at the start"],
)
def test_only_counters_that_were_zero_about_an_interval_ago_are_known_to_differ(
    first_s: int, value: float, differs: bool
) -> None:
    """A counter that grows by 10 every 15 s, whose first sample lies that far behind the window's start."""
    samples = [(first_s * 1000 + k * 15_000, value + 10 * k) for k in range(4)]
    world: World = {(("__name__", "c_total"),): samples}
    asked = Asked("rate(c_total[5m])", 300_000, 300_000, 0)
    case = Case(asked, parse(asked.text), world, Outcome(), Outcome())
    assert bool(reason_for(case)) == differs


@pytest.mark.parametrize(("value", "differs"), [(1000.0000000000001, True), (1001.0, False)])
def test_only_a_mean_about_the_number_it_is_compared_with_is_known_to_differ(value: float, differs: bool) -> None:
    asked = Asked("avg_over_time(g[10m]) > 1000", 0, 0, 0)
    case = Case(asked, parse(asked.text), {}, _outcome({}), _outcome({"a": value}))
    assert bool(reason_for(case)) == differs


@pytest.mark.parametrize(
    ("text", "ours", "theirs", "alike"),
    [
        ("g", {"a": 1.0}, {"a": 1.0 + 1e-12}, True),
        ("g", {"a": 1.0}, {"a": 1.001}, False),
        ("g", {"a": 1.0}, {"b": 1.0}, False),
        ("g", {"a": float("nan")}, {"a": float("nan")}, True),
        ("topk(1, g)", {"a": 1.0}, {"b": 1.0}, True),
        ("topk(1, g)", {"a": 1.0}, {"b": 2.0}, False),
        ("sort(g)", {"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, False),
    ],
)
def test_answers_are_alike_in_labels_values_and_where_asked_for_in_order(
    text: str, ours: dict[str, float], theirs: dict[str, float], alike: bool
) -> None:
    here, there = (_outcome(values) for values in (ours, theirs))
    assert (not differences(Asked(text, 0, 0, 0), here, there)) == alike


def test_an_error_on_one_side_alone_is_a_difference() -> None:
    failed = Outcome("execution", "many-to-many")
    asked = Asked("g", 0, 0, 0)
    assert differences(asked, failed, _outcome({}))
    assert not differences(asked, failed, Outcome("execution", "in other words"))


def _outcome(values: dict[str, float]) -> Outcome:
    points = {((("i", name),), 0): value for name, value in values.items()}
    return Outcome(kind="vector", points=points, order=tuple(values.values()))


def _words(queries: int) -> Counter[str]:
    grammar = Grammar(Random(1), MOMENTS)
    return Counter(word for _ in range(queries) for word in re.findall(r"[a-z_0-9]+", _translated(grammar.instant())))


def _translated(text: str) -> str:
    for old, new in RENAMED.items():
        text = text.replace(f"{old}(", f"{new}(")
    return text
