"""What an aggregation covers, and each reason why one does not."""

from dataclasses import replace

import pytest

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, Requirement, cover, requirement_of, requirements
from precompute.errors import BadExpression
from precompute.evaluate.expr import Aggregate
from precompute.normal import reach_ms
from query.promql.parse import parse
from tests.precompute.made_node import HOUR_MS, LOOKBACK_MS, aggregation

KEPT = (
    aggregation("m", ["g", "h"]),
    aggregation('rate(c{job!="test"}[5m])', ["code", "job"], accumulators=["sum", "count"]),
    aggregation("load", ["instance"], without=True, accumulators=["sum", "count", "max"]),
    aggregation("m > 0", ["g"], accumulators=["count"]),
    aggregation("8 * rate(b[1m])", [], without=True, accumulators=["sum"]),
)


def covered(text: str, kept: tuple[Aggregation, ...] = KEPT, lookback_ms: int = LOOKBACK_MS) -> Coverage | list[str]:
    node = parse(text)
    assert isinstance(node, Aggregate)
    requirement = requirement_of(node, lookback_ms, 60_000)
    return [requirement] if isinstance(requirement, str) else cover(requirement, kept)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("sum(m)", 0),
        ("sum by (g) (m)", 0),
        ("quantile by (h, g) (0.99, m)", 0),
        ("avg(m)", 0),
        ("stddev by (g) (m)", 0),
        ("stdvar by (g) (m)", 0),
        ("group by (g) (m)", 0),
        ('max by (g) (m{h=~"a.*",g!=""})', 0),
        ('min(m{nosuch=~".*"})', 0),
        ("sum(m offset 5m)", 0),
        ("sum(m @ 1700000000)", 0),
        ('sum by (job) (rate(c{job!="test"}[5m]))', 1),
        ('sum(rate(c{job="a"}[5m]))', 1),
        ('avg(rate(c{job!="test",code=~"5.."}[5m]))', 1),
        ("sum without (instance) (load)", 2),
        ("sum without (instance, job) (load)", 2),
        ("max by (job, anything) (load)", 2),
        ('sum(load{job="a"})', 2),
        ("count by (g) (m > 0)", 3),
        ("count(m > 0)", 3),
        ("sum(8 * rate(b[1m]))", 4),
        ("sum without (x) (8 * rate(b[1m]))", 4),
    ],
)
def test_covered(text: str, by: int) -> None:
    found = covered(text)
    assert isinstance(found, Coverage)
    assert found.aggregation is KEPT[by]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("topk(3, m)", "no summary answers topk"),
        ("bottomk(3, m)", "no summary answers bottomk"),
        ('count_values("x", m)', "no summary answers count_values"),
        ("quantile(scalar(m), m)", "the parameter of quantile is no number"),
        ('sum({__name__=~"m|c"})', "the metric name is not fixed"),
        ('sum({g="a"})', "the metric name is not fixed"),
        ("sum(m + m)", "keeps m, not (m + m)"),
        ("sum(sum by (g) (m))", "an aggregation operator inside"),
        ("sum(other)", "no aggregation is of other"),
        ("sum(m > 1)", "keeps (m > 0), not (m > 1)"),
        ("sum(-m)", "not -(m)"),
        ("sum(rate(c[1m]))", "range 1m, it keeps 5m"),
        ("sum(increase(c[5m]))", "not increase(c[5m])"),
        ("stddev(load)", "does not keep stddev"),
        ("quantile(0.5, load)", "does not keep quantile"),
        ("sum(m > 0)", "does not keep sum"),
        ("min(load)", "does not keep min"),
        ("sum(rate(c[5m]))", 'holds only job!="test"'),
        ('sum(rate(c{job!="other"}[5m]))', 'holds only job!="test"'),
        ('sum(rate(c{job="test"}[5m]))', 'holds only job!="test"'),
        ('sum(rate(c{job=~"a|test"}[5m]))', 'holds only job!="test"'),
        ('sum(m{pod="1"})', "filter on `pod`, which it does not keep"),
        ('sum(m{pod!="1"})', "filter on `pod`, which it does not keep"),
        ('sum(m{pod=""})', "filter on `pod`, which it does not keep"),
        ('sum(load{instance="1"})', "filter on `instance`, which it does not keep"),
        ("sum by (pod) (m)", "grouping by `pod`, which it does not keep"),
        ("sum by (g, pod) (m)", "grouping by `pod`, which it does not keep"),
        ("sum by (instance) (load)", "grouping by `instance`, which it does not keep"),
        ("sum by (__name__) (m)", "grouping by the metric name"),
        ("sum without (g) (m)", "grouping without (g), which no list of labels covers"),
        ("sum without (job) (load)", "it leaves out `instance`, which the grouping keeps"),
    ],
)
def test_not_covered_and_why(text: str, reason: str) -> None:
    found = covered(text)
    assert isinstance(found, list)
    assert any(reason in why for why in found), found


