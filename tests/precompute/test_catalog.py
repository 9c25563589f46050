"""What an aggregation covers, and each reason why one does not."""

from dataclasses import replace

import pytest

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, cover, requirement_of
from precompute.errors import BadExpression
from precompute.evaluate.expr import Aggregate
from precompute.normal import reach_ms
from query.promql.parse import parse
from tests.precompute.made_node import LOOKBACK_MS, aggregation

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
