"""The plan for dashboards' expressions: how many it serves, and that it serves them rightly."""

from pathlib import Path
from random import Random

import pytest

from precompute.aggregations import Aggregation
from query.answers import Answer
from query.workloads.coverage import Covered
from tests.corpus.planned import START_MS, answer, asked, exactly, in_force, planned
from tests.corpus.reading import Question
from tests.corpus.worlds import LENGTH_MS
from tests.differential.outcomes import differences
from tests.precompute.made_node import Core
from tests.running import drawn_seed

EXPRESSIONS = 300
SERVED = 0.9
FAILED_PANE = "its evaluation is an error in some pane"


@pytest.fixture(scope="module")
def found(corpus_dir: Path) -> Covered:
    return planned(corpus_dir, 300_000)


def test_nine_of_ten_eligible_expressions_of_dashboards_are_served_from_groups(found: Covered) -> None:
    assert not found.unparsed
    assert found.eligible > 3000
    assert len(found.served) >= SERVED * found.eligible, found.reasons
    assert not any(a.without and not a.labels for a in found.plan.aggregations), "a copy of each series"


def test_as_many_are_served_at_another_zoom(corpus_dir: Path, found: Covered) -> None:
    assert len(planned(corpus_dir, 75_000).served) == len(found.served)


def test_three_hundred_served_expressions_are_answered_by_summaries_as_by_the_samples(
    found: Covered, tmp_path: Path
) -> None:
    seed = drawn_seed()
    texts = sorted({query.forms[0][1] for query in found.served})
    chosen = [Question.of(text) for text in Random(seed).sample(texts, EXPRESSIONS)]
    wrong, others, parts = list[str](), list[str](), 0
    for core, group in in_force(chosen, found.plan, tmp_path, seed):
        for question in group:
            for one in asked(question):
                got, how = answer(core, one)
                wrong += [f"{one}: {text}" for text in differences(one, got, exactly(core, one, question))[:3]]
                if how is not None:
                    covered, elsewhere = by_tier(core, how)
                    parts += covered
                    others += [f"{one}: {text}" for text in elsewhere]
    assert not wrong, f"seed {seed}: {len(wrong)} differ:\n" + "\n".join(wrong[:40])
    failed = [text for text in others if text.endswith(FAILED_PANE)]
    assert failed == others, f"seed {seed}:\n" + "\n".join(others)
    assert parts > EXPRESSIONS
    assert len(failed) < (1 - SERVED) * parts, f"seed {seed}: {len(failed)} of {parts}\n" + "\n".join(failed)


def by_tier(core: Core, how: Answer) -> tuple[int, list[str]]:
    """How many covered parts a query has, and those which summaries did not answer at every step, with the reason."""
    told = how.told
    assert told is not None
    assert told.plan is not None
    covered = {coverage.requirement.node for coverage in told.plan.covered}
    nodes = [node for node in told.plan.nodes if node.coverage is not None and node.expr in covered]
    served, others = told.account.served, list[str]()
    for node in nodes:
        if (node.number, "summary") not in served or served[node.number, "summary"].steps < len(how.times):
            assert node.coverage is not None
            failed = has_failed_panes(core, node.coverage.aggregation)
            others.append(f"{node.expr}: {FAILED_PANE if failed else told.account.why.get(node.number)}")
    return len(nodes), others


def has_failed_panes(core: Core, aggregation: Aggregation) -> bool:
    """Whether some pane's evaluation was an error, such as a match of many with many."""
    return len(core.store.failed(aggregation.id, START_MS, START_MS + 2 * LENGTH_MS)) > 0
