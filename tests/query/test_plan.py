"""Which parts of a query summaries may answer."""

import pytest

from precompute import catalog
from precompute.aggregations import Aggregation
from precompute.sketches.registry import kept_of_vectors
from query.plan import Plan, plan
from query.promql.parse import parse
from tests.precompute.made_node import LOOKBACK_MS, aggregation

KEPT = (aggregation("m", ["g"]), aggregation("rate(c[1m])", ["g"], accumulators=["sum", "count"]))


def planned(text: str) -> Plan:
    return plan(parse(text), KEPT, LOOKBACK_MS, 60_000)


@pytest.mark.parametrize(
    "text",
    [
        "sum(m)",
        "sum by (g) (m) / count by (g) (m)",
        "100 * sum(rate(c[1m]))",
        "-sum(m)",
        "sum(m) > 5",
        "sum(m) - 1 + 2",
        "max(m) - min(m) > bool 0",
        "sum(m) / sum(m offset 5m)",
        "quantile by (g) (0.5, m) + on (g) sum by (g) (rate(c[1m]))",
    ],
)
def test_a_query_whose_selectors_all_stand_under_covered_operators_is_from_summaries(text: str) -> None:
    assert planned(text).from_summaries


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("m", ["m: no aggregation operator around it"]),
        ("rate(c[1m])", ["rate(c[1m]): no aggregation operator around it"]),
        ("sum(m) + m", ["m: no aggregation operator around it"]),
        ("sum(m) + sum(n)", ["sum(n): no aggregation is of n"]),
        ("sum by (x) (m)", ["grouping by `x`"]),
        ("sum(m) + avg(rate(c[5m]))", ["avg(rate(c[5m])): aggregation"]),
    ],
)
def test_one_selector_that_no_summary_answers_is_enough_and_is_named(text: str, reasons: list[str]) -> None:
    found = planned(text)
    assert not found.from_summaries
    for reason in reasons:
        assert any(reason in line for line in found.reasons), found.reasons


def test_reasons_are_made_for_those_who_ask_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()
    monkeypatch.setattr(catalog, "_why_not", lambda *_: made.append("") or ("why", ()))
    found = planned("sum(rate(c[5m])) + sum(rate(c[5m]))")
    assert not made
    assert len(found.reasons) == len(made) == 2


def test_of_several_aggregations_the_best_is_read_and_the_others_are_known() -> None:
    wide, narrow = aggregation("m", ["g", "h"]), aggregation("m", ["g"])
    found = plan(parse("sum by (g) (m) / count(m)"), [wide, narrow], LOOKBACK_MS, 60_000)
    assert [one.aggregation for one in found.covered] == [narrow, narrow]
    other = found.read_from(lambda some: some[-1])
    assert [one.aggregation for one in other.covered] == [wide, wide]
    assert other.read_from(lambda some: some[-1]) == found
    assert [node.number for node in other.nodes] == [node.number for node in found.nodes]
    assert all(one in other.nodes for one in other.root.children)


@pytest.mark.parametrize("text", ["1 + 1", "42", "-1"])
def test_a_query_without_selectors_is_from_no_summary(text: str) -> None:
    assert not planned(text).from_summaries
    assert planned(text).reasons == ()


def test_what_is_covered_is_listed_though_the_rest_is_not() -> None:
    found = planned("sum(m) / sum by (x) (m)")
    assert [str(c.requirement.node) for c in found.covered] == ["sum(m)"]
    assert found.reasons == (f"sum by (x)(m): aggregation {KEPT[0].id}: grouping by `x`, which it does not keep",)


RATES = Aggregation(parse("rate(x_total[5m])"), ("job",), False, kept_of_vectors(), 15_000, 300_000, 3_600_000)


@pytest.mark.parametrize(
    "text",
    [
        "sum(rate(x_total[5m]))",
        "abs(sum by (job) (rate(x_total[5m]))) * time()",
        "topk(2, sum by (job) (rate(x_total[5m])))",
        'count_values("v", sum by (job) (rate(x_total[5m])))',
        "max(sum by (job) (rate(x_total[5m])) / on (job) count by (job) (rate(x_total[5m])))",
    ],
)
def test_a_query_of_kept_parts_comes_from_summaries(text: str) -> None:
    assert plan(parse(text), (RATES,), 300_000, 60_000).from_summaries


@pytest.mark.parametrize(
    "text",
    [
        "max_over_time(sum(rate(x_total[5m]))[1h:1m])",
        "sum(rate(x_total[5m])) + absent_over_time(sum(rate(x_total[5m]))[1h:])",
        "info(sum by (job) (rate(x_total[5m])))",
        "sum(absent(rate(x_total[5m])))",
        "timestamp(x_total)",
        "topk(2, rate(x_total[5m]))",
        "topk(2, sum by (instance) (rate(x_total[5m])))",
        "max(sum by (job) (rate(x_total[5m])) / on (job) group_left () x_total)",
    ],
)
def test_what_looks_elsewhere_does_not(text: str) -> None:
    planned = plan(parse(text), (RATES,), 300_000, 60_000)
    assert not planned.from_summaries and planned.reasons
