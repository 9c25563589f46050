"""An explanation names, for each part, who served it, at what cost, and why no better tier did."""

from pathlib import Path

import pytest

from query.engine import Request
from query.explain import described, lines, stats
from tests.precompute.made_node import WIDTH_MS, Core
from tests.query.test_mixed import INSIDE_MS, START_MS, Behind, pair

TRACED = Request(traced=True)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Core, Core, Behind]:
    return pair(tmp_path_factory.mktemp("pair"))


def test_each_node_says_who_served_it_and_what_it_read(both: tuple[Core, Core, Behind]) -> None:
    told = described(both[0].queries.range("sum(m) / max(b)", INSIDE_MS, INSIDE_MS + 3 * WIDTH_MS, WIDTH_MS, TRACED))
    assert (told["tiers"], told["bound"], told["steps"], told["panes"]) == (["summary", "upstream"], "exact", 4, 4)
    left, right = told["plan"]["parts"]
    (served,) = left["served"]
    assert (served["tier"], served["steps"], served["panes"], served["groups"]) == ("summary", 4, 4, 8)
    assert served["keeps"] == "m by (g)"
    assert [(s["tier"], s["steps"]) for s in right["served"]] == [("upstream", 4)]
    assert right["not_from_summary"] and "b" in right["parts"][0]["expr"]
    assert "whether b is received here is not known" in right["parts"][0]["not_from_head"]


def test_samples_are_those_of_the_sub_expression(both: tuple[Core, Core, Behind]) -> None:
    told = described(both[0].queries.instant("max(m > 1) + sum(rate(c[1m]))", INSIDE_MS + 1, TRACED))
    left, right = told["plan"]["parts"]
    assert left["evaluated"]["samples"] == 4
    assert right["evaluated"]["samples"] == 2
    assert told["samples"] == told["plan"]["evaluated"]["samples"] == 6


@pytest.mark.parametrize(
    ("text", "after_ms", "why"),
    [
        ("sum by (i) (m)", 0, "grouping by `i`, which it does not keep"),
        ('sum(m{i="1"})', 0, "filter on `i`, which it does not keep"),
        ("sum(m)", 3200, "off the pane grid by 3.2 s"),
        ("max(rate(c[1m]))", 0, "does not keep max"),
        ("m", 0, "no aggregation operator around it"),
        ("sum(max_over_time(m[1m:15s]))", 0, "keeps m, not max_over_time((m)[1m:15s])"),
    ],
)  # fmt: skip
def test_what_no_summary_served_says_why_each_candidate_did_not(
    both: tuple[Core, Core, Behind], text: str, after_ms: int, why: str
) -> None:
    told = described(both[0].queries.instant(text, INSIDE_MS + after_ms, TRACED))
    assert any(why in line for line in told["plan"]["not_from_summary"]), told["plan"]


def test_a_pane_that_is_not_sealed_yet_is_named(both: tuple[Core, Core, Behind]) -> None:
    near = both[0]
    now_ms = near.clock.now_ms() // WIDTH_MS * WIDTH_MS
    told = described(near.queries.instant("sum(m)", now_ms, TRACED))
    assert "not sealed yet" in told["plan"]["not_from_summary"][0]


def test_a_whole_query_that_went_upstream_says_why(both: tuple[Core, Core, Behind]) -> None:
    told = described(both[0].queries.instant("sum(b)", INSIDE_MS, TRACED))
    assert told["tiers"] == ["upstream"]
    assert told["whole_query_upstream"] == "whether b is received here is not known"


def test_steps_from_the_cache_are_counted_and_still_say_who_served_them_first(tmp_path: Path) -> None:
    near, _, _ = pair(tmp_path)
    asked = ("sum(m) + sum(n)", near.clock.now_ms() - 19 * WIDTH_MS, near.clock.now_ms() - 10 * WIDTH_MS, WIDTH_MS)
    first, second = (described(near.queries.range(*asked, TRACED)) for _ in range(2))
    assert (first["steps_from_cache"], second["steps_from_cache"]) == (0, 10)
    assert first["tiers"] == second["tiers"] == ["summary", "head"]
    assert described(near.queries.range(*asked, Request(traced=True, cached=False)))["steps_from_cache"] == 0


def test_the_text_is_a_tree_with_a_line_for_each_remark(both: tuple[Core, Core, Behind]) -> None:
    made = both[0].queries.range("sum(m) / max(b)", START_MS, INSIDE_MS, WIDTH_MS, TRACED)
    shown = list(lines(described(made)))
    assert shown[0] == "sum(m) / max(b)"
    assert "from summary, upstream; exact" in shown[1]
    assert any(line.startswith("├─ sum(m)") for line in shown)
    assert any(line.startswith("└─ max(b)") for line in shown)
    assert any("not from a summary: " in line for line in shown)


def test_stats_are_prometheus_and_all_adds_the_plan(both: tuple[Core, Core, Behind]) -> None:
    made = both[0].instant("sum(m)", INSIDE_MS)
    plain = stats(made, 0.5, planned=False)
    assert plain["timings"]["execTotalTime"] == 0.5 + plain["timings"]["evalTotalTime"]
    assert set(plain) == {"timings", "samples"}
    assert stats(made, 0.0, planned=True)["asap"]["plan"]["served"][0]["tier"] == "summary"
