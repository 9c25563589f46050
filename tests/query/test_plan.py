"""Which parts of a query summaries may answer."""

import pytest

from precompute.aggregations import Aggregation
from precompute.sketches.registry import ACCUMULATORS
from query.plan import plan
from query.promql.parse import parse

KEPT = Aggregation(parse("rate(x_total[5m])"), ("job",), False, tuple(ACCUMULATORS), 15_000, 300_000, 3_600_000)


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
    assert plan(parse(text), (KEPT,), 300_000).from_summaries


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
    planned = plan(parse(text), (KEPT,), 300_000)
    assert not planned.from_summaries and planned.reasons