def test_another_lookback_is_not_covered() -> None:
    found = covered("sum(m)", lookback_ms=60_000)
    assert isinstance(found, list)
    assert any("keeps a lookback of 5m" in why for why in found)


def test_without_aggregations_that_is_the_reason() -> None:
    assert covered("sum(m)", ()) == ["no aggregation is of m"]


def test_of_several_the_one_that_keeps_least_is_taken() -> None:
    small, large = aggregation("m", ["g"]), aggregation("m", ["g", "h", "i"])
    found = covered("sum(m)", (large, aggregation("m", ["i"], without=True), small))
    assert isinstance(found, Coverage)
    assert found.aggregation is small


def test_only_filters_that_are_not_implied_are_left_to_apply() -> None:
    found = covered('sum(rate(c{job!="test",code="500",x=~".*"}[5m]))')
    assert isinstance(found, Coverage)
    assert [str(f) for f in found.filters] == ['code="500"']


def test_fixed_values_imply_filters_that_accept_them() -> None:
    kept = aggregation('m{job="a"}', [])
    found = covered('sum(m{job="a",job=~"a|b",job!="c"})', (kept,))
    assert isinstance(found, Coverage)
    assert found.filters == ()
    assert isinstance(covered('sum(m{job=~"a|b"})', (kept,)), list)


