"""Which queries share what is kept."""

import pytest

from precompute.planner.merge import BY_NAME, PER_SERIES, width_ms
from tests.precompute.planner.asking import demands, is_covered, kept, planned, whys, zoomed


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("quantile(0.5, m)", "quantile(0.99, m)"), "m by () quantile"),
        (('sum(m{job="a"})', 'sum(m{job=~"b|c"})'), "m by (job) sum"),
        (("sum by (a, b) (m)", "sum by (b) (m)", "sum(m)"), "m by (a, b) sum"),
        (("sum by (a) (m)", "100 * max by (b) (m) / 3"), "m by (a, b) max sum"),
        (("avg(m)", "stddev(m)", "group(m)"), "m by () count stddev sum"),
        (("sum(m)", "sum(m offset 1h)", "sum(m @ 1700000000)"), "m by () sum"),
        (("count(count by (x) (m))",), "m by (x) count"),
        (("histogram_quantile(0.9, sum by (le) (rate(b[5m])))",), "rate(b[5m]) by (le) sum"),
        (("topk(5, sum by (pod) (rate(x[5m])))",), "rate(x[5m]) by (pod) sum"),
        (("sum without (a) (m)", "sum without (a, b) (m)"), "m without (a) sum"),
        (("sum without (a, b) (m)", 'sum without (a, b) (m{b="x"})'), "m without (a) sum"),
        (('sum by (pod) (a * on (pod) group_left (node) b{node="n"})',),
         "(a * on (pod) group_left (node) b) by (node, pod) sum"),
    ],
)  # fmt: skip
def test_queries_that_differ_only_in_what_is_read_share_one_aggregation(texts: tuple[str, ...], expected: str) -> None:
    wanted = demands(*texts)
    made = planned(wanted)
    assert kept(made) == [expected]
    assert all(is_covered(demand, made) for demand in wanted)


@pytest.mark.parametrize(
    "texts",
    [
        ("sum(m)", "sum(n)"),
        ("sum(rate(x[5m]))", "sum(rate(x[1m]))"),
        ("sum by (a) (m)", "sum without (a) (m)"),
        ("sum(m)", "sum(m > 0)"),
        ("sum without (a) (m)", "sum without (b) (m)"),
    ],
)
def test_what_has_no_common_form_is_kept_apart(texts: tuple[str, ...]) -> None:
    wanted = demands(*texts)
    made = planned(wanted)
    assert len(made.aggregations) == 2
    assert all(is_covered(demand, made) for demand in wanted)


def test_a_filter_that_all_have_and_no_variable_fills_in_stays_in_the_expression() -> None:
    texts = ('sum by (pod) (m{image!="",pod="a"})', 'max by (pod) (m{image!=""})')
    assert kept(planned(demands(*texts))) == ['m{image!=""} by (pod) max sum']


@pytest.mark.parametrize(
    "other", ["sum(m)", 'sum(m{image="x"})', 'sum by (image) (m{image!=""})', 'sum(m{image!="y"})']
)
def test_a_filter_that_one_has_not_or_whose_label_one_needs_is_a_label(other: str) -> None:
    wanted = demands('sum(m{image!=""})', other)
    made = planned(wanted)
    assert kept(made) == ["m by (image) sum"]
    assert all(is_covered(demand, made) for demand in wanted)


def test_filters_of_what_a_grouping_leaves_out_stay_in_the_expression() -> None:
    wanted = demands('sum without (mode) (m{mode!="idle"})', "sum without (mode) (m)")
    made = planned(wanted)
    assert kept(made) == ["m without (mode) sum", 'm{mode!="idle"} without (mode) sum']
    assert all(is_covered(demand, made) for demand in wanted)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sum without () (m)", PER_SERIES),
        ('sum without (type) (m{type="a"})', PER_SERIES),
        ("sum by (__name__) (m)", BY_NAME),
    ],
)
def test_what_is_no_summary_is_refused_with_its_reason(text: str, why: str) -> None:
    made = planned(demands(text))
    assert (kept(made), whys(made)) == ([], [why])


@pytest.mark.parametrize(
    ("steps", "width"),
    [
        # |----|----|----|----|    15
        # |---------|---------|    30
        ((30_000,), 30_000),
        ((60_000, 90_000), 30_000),
        ((15_000, 60_000), 15_000),
        # 20 s meet the grid of 15 s at each minute only, and an instant query at any time
        ((20_000,), 15_000),
        ((0, 60_000), 15_000),
        ((0,), 15_000),
    ],
)
def test_panes_are_as_wide_as_the_steps_allow(steps: tuple[int, ...], width: int) -> None:
    assert width_ms(steps, 15_000) == width


RATE = "sum by (job) (rate(x[{}]))"


def test_a_range_that_follows_the_zoom_is_one_demand_with_a_wider_pane_for_each_longer_range() -> None:
    forms = ((15_000, "1m"), (60_000, "75s"), (300_000, "315s"))
    (one,) = planned(zoomed(*((step_ms, RATE.format(text)) for step_ms, text in forms))).kept
    assert [(str(a.expr), a.width_ms) for a in one.aggregations] == [
        ("rate(x[1m])", 15_000), ("rate(x[1m15s])", 60_000), ("rate(x[5m15s])", 300_000),
    ]  # fmt: skip


def test_a_finer_one_beside_it_takes_the_place_of_a_member() -> None:
    wanted = zoomed((15_000, RATE.format("1m")), (60_000, RATE.format("75s"))) + demands(RATE.format("75s"))
    made = planned(wanted)
    assert sorted((str(a.expr), a.width_ms) for a in made.aggregations) == [
        ("rate(x[1m15s])", 15_000), ("rate(x[1m])", 15_000),
    ]  # fmt: skip
    assert all(is_covered(demand, made) for demand in wanted)


LABELS = {"m": frozenset(("job", "pod", "node"))}


@pytest.mark.parametrize(
    "text",
    ["sum by (job, pod, node) (m)", 'max by (pod, zone) (rate(m{job="a",node=~"n.*"}[5m]))', "sum without (zone) (m)"],
)
def test_groups_by_all_labels_that_a_metric_is_said_to_have_are_a_copy_of_each_series(text: str) -> None:
    assert whys(planned(demands(text), labels=LABELS)) == [PER_SERIES]
    assert not whys(planned(demands(text)))


def test_groupings_whose_union_is_all_labels_are_kept_side_by_side() -> None:
    texts = "sum by (job) (m)", "sum by (pod, job) (m)", "sum by (node) (m)"
    assert kept(planned(demands(*texts), labels=LABELS)) == ["m by (job, pod) sum", "m by (node) sum"]
    assert kept(planned(demands(*texts))) == ["m by (job, node, pod) sum"]
