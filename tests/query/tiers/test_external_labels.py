"""What is asked of an upstream with external labels has the answer that the series which it sends here have."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.errors import Unsupported
from precompute.evaluate.expr import Matcher
from precompute.matchers import Condition
from query.answers import Answer
from query.api import encode
from query.promql.parse import parse, parse_selector
from query.tiers.external_labels import ExternalLabels
from query.tiers.upstream_text import query_text
from tests.query.served import NOW_MS, Served, served

EU = ExternalLabels({"cluster": "eu"})
ODD = ExternalLabels({"cluster": "e.u$1|", "zone": "z"})

SERIES: tuple[Mapping[str, str], ...] = (
    {"__name__": "m", "job": "a", "pod": "1"},
    {"__name__": "m", "job": "a", "pod": "2"},
    {"__name__": "m", "job": "b", "pod": "1"},
    {"__name__": "m", "job": "b", "pod": "3", "cluster": "us"},
    {"__name__": "m", "job": "c", "pod": "4", "cluster": "eu"},
    {"__name__": "n", "job": "a"},
    {"__name__": "n", "job": "b", "cluster": "us"},
    {"__name__": "h_bucket", "job": "a", "le": "1"},
    {"__name__": "h_bucket", "job": "a", "le": "+Inf"},
    {"__name__": "target_info", "job": "a", "instance": "i", "version": "7"},
    {"__name__": "k", "job": "a", "instance": "i"},
)

QUERIES = (
    "m", "m + 1", "-m", "m > 2", "sum(m)", "sum by (job) (m)", "sum by (cluster) (m)", "sum without (pod) (m)",
    "count by (cluster, job) (rate(m[1m]))", "avg by (job) (rate(m[1m]))", "rate(m[1m])", "last_over_time(m[1m])",
    "topk(1, m)", "topk by (job) (1, m)", "bottomk(2, m)", 'count_values("cluster", m)',
    'count_values by (cluster) ("v", m)',
    'quantile by (job) (scalar(n{job="a"}) / 100, m)', "m * on (job) group_left (cluster) n",
    "m * on (job, cluster) group_left () n",
    "m and n", "m and on (cluster) n", "m or n", "m unless on (job, cluster) n", "m / ignoring (pod) group_left () n",
    "max_over_time(m[1m:15s])", "max_over_time(sum by (cluster) (m)[1m:15s])",
    "sum(max_over_time(rate(m[30s])[1m:15s]))",
    "timestamp(m)", "timestamp(m + 0)", "sum by (cluster) (timestamp(m))", "absent(m)", "absent(nothing)",
    'absent(nothing{cluster="eu"})', 'absent(nothing{cluster="us"})', 'absent(nothing{cluster="eu",cluster!="x"})',
    'absent(nothing{cluster="eu",job="a"})', 'absent(nothing{cluster=~"eu"})', 'absent(nothing{cluster=""})',
    'absent(sum(nothing{cluster="eu"}))', 'absent_over_time(nothing{cluster="eu"}[1m])', 'absent_over_time(m[1m])',
    'absent_over_time(nothing{cluster="eu"}[1m:15s])', 'absent(m{cluster="eu"})', 'absent(m{cluster="asia"})',
    "scalar(sum(m))", "vector(1)", "m offset 15s", "m @ end()", "rate(m[1m] offset 15s)", "sort(m)", "sort_desc(m)",
    'sort_by_label(m, "cluster")', "histogram_quantile(0.5, h_bucket)", "histogram_quantile(0.5, rate(h_bucket[1m]))",
    'label_replace(m, "x", "$1", "cluster", "(.*)")', 'label_replace(m, "cluster", "x", "job", "a")',
    'label_join(m, "x", "-", "cluster", "job")', "info(k)", 'info(k, {version=~".+"})',
    "quantile_over_time(0.5, m[1m])",
    "quantile_over_time(scalar(sum(n)), m[1m])", "group by (job) (m)", "limitk(1, sum by (cluster) (m))", "abs(m)",
    "sum(m) by (job) / sum(n) by (job)", '{__name__=~"m|n"}', 'count by (__name__) ({__name__=~"m|n"})', "time()",
    'm{cluster="eu"}', 'm{cluster="us"}', 'm{cluster=""}', 'm{cluster!="eu"}', 'm{cluster!="us"}', 'm{cluster!=""}',
    'm{cluster=~"eu"}', 'm{cluster=~"eu|us"}', 'm{cluster=~".*"}', 'm{cluster=~".+"}', 'm{cluster=~"us|"}',
    'm{cluster=~"us"}',
    'm{cluster!~"eu"}', 'm{cluster!~"us"}', 'm{cluster!~".+"}', 'm{cluster!~"eu|"}', 'm{cluster!~""}',
    'm{cluster=~"e.*",cluster!="us"}', '{cluster="eu"}', '{cluster!=""}', '{cluster="us"}', '{cluster="eu",job="a"}',
    'sum(rate(m{cluster="eu"}[1m])) / sum(rate(m[1m]))',
)  # fmt: skip


def write(node: Served, external: ExternalLabels | None) -> None:
    for size, labels in enumerate(SERIES):
        points = [(NOW_MS - 15_000 * k, float(size * (9 - k))) for k in range(8, -1, -1)]
        node.write(external.added_to(labels) if external else labels, points)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("here"), experimental_functions=True) as node:
        write(node, EU)
        yield node


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("there"), experimental_functions=True) as node:
        write(node, None)
        yield node


def asked(node: Served, text: str) -> Any:
    made = node.parts.engine.range(text, NOW_MS - 30_000, NOW_MS, 15_000)
    assert isinstance(made, Answer)
    rows = json.loads(encode.answer(made))["data"]["result"]
    return sorted(rows, key=lambda row: sorted(row["metric"].items()))


@pytest.mark.parametrize("text", QUERIES)
def test_the_upstreams_answer_is_ours(here: Served, there: Served, text: str) -> None:
    assert asked(there, query_text(EU.expr(parse(text)))) == asked(here, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("up", 'label_replace(up, "cluster", "eu", "cluster", "")'),
        ('up{cluster="eu"}', 'label_replace(up{cluster=~"eu|"}, "cluster", "eu", "cluster", "")'),
        ('abs(up{cluster!="eu"})', 'abs(label_replace(up{cluster!="",cluster!="eu"}, "cluster", "eu", "cluster", ""))'),
        ("rate(up[5m])", 'label_replace(rate(up[5m]), "cluster", "eu", "cluster", "")'),
        ("sum by (job) (rate(up[5m]))", "sum by (job)(rate(up[5m]))"),
        ("sum(up)", "sum(up)"),
        ("sum without (job) (up)", 'sum without (job)(label_replace(up, "cluster", "eu", "cluster", ""))'),
        ('{cluster!=""}', 'label_replace({__name__!=""}, "cluster", "eu", "cluster", "")'),
        ("up[5m]", "up[5m]"),
        ('up{cluster="eu"}[5m]', 'up{cluster=~"eu|"}[5m]'),
    ],
)  # fmt: skip
def test_what_is_asked(text: str, expected: str) -> None:
    assert query_text(EU.expr(parse(text))) == expected


def test_without_external_labels_nothing_changes() -> None:
    none = ExternalLabels({"__name__": "x", "empty": ""})
    assert not none
    assert none.expr(parse("sum(up)")) == parse("sum(up)")
    assert none.matchers(parse_selector('up{empty="x"}')) == parse_selector('up{empty="x"}')


def test_odd_values_are_quoted_for_patterns_and_for_label_replace() -> None:
    assert ODD.matchers((Matcher("__name__", "=", "up"), Matcher("cluster", "=", "e.u$1|"))) == (
        Matcher("__name__", "=", "up"), Matcher("cluster", "=~", r"e\.u\$1\||"),
    )  # fmt: skip
    assert query_text(ODD.expr(parse("up"))) == (
        'label_replace(label_replace(up, "cluster", "e.u$$1|", "cluster", ""), "zone", "z", "zone", "")'
    )


@pytest.mark.parametrize("text", ['up{cluster!~"us|"}', 'rate(up{cluster!~"(us)?"}[5m])', 'info(up, {cluster="eu"})'])
def test_what_cannot_be_said_is_told(text: str) -> None:
    with pytest.raises(Unsupported, match=r"external.* is not supported"):
        EU.expr(parse(text))


VALUES = st.sampled_from(["", "eu", "us", "eu2", "e"])
MATCHERS = st.one_of(
    st.builds(Matcher, st.just("cluster"), st.sampled_from(["=", "!="]), VALUES),
    st.builds(
        Matcher, st.just("cluster"), st.sampled_from(["=~", "!~"]),
        st.sampled_from(["", "eu", "us", "e.*", ".*", ".+", "eu|us", "us|", "|eu", "e?u?", "(?i)EU"]),
    ),
)  # fmt: skip


@given(st.lists(MATCHERS, min_size=1, max_size=3), VALUES)
def test_a_series_is_selected_there_if_it_is_selected_here(matchers: list[Matcher], own: str) -> None:
    try:
        made = EU.matchers((*matchers, Matcher("__name__", "=", "up")))
    except Unsupported:
        return
    labels = {"__name__": "up"} | ({"cluster": own} if own else {})
    here = EU.added_to(labels)
    assert all(Condition(m).accepts(labels.get(m.name, "")) for m in made) == all(
        Condition(m).accepts(here.get(m.name, "")) for m in matchers
    )