def test_an_id_hashes_what_decides_the_values_and_not_the_retention() -> None:
    base = aggregation("m", ["g", "h"])
    assert base.id == replace(base, retention_ms=1, accumulators=base.accumulators[::-1]).id
    others = [
        aggregation("m", ["g"]), aggregation("m", ["g", "h"], without=True),
        aggregation("m", ["g", "h"], width_ms=30_000),
        aggregation("m", ["g", "h"], lookback_ms=1000), aggregation("m > 0", ["g", "h"]),
        aggregation("m", ["g", "h"], accumulators=["sum"]), aggregation("m", ["g,h"]),
    ]  # fmt: skip
    assert len({base.id, *(other.id for other in others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        ("m offset 5m", "offset and @"),
        ("rate(m[5m] @ 0)", "offset and @"),
        ("sum(m)", "an aggregation operator inside"),
        ("rate(m[5m])[1h:1m]", "a range vector"),
        ("m[5m]", "a range vector"),
        ("scalar(m) * 2", "a scalar"),
        ("max_over_time(rate(m[5m])[1h:])", "does not say its step"),
        ("1 + 1", "selects no series"),
        ('{job="a"}', "the metric name is not fixed"),
        ('{__name__=~"a.*"}', "the metric name is not fixed"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_reason(expr: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=reason):
        aggregation(expr)


def test_the_best_bound_that_is_kept_answers() -> None:
    kept = aggregation("m", ["g"], accumulators=["le", "kll(k=400)", "quantile(alpha=0.05)", "quantile", "count"])
    found = covered("quantile by (g) (0.9, m)", (aggregation("m", [], accumulators=["kll"]), kept))
    assert isinstance(found, Coverage)
    assert found.aggregation.accumulators == ("le", "kll(k=400)", "quantile(alpha=0.05)", "quantile", "count")
    assert (found.statistic.needs, str(found.statistic.bound)) == (("quantile",), "0.01 relative")
    other = covered("quantile(0.9, m)", (aggregation("m", [], accumulators=["kll", "kll(k=400)"]),))
    assert isinstance(other, Coverage)
    assert other.statistic.needs == ("kll(k=400)",)
    assert covered("stddev(m)", (replace(kept, accumulators=("kll",)),))[0].endswith("does not keep stddev")


def test_an_accumulators_name_is_written_one_way_so_that_an_id_means_one_thing() -> None:
    with pytest.raises(BadExpression, match=r"accumulator kll\(k=200\) is written kll"):
        aggregation("m", accumulators=["kll(k=200)"])


def test_an_unknown_accumulator_is_refused_by_name() -> None:
    with pytest.raises(BadExpression, match="no accumulator median"):
        aggregation("m", accumulators=["median"])


@pytest.mark.parametrize(
    ("expr", "reach"),
    [
        ("m", LOOKBACK_MS), ("m offset 1m", LOOKBACK_MS + 60_000), ("rate(m[1m])", 60_000),
        ("rate(m[1m] offset 2m) * 8", 180_000), ("m offset -1m", LOOKBACK_MS), ("-(m > 0)", LOOKBACK_MS),
        ("rate(m[10m]) + n", 600_000), ("rate(m[1m]) + n", LOOKBACK_MS), ("1", 0),
    ],
)  # fmt: skip
def test_reach(expr: str, reach: int) -> None:
    assert reach_ms(parse(expr), LOOKBACK_MS) == reach


# -- joins, sets, subqueries and offsets

JOINED = (
    aggregation("rate(c[5m]) * on (pod) group_left (node) n", ["job", "node", "pod"], accumulators=["sum"]),
    aggregation("a unless on (pod) b", ["job", "pod"], accumulators=["count"]),
    aggregation("a or b", ["job"], accumulators=["count"]),
    aggregation("max_over_time(rate(c[1m])[1h:1m])", ["job"], accumulators=["max"]),
    aggregation("a - a offset 1h", ["job"], accumulators=["sum"]),
    aggregation('a{job="x"} / a{job="x"} offset 1h', ["pod"], accumulators=["sum"]),
    aggregation('histogram_quantile(0.9, rate(h_bucket{le!="1"}[5m]))', ["job"], accumulators=["max"]),
)


@pytest.mark.parametrize(
    ("text", "by", "filters"),
    [
        ("sum by (node) (rate(c[5m]) * on (pod) group_left (node) n)", 0, []),
        ('sum(rate(c{job="x",pod=~"a.*"}[5m]) * on (pod) group_left (node) n{node!="y"})', 0,
         ['job="x"', 'node!="y"', 'pod=~"a.*"']),
        ('sum(rate(c{pod="a"}[5m] offset 1w) * on (pod) group_left (node) n{pod="a"} offset 1w)', 0, ['pod="a"']),
        ('count(a{job="x",pod=""} unless on (pod) b{pod=""})', 1, ['job="x"', 'pod=""']),
        ('count by (job) (a{job=~"x|y"} or b{job=~"x|y"})', 2, ['job=~"x|y"']),
        ('max(max_over_time(rate(c{job="x"}[1m])[1h:]))', 3, ['job="x"']),
        ('max(max_over_time(rate(c{job="x"}[1m])[1h:1m] @ end()))', 3, ['job="x"']),
        ('sum(a{job="x"} offset 1d - a{job="x"} offset 25h)', 4, ['job="x"']),
        ('sum(a{job="x",pod="p"} / a{job="x"} offset 1h)', 5, ['pod="p"']),
        ('max(histogram_quantile(0.9, rate(h_bucket{le!="1",job="x"}[5m])))', 6, ['job="x"']),
    ],
)  # fmt: skip
def test_whole_expressions_are_covered(text: str, by: int, filters: list[str]) -> None:
    found = covered(text, JOINED)
    assert isinstance(found, Coverage), found
    assert found.aggregation is JOINED[by]
    assert [str(f) for f in found.filters] == filters


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('sum(rate(c[5m]) * on (pod) group_left (node) n{job="x"})', 'group_left (node) n{job="x"})'),
        ('sum(rate(c{le="1"}[5m]) * on (pod) group_left (node) n)', "filter on `le`"),
        ('sum by (zone) (rate(c[5m]) * on (pod) group_left (node) n)', "grouping by `zone`"),
        ('count(a unless on (pod) b{pod=""})', "not (a unless on (pod) b{pod=\"\"})"),
        ('count(a unless on (pod) b{job="x"})', "not (a unless on (pod) b{job=\"x\"})"),
        ('count(a{job="x"} or b)', "not (a{job=\"x\"} or b)"),
        ("max(max_over_time(rate(c[1m])[1h:30s]))", "not max_over_time((rate(c[1m]))[1h:30s])"),
        ("max(max_over_time(rate(c[1m])[2h:1m]))", "range 2h, 1m, it keeps 1h, 1m"),
        ("sum(a - a offset 2h)", "not (a - a offset 2h)"),
        ("sum(a offset 1h - a)", "not (a offset 1h - a)"),
        ("sum(a / a offset 1h)", 'holds only job="x"'),
        ('sum(a{job="x"} / a offset 1h)', 'holds only job="x", and not where the query asks for it'),
        ('max(histogram_quantile(0.9, rate(h_bucket{le!="2"}[5m])))', 'le!="2"'),
        ("max(a - b)", "keeps (a unless on (pod) b), not (a - b)"),
        ("max(a - d)", "no aggregation is of a and d"),
    ],
)  # fmt: skip
def test_whole_expressions_that_are_not_covered_and_why(text: str, reason: str) -> None:
    found = covered(text, JOINED)
    assert isinstance(found, list)
    assert any(reason in why for why in found), found


def test_a_zero_of_another_sign_is_another_expression() -> None:
    assert isinstance(covered("sum(1 / (m * 0))", (aggregation("1 / (m * 0)", ["g"]),)), Coverage)
    assert isinstance(covered("sum(1 / (m * -0))", (aggregation("1 / (m * 0)", ["g"]),)), list)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sum(rate(c[5m])) / sum by (g) (m)", ["rate(c[5m])", "m"]),
        ('quantile(0.9, a{job="x"} * on (pod) group_left () b) > 3', ["(a * on (pod) group_left () b)"]),
        ("count(count by (pod) (m))", ["m"]),
        ("topk(3, sum by (pod) (m))", ["m"]),
        ("histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))", ["rate(h_bucket[5m])"]),
        ("1 + 1", []),
        ("m", ["? m: no aggregation operator around it"]),
        ("topk(3, rate(m[5m]))", ["! topk(3, rate(m[5m])): no summary answers topk"]),
        ("sum(m * on () group_left () sum(n))", ["! m: an aggregation operator inside", "n"]),
        ("max_over_time(sum(m)[1h:1m])", ["! max_over_time((sum(m))[1h:1m]): summaries are not read at the steps of a "
                                          "subquery"]),
        ("sum({job='x'}) + m", ['! sum({job="x"}): the metric name is not fixed',
                                "? m: no aggregation operator around it"]),
    ],
)  # fmt: skip
def test_requirements_are_the_largest_parts_that_an_aggregation_can_answer_and_what_is_left(
    text: str, found: list[str]
) -> None:
    told = [
        r.normal.text if isinstance(r, Requirement) else f"{'!' if r.aggregated else '?'} {r.node}: {r.why}"
        for r in requirements(parse(text), LOOKBACK_MS, 60_000)
    ]
    assert told == found


@pytest.mark.parametrize(
    ("expr", "reach"),
    [
        ("max_over_time((m)[1h:1m])", HOUR_MS + LOOKBACK_MS),
        ("max_over_time(rate(m[5m] offset 1m)[1h:1m] offset 2m) + n", HOUR_MS + 480_000),
        ("max_over_time(max_over_time(rate(m[5m])[10m:1m])[1h:1m]) + n", HOUR_MS + 900_000),
        ("m - m offset 1h", HOUR_MS + LOOKBACK_MS),
    ],
)
def test_the_reach_of_subqueries_and_offsets_is_the_sum_along_the_longest_path(expr: str, reach: int) -> None:
    assert reach_ms(parse(expr), LOOKBACK_MS) == reach
    assert aggregation(expr).reach_ms == reach


def test_an_id_stays_what_it_was_so_that_stored_panes_keep_their_owner() -> None:
    ids = ["57c35d05cf012b7d", "0c8e17ed8dc4f10e", "e1e3d1f52c428542", "bef56ec8fa9afa08", "ceda4cec1e4f4ac1"]
    assert [a.id for a in KEPT] == ids
