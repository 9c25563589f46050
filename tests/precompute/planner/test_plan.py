"""What is worth keeping, by what a real head holds."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precompute.aggregations import LONGEST_RETENTION_MS
from precompute.planner.cardinality import OnHead
from precompute.planner.merge import NOT_SMALLER
from precompute.planner.plan import DEAR, FAILS, FAST_ENOUGH, NOT_BY_SHARD, OVER_BUDGET, TOO_ACCURATE, TOO_FAR
from precompute.planner.report import lines
from tests.precompute.made_node import HOUR_MS, START_MS, Core, series
from tests.precompute.planner.asking import SETTINGS, demands, is_covered, kept, planned, whys, zoomed

SERIES = 400


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> OnHead:
    """m: 400 series in 20 of x, 20 of y, 400 of x and y, 4 of z; n: 40 series, i a name for each."""
    core = Core(tmp_path_factory.mktemp("core"))
    core.write(
        [(series("m", x=str(i // 20), y=str(i % 20), z=str(i % 4), i=str(i)), START_MS, 1.0) for i in range(SERIES)]
        + [(series("n", i=str(i), a=str(i % 2)), START_MS, 1.0) for i in range(40)]
        + [(series("one", a=str(i), b="b"), START_MS, 1.0) for i in range(4)]
    )
    return OnHead(core.source, START_MS, core.clock)


def test_groups_and_series_are_counted_on_the_head(measured: OnHead) -> None:
    (one,) = planned(demands("sum by (x) (m)"), measured).kept
    assert one.weight is not None
    assert (one.weight.series, one.weight.groups) == (SERIES, 20)
    assert one.weight.cost.bytes > 0 < one.weight.cost.cpu_share


def test_several_groupings_are_kept_where_one_would_be_as_large_as_the_series(measured: OnHead) -> None:
    wanted = demands("sum by (x) (m)", "sum by (y) (m)", "sum by (x, z) (m)", "sum(m)")
    made = planned(wanted, measured)
    assert kept(made) == ["m by (x, z) sum", "m by (y) sum"]
    assert all(is_covered(demand, made) for demand in wanted)


def test_what_does_not_shrink_is_refused_with_its_figures_and_the_rest_is_kept(measured: OnHead) -> None:
    made = planned(demands("sum by (i) (m)", "sum by (x, y) (m)", "sum by (z) (m)"), measured)
    assert kept(made) == ["m by (z) sum"]
    assert {(one.why, one.detail) for one in made.refused} == {(NOT_SMALLER, "400 groups of 400 series")}
    assert sum(len(one.demands) for one in made.refused) == 2


def test_a_selective_comparison_shrinks_though_each_row_is_a_group(measured: OnHead) -> None:
    made = planned(demands("sum by (i) (m > 5)"), measured)
    assert kept(made) == ["(m > 5) by (i) sum"]


def test_what_an_expression_cannot_be_evaluated_for_is_the_reason(measured: OnHead) -> None:
    made = planned(demands("sum(m * on (x) n)", "sum(one * on (b) one)"), measured)
    assert FAILS in whys(made)
    assert any("many-to-many" in one.detail for one in made.refused)


def test_groups_that_are_dearer_to_read_than_the_series_a_filter_leaves_are_refused(tmp_path: Path) -> None:
    core = Core(tmp_path)
    core.write([(series("m", pod=str(i // 4), i=str(i)), START_MS, 1.0) for i in range(8000)])
    head = OnHead(core.source, START_MS, core.clock)
    assert whys(planned(demands('sum(m{pod="7"})'), head)) == [DEAR]
    assert kept(planned(demands('sum(m{pod="7"})', "sum by (pod) (m)", per_hour=60, span_ms=3_600_000), head))


def test_a_query_that_the_head_answers_in_time_is_kept_only_if_that_saves_more_than_it_costs(measured: OnHead) -> None:
    assert whys(planned(demands("sum(m)", per_hour=1, latency_ms=1000), measured)) == [FAST_ENOUGH]
    assert kept(planned(demands("sum(m)", per_hour=1e5, latency_ms=1000), measured))
    assert kept(planned(demands("sum(m)", per_hour=1), measured)), "as fast as can be"


@pytest.mark.parametrize("limit", ["max_bytes", "max_cpu_share"])
def test_the_budget_goes_to_what_saves_most_for_its_cost(measured: OnHead, limit: str) -> None:
    often = demands("sum by (x) (m)", per_hour=1000, span_ms=3_600_000)
    seldom = demands("sum by (a) (n)", per_hour=1, span_ms=3_600_000)
    costs = {}
    for wanted in (often, seldom):
        (one,) = planned(wanted, measured).kept
        assert one.weight is not None
        costs[wanted[0]] = one.weight.cost.bytes if limit == "max_bytes" else one.weight.cost.cpu_share
    both = planned(seldom + often, measured, **{limit: sum(costs.values()) * 1.001})
    assert len(both.kept) == 2
    made = planned(seldom + often, measured, **{limit: costs[often[0]] * 1.001})
    assert (kept(made), whys(made)) == (["m by (x) sum"], [OVER_BUDGET])


@pytest.mark.parametrize(
    ("span_ms", "in_force", "near", "far"), [(3_600_000, 100.0, 140.0, 160.0), (0, 140.0, 100.0, 90.0)]
)
def test_what_is_in_force_gives_way_only_to_what_saves_half_as_much_again(
    measured: OnHead, span_ms: int, in_force: float, near: float, far: float
) -> None:
    """With a span of 0 the groups are dearer to read than the series, though neither takes long."""

    def one_of(per_hour: float, ids: frozenset[str] = frozenset()) -> list[str]:
        wanted = demands("sum by (y) (m)", per_hour=in_force, span_ms=span_ms)
        wanted += demands("sum by (x) (m)", per_hour=per_hour, span_ms=span_ms)
        return kept(planned(wanted, measured, ids, max_bytes=one.weight.cost.bytes * 1.001))  # type: ignore[union-attr]

    (one,) = planned(demands("sum by (y) (m)", per_hour=in_force, span_ms=span_ms), measured).kept
    ids = frozenset(a.id for a in one.aggregations)
    assert (one_of(near), one_of(far)) == (["m by (x) sum"], ["m by (x) sum"])
    assert (one_of(near, ids), one_of(far, ids)) == (["m by (y) sum"], ["m by (x) sum"])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, "quantile"),
        ({"accuracy_sla": 0.995}, "quantile(alpha=0.005)"),
        ({"accuracy_sla": 0.95}, "quantile(alpha=0.05)"),
    ],
)
def test_sketches_are_sized_from_the_accuracy_that_is_asked_for(asked: dict[str, float], expected: str) -> None:
    (one,) = planned(demands("quantile(0.9, m)", "max(m)", **asked)).kept
    assert one.aggregations[0].accumulators == ("max", expected)
    assert one.bound == f"{1 - asked.get('accuracy_sla', 0.99):.4g} relative"


def test_the_strictest_accuracy_of_those_that_share_counts() -> None:
    wanted = demands("quantile(0.9, m)", accuracy_sla=0.95) + demands("quantile(0.5, m)", accuracy_sla=0.998)
    assert kept(planned(wanted)) == ["m by () quantile(alpha=0.002)"]


def test_an_accuracy_that_no_sketch_has_is_refused() -> None:
    assert whys(planned(demands("quantile(0.9, m)", accuracy_sla=0.99999))) == [TOO_ACCURATE]


def test_a_sketch_that_is_asked_for_is_taken_where_it_is_accurate_enough() -> None:
    wanted = demands("quantile(0.9, m)")
    assert kept(planned(wanted, quantile="kll(k=2000)")) == ["m by () kll(k=2000)"]
    assert kept(planned(wanted, quantile="kll(k=20)")) == ["m by () quantile"]


def test_what_looks_back_further_than_the_reach_is_refused_and_shorter_forms_of_it_are_kept() -> None:
    wanted = zoomed((15_000, "sum(rate(x[1m]))"), (3_600_000, "sum(rate(x[61m]))")) + demands("sum(rate(y[2h]))")
    made = planned(wanted, max_reach_ms=3_600_000)
    assert (kept(made), whys(made)) == (["rate(x[1m]) by () sum"], [TOO_FAR])


def test_panes_are_kept_as_long_as_queries_look_back() -> None:
    day_ms = 86_400_000
    (one,) = planned(demands("sum(m offset 1d)", span_ms=7 * day_ms)).aggregations
    assert one.retention_ms == 8 * day_ms


@pytest.mark.parametrize(("back_ms", "hours"), [(47.9, 48), (48, 48), (48.004, 49), (23.99, 24), (3, 24)])
def test_a_retention_that_follows_from_queries_is_of_whole_hours(back_ms: float, hours: int) -> None:
    (one,) = planned(demands("sum(m)", span_ms=round(back_ms * HOUR_MS))).aggregations
    assert one.retention_ms == hours * HOUR_MS


@pytest.mark.parametrize(("text", "span_ms"), [("sum(m)", 1 << 60), ("sum(m offset 100y)", 0)])
def test_no_retention_is_longer_than_the_longest(text: str, span_ms: int) -> None:
    (one,) = planned(demands(text, span_ms=span_ms)).aggregations
    assert one.retention_ms == LONGEST_RETENTION_MS


def test_what_does_not_fit_for_as_long_as_some_look_back_is_kept_for_the_others(measured: OnHead) -> None:
    usual, far = demands("sum by (x) (m)", span_ms=HOUR_MS), demands("avg by (x) (m)", span_ms=1000 * 24 * HOUR_MS)
    (day,) = planned(usual + demands("avg by (x) (m)"), measured).kept
    (whole,) = planned(usual + far, measured).kept
    made = planned(usual + far, measured, max_bytes=day.cost.bytes * 1.5)
    (one,) = made.kept
    assert (whole.cost.bytes > 900 * day.cost.bytes, whole.why_shorter) == (True, "")
    assert [a.retention_ms for a in made.aggregations] == [SETTINGS.retention_ms] and not made.refused
    assert set(one.demands) == {*usual, *far} and one.cost == day.cost
    assert any("not for as long as queries look back" in line and "max_bytes" in line for line in lines(made))
    assert whys(planned(usual + far, measured, max_bytes=day.cost.bytes / 2)) == [OVER_BUDGET]


def test_what_an_offset_looks_back_to_is_kept_however_little_fits(measured: OnHead) -> None:
    wanted = demands("sum by (x) (m offset 2d)", span_ms=1000 * 24 * HOUR_MS)
    (one,) = planned(wanted, measured, max_bytes=1e8).aggregations
    assert one.retention_ms == 3 * 24 * HOUR_MS


def test_a_finer_one_takes_the_place_of_what_is_kept_no_longer_than_it() -> None:
    zoom = zoomed((60_000, "sum(rate(c[4m]))"), (240_000, "sum(rate(c[5m]))"), span_ms=30 * 24 * HOUR_MS)
    for span_ms, widths_s in ((0, {60, 240}), (30 * 24 * HOUR_MS, {60})):
        made = planned(zoom + demands("sum(rate(c[5m]))", step_ms=60_000, span_ms=span_ms), window_ms=60_000)
        found = [a for a in made.aggregations if str(a.expr) == "rate(c[5m])"]
        assert {a.width_ms // 1000 for a in found} == widths_s
        assert max(a.retention_ms for a in found) == 30 * 24 * HOUR_MS


@pytest.mark.parametrize("spans_ms", [(0, 48 * HOUR_MS), (48 * HOUR_MS, 0)])
def test_what_is_wanted_twice_is_kept_for_the_longer_time(spans_ms: tuple[int, int]) -> None:
    forms = (60_000, "sum(rate(c[75s]))"), (15_000, "sum(rate(c[1m]))")
    wanted = zoomed(*forms[::-1], span_ms=spans_ms[0]) + zoomed(forms[0], span_ms=spans_ms[1])
    made = planned(wanted).aggregations
    assert [a.retention_ms for a in made if str(a.expr) == "rate(c[1m15s])"] == [48 * HOUR_MS]


def test_the_same_demands_in_any_order_make_the_same_plan(measured: OnHead) -> None:
    wanted = demands("sum by (x) (m)", "sum by (y) (m)", "quantile(0.9, m)", "sum(n)", 'max(n{a="1"})')
    ids = [a.id for a in planned(wanted, measured).aggregations]
    assert [a.id for a in planned(wanted[::-1], measured).aggregations] == ids


OPERATORS = ("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "quantile")
LABELS = ("a", "b", "c")
EXPRESSIONS = ("m{}", "rate(c{}[1m])", "m{} > 1", "rate(c{}[1m]) * on (a) group_left () m{}", "m{} and on (a, b) n{}")
FILTERS = ('a="1"', 'b=~"x|y"', 'c!=""', 'a!="2"', 'b!~"z.*"', 'a=~".*"')


@st.composite
def queries(draw: st.DrawFn) -> str:
    op, mode = draw(st.sampled_from(OPERATORS)), draw(st.sampled_from(("by", "without")))
    labels = draw(st.lists(st.sampled_from(LABELS), unique=True, max_size=3))
    chosen = draw(st.lists(st.sampled_from(FILTERS), unique=True, max_size=3))
    expr = draw(st.sampled_from(EXPRESSIONS)).replace("{}", "{" + ",".join(chosen) + "}")
    parameter = "0.9, " if op == "quantile" else ""
    return f"{op} {mode} ({', '.join(labels)}) ({parameter}{expr})"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(queries(), min_size=1, max_size=8))
def test_each_demand_is_either_refused_or_covered_by_what_is_kept(texts: list[str]) -> None:
    wanted = demands(*texts)
    made = planned(wanted)
    refused = {demand.finest for one in made.refused for demand in one.demands}
    for demand in wanted:
        assert is_covered(demand, made) or demand.finest in refused, demand.finest.node
    assert sorted(len(one.demands) for one in (*made.kept, *made.refused)) != []
    assert sum(len(one.demands) for one in (*made.kept, *made.refused)) == len(wanted)


@pytest.mark.parametrize("span_ms", [0, 3_600_000])
def test_more_frequent_queries_never_weigh_less(measured: OnHead, span_ms: int) -> None:
    wanted = demands("sum by (x) (m)", per_hour=10, span_ms=span_ms)
    more = [replace(demand, asking=replace(demand.asking, per_hour=100.0)) for demand in wanted]
    shares = [one.weight.saved_share for w in (wanted, more) for one in planned(w, measured).kept if one.weight]
    assert shares[0] * 10 == pytest.approx(shares[1])


def test_a_cluster_refuses_what_cannot_be_made_shard_by_shard() -> None:
    wanted = demands("sum(max_over_time((m * on (pod) n)[5m:1m]))", "sum(m * on (pod) n)")
    made = planned(wanted, by_shard=True)
    assert (kept(made), whys(made)) == (["(m * on (pod) n) by () sum"], [NOT_BY_SHARD])
    assert whys(planned(wanted)) == []
