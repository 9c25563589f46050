"""info(): labels of info metrics."""

import pytest

from precompute.errors import BadExpression, ExecutionError
from precompute.evaluate.functions.info import info_selector
from query.promql.parse import parse
from tests.precompute.evaluate.functions.asked import Asked, Drawn, rows

BASE = 'm{instance="a",job="1",own="x"}'
TARGET = 'target_info{instance="a",job="1",data="d",own="y"}'


def test_labels_of_the_same_instance_and_job_are_added() -> None:
    series = {BASE: [1], TARGET: [1], 'target_info{instance="b",job="1",data="e"}': [1]}
    assert rows(series, "info(m)", 0) == {"__name__=m,data=d,instance=a,job=1,own=x": [1]}


def test_only_labels_that_are_asked_for() -> None:
    series = {BASE: [1], 'target_info{instance="a",job="1",data="d",more="e"}': [1]}
    assert rows(series, 'info(m, {more=~".+"})', 0) == {"__name__=m,instance=a,job=1,more=e,own=x": [1]}


def test_a_row_without_the_data_asked_for_is_left_out_unless_it_may_lack_them() -> None:
    series = {BASE: [1], TARGET: [1]}
    assert rows(series, 'info(m, {data="other"})', 0) == {}
    assert list(rows(series, 'info(m, {data=~"other|", __name__="target_info"})', 0)) == [
        "__name__=m,instance=a,job=1,own=x"
    ]


def test_labels_that_change_split_a_series() -> None:
    old, new = (f'target_info{{instance="a",job="1",v="{v}"}}' for v in "12")
    series: Drawn = {'m{instance="a",job="1"}': [1, 2, 3], old: [1, 1, None], new: [None, None, 1]}
    assert rows(series, "info(m)", 0, 10, 20) == {
        "__name__=m,instance=a,job=1,v=1": [1, 2, None], "__name__=m,instance=a,job=1,v=2": [None, None, 3]
    }  # fmt: skip


def test_info_series_are_not_enriched_themselves() -> None:
    assert list(rows({TARGET: [1]}, 'info({job="1"})', 0)) == ["__name__=target_info,data=d,instance=a,job=1,own=y"]


def test_two_equally_new_series_are_an_error_where_they_are_looked_at() -> None:
    series = {BASE: [1], TARGET: [1], TARGET.replace('"d"', '"e"'): [1]}
    with pytest.raises(ExecutionError, match=r'existing \{__name__="target_info", .*\} @ 0, new \{__name__=.*\} @ 0'):
        Asked(series, "info(m)", 0)
    elsewhere = {'m{job="2"}': [1], **{k: v for k, v in series.items() if k != BASE}}
    assert list(rows(elsewhere, "info(m)", 0)) == ["__name__=m,job=2"]


def test_labels_of_two_info_metrics_must_agree() -> None:
    series = {BASE: [1], 'a_info{instance="a",job="1",d="1"}': [1], 'b_info{instance="a",job="1",d="2"}': [1]}
    with pytest.raises(ExecutionError, match="conflicting label: d"):
        Asked(series, 'info(m, {__name__=~".+_info"})', 0)
    series['b_info{instance="a",job="1",e="2"}'] = series.pop('b_info{instance="a",job="1",d="2"}')
    got = rows(series, 'info(m, {__name__=~".+_info"})', 0)
    assert list(got) == ["__name__=m,d=1,e=2,instance=a,job=1,own=x"]


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("info(m)", "target_info"),
        ("info(m offset 1m)", "target_info offset 1m"),
        ("info(sum_over_time(m[5m:1m] offset 3m) + m)", "target_info offset 3m"),
        ("info(sum_over_time((m offset 1m)[5m:1m] @ 9 offset 3m))", "target_info @ 9 offset 4m"),
        ("info(sum_over_time((m @ 7 offset 1m)[5m:1m] @ 9 offset 3m))", "target_info @ 7 offset 1m"),
        ('info(m, {a="b", __name__!="x_info"})', '{__name__=~".+_info",__name__!="x_info",a="b"}'),
        ("info(vector(1))", "target_info"),
    ],
)
def test_info_series_are_read_when_the_first_selector_is(text: str, selector: str) -> None:
    assert parse(text).args[1] == parse(selector)  # type: ignore[union-attr]
    assert info_selector(parse(text)) == parse(selector)  # type: ignore[arg-type]


def test_the_second_argument_is_a_selector() -> None:
    with pytest.raises(BadExpression, match="expected label selectors only"):
        parse("info(m, sum(x))")
