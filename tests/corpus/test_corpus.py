"""Three hundred of the dashboards' expressions against a real Prometheus; `make corpus` asks them all."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from precompute.evaluate.expr import Matcher, selectors
from query.promql.parse import parse
from tests.corpus.drawing import Series, draw
from tests.corpus.patterns import accepted, texts
from tests.corpus.reading import Question, filled, questions
from tests.corpus.run import Tally, compare
from tests.corpus.worlds import LENGTH_MS, Place, apart
from tests.running import drawn_seed

EXPRESSIONS = 300
ANSWERED = 0.9
START_MS = 1_764_500_000_000


@pytest.mark.e2e
def test_three_hundred_expressions_of_dashboards_are_answered_as_prometheus_answers_them(
    prometheus_binary: str, corpus_dir: Path, tmp_path: Path
) -> None:
    seed = drawn_seed()
    tally = Tally()
    chosen = Random(seed).sample(questions(corpus_dir), EXPRESSIONS)
    for _ in compare(prometheus_binary, tmp_path, seed, chosen, tally):
        pass
    assert not tally.wrong, f"seed {seed}:\n" + "\n".join(tally.wrong.values())
    assert len(tally.asked) == EXPRESSIONS
    assert len(tally.answered) > ANSWERED * EXPRESSIONS, f"most expressions should find something: {tally}"


def drawn(text: str) -> Series:
    return draw(parse(text), Random(5), START_MS / 1000)


def found(series: Series, text: str, place: int = 0) -> list[dict[str, str]]:
    """The label sets that one of an expression's selectors finds."""
    selector = selectors(parse(text))[place]
    labels = [dict(pairs) for pairs in series]
    return [one for one in labels if all(accepted([m], [one.get(m.name, "")]) for m in selector.matchers)]


@pytest.mark.parametrize(
    "pattern",
    [
        "5..", "VAR|.*", "(VAR)/(ingester.*|partition-ingester.*)", "(G1 |PS )?Eden Space", "[a-z]+-[0-9]{3}",
        "(VAR)([\\\\.:].*)?", "1(\\.0)?", ".+", "",
    ],
)  # fmt: skip
def test_some_strings_of_a_pattern_are_found_and_all_match(pattern: str) -> None:
    matcher = Matcher("x", "=~", pattern)
    assert texts(matcher)
    assert accepted([matcher], texts(matcher)) == texts(matcher)


def test_every_selector_finds_several_series_and_there_are_others_beside_it() -> None:
    text = 'sum by (job) (rate(x_total{code=~"5..",job!="a"}[5m])) / sum by (job) (rate(y_total{job!="a"}[5m]))'
    series = drawn(text)
    for place in (0, 1):
        assert len(found(series, text, place)) > 4
    assert len({labels["job"] for labels in found(series, text)}) > 1
    assert len(series) > len(found(series, text)) + len(found(series, text, 1))


def test_both_sides_of_a_match_share_their_labels_and_the_one_side_has_one_partner_each() -> None:
    text = 'x{mode="a"} * on (pod) group_left (node) max by (pod, node) (y)'
    series = drawn(text)
    pods = [{labels["pod"] for labels in found(series, text, place)} for place in (0, 1)]
    assert len(pods[0] & pods[1]) > 4
    nodes = {(labels["pod"], labels["node"]) for labels in found(series, text, 1)}
    assert len(nodes) == len(pods[1])


def test_what_is_matched_with_an_aggregation_has_its_labels_and_no_others() -> None:
    text = "sum by (job, zone) (x) / y"
    assert {frozenset(labels) for labels in found(drawn(text), text, 1)} == {frozenset(("__name__", "job", "zone"))}


def test_values_lie_about_what_they_are_compared_with() -> None:
    values = np.concatenate(list(drawn("x > 40").values()))
    assert (values == 40).any()
    assert (values > 40).any()
    assert (values < 40).any()


def test_counters_grow_and_buckets_are_cumulative() -> None:
    assert all((np.diff(values) >= 0).sum() >= len(values) - 2 for values in drawn("rate(x[5m])").values())
    by_bound = {
        dict(pairs)["le"]: v
        for pairs, v in drawn("rate(x_bucket[5m])").items()
        if dict(pairs)["replica"] == "replica-1"
    }
    bounds = sorted(by_bound, key=float)
    assert bounds[-1] == "+Inf"
    assert all((by_bound[a] <= by_bound[b]).all() for a, b in zip(bounds, bounds[1:], strict=False))


def test_what_should_be_absent_is() -> None:
    text = 'absent(up{job="a"})'
    assert drawn(text)
    assert not found(drawn(text), text)


def test_a_variable_that_contradicts_the_rest_is_filled_in() -> None:
    asked = Question.of('up{job=~"integrations/a|b",job=~"VAR",pod=~"VAR"}')
    assert getattr(filled(asked), "text", "") == 'up{job=~"integrations/a|b",job=~"integrations/a",pod=~"VAR"}'
    assert filled(Question.of('up{job=~"VAR"}')) is None


def test_expressions_of_one_world_share_no_metric() -> None:
    asked = [Question.of(text) for text in ("a + b", "b", "c", "a", "sum(d) + c")]
    assert [[one.text for one in group] for group in apart(asked)] == [["a + b", "c"], ["b", "a", "sum(d) + c"]]


def test_no_sample_lies_on_the_edge_of_a_range_that_is_asked_for() -> None:
    asked = Question.of("rate(x[5m])")
    place = Place.drawn([asked], Random(5), START_MS)
    times = {t for samples in place.known(asked).values() for t, _ in samples}
    assert {t % 1000 for t in times}.isdisjoint({0, *(q.start_ms % 1000 for q in place.asked(asked, Random(5)))})
    assert max(times) <= START_MS + LENGTH_MS + 1000
