"""What each kind of file says of queries: texts, how often, at which steps, how far back."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from query.promql.parse import parse
from query.workloads.base import Workload, WorkloadError, Zooms
from query.workloads.files import read

ZOOMS = Zooms(15_000, 15_000, (15_000, 60_000, 300_000))
HOUR_MS = 3_600_000


def written(folder: Path, name: str, content: Any) -> Workload:
    """A file of this name and content, read."""
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    elif name.endswith(".json"):
        path.write_bytes(orjson.dumps(content))
    elif name.endswith(".yaml"):
        path.write_text(yaml.safe_dump(content))
    else:
        path.write_bytes(b"\n".join(map(orjson.dumps, content)))
    return read(path, ZOOMS)


def forms(workload: Workload) -> list[tuple[tuple[int, str], ...]]:
    return [query.forms for query in workload.queries]


def board(*targets: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"title": "t", "panels": [{"title": "p", "targets": list(targets)}], **more}


# -- lines


def test_a_collection_has_an_expression_in_each_line(tmp_path: Path) -> None:
    found = written(tmp_path, "c.jsonl", [{"expr": "sum(m)", "kind": "alert"}, {"expr": "n"}])
    assert forms(found) == [((15_000, "sum(m)"),), ((15_000, "n"),)]
    assert found.queries[1].asking.origin == "c.jsonl:2"


def test_prometheus_query_log_is_counted_over_the_time_that_it_spans(tmp_path: Path) -> None:
    def line(minute: int, query: str, **params: Any) -> dict[str, Any]:
        return {"params": {"query": query, **params}, "ts": f"2026-02-08T14:{minute:02}:00.000Z", "stats": {}}

    ranged = {"start": "2026-02-08T13:00:00.000Z", "end": "2026-02-08T14:00:00.000Z", "step": 60}
    once = {"start": ranged["start"], "end": ranged["start"], "step": 0}
    lines = [line(minute, "sum(m)", **ranged) for minute in range(31)] + [line(3, "up", **once)]
    found = {query.forms: query.asking for query in written(tmp_path, "query.log", lines).queries}
    assert found[((60_000, "sum(m)"),)].per_hour == pytest.approx(62)
    assert found[((60_000, "sum(m)"),)].span_ms == HOUR_MS
    assert (found[((0, "up"),)].per_hour, found[((0, "up"),)].span_ms) == (2.0, 0)


def test_our_own_query_log_is_read_too(tmp_path: Path) -> None:
    lines = [
        {"ts": "2026-02-08T14:00:00.000+00:00", "query": "sum(m)", "start": 0.5, "end": 600.5, "step": 15.0},
        {"ts": "2026-02-08T14:30:00.000+00:00", "query": "up", "start": 1.0, "end": 1.0},
    ]  # fmt: skip
    found = {query.forms: query.asking for query in written(tmp_path, "q.log", lines).queries}
    assert found[((15_000, "sum(m)"),)].span_ms == 600_000
    assert found[((0, "up"),)].per_hour == 2.0


# -- dashboards


def test_a_range_that_follows_the_zoom_has_a_form_for_each_step(tmp_path: Path) -> None:
    found = written(tmp_path, "d.json", board({"expr": "rate(x[$__rate_interval])"}))
    assert forms(found) == [
        ((15_000, "rate(x[1m])"), (60_000, "rate(x[1m15s])"), (300_000, "rate(x[5m15s])")),
    ]  # fmt: skip


def test_the_least_step_of_a_panel_is_the_finest_that_is_asked(tmp_path: Path) -> None:
    found = written(tmp_path, "d.json", board({"expr": "rate(x[${__rate_interval}])", "interval": "1m"}, {"expr": "m"}))
    assert forms(found) == [((60_000, "rate(x[1m15s])"), (300_000, "rate(x[5m15s])")), ((15_000, "m"),)]


@pytest.mark.parametrize(
    ("expr", "filled"),
    [
        ('m{a=~"$job",b="${pod:regex}",c="[[node]]"}', 'm{a=~"VAR",b="VAR",c="VAR"}'),
        ("rate(x[$interval])", "rate(x[10m])"),
        ("rate(x[$unset])", "rate(x[5m])"),
        ("topk($limit, m)", "topk(7, m)"),
        ("sum by ($label) (m)", "sum by (zone) (m)"),
        ("increase(x[$__range])", "increase(x[6h])"),
        ("m * $__interval_ms + $__range_s", "m * 15000 + 21600"),
        ("m{a='it\\'s $x'} # no", "m{a='it\\'s VAR'} # no"),
    ],
)
def test_variables_are_filled_in(tmp_path: Path, expr: str, filled: str) -> None:
    values = {"interval": "10m", "limit": "7", "label": "zone", "unset": "$__all"}
    templating = {"list": [{"name": name, "current": {"value": value}} for name, value in values.items()]}
    found = written(tmp_path, "d.json", board({"expr": expr}, templating=templating, time={"from": "now-6h"}))
    (query,) = found.queries
    assert query.forms[0] == (15_000, filled)
    parse(filled)


def test_panels_of_rows_annotations_and_wrapped_dashboards_are_read_and_others_are_not(tmp_path: Path) -> None:
    dashboard = {
        "panels": [
            {"type": "row", "panels": [{"targets": [{"expr": "a"}]}]},
            {"targets": [{"expr": "hidden", "hide": True}, {"expr": ""}, {"rawSql": "select 1"}]},
            {"datasource": {"type": "loki"}, "targets": [{"expr": '{app="x"}'}]},
            {"targets": [{"datasource": {"type": "prometheus"}, "expr": "b", "instant": True}]},
        ],
        "rows": [{"panels": [{"targets": [{"expr": "c"}]}]}],
        "annotations": {"list": [{"expr": "d"}, {"expr": "off", "enable": False}]},
        "refresh": "30s", "time": {"from": "now-3h", "to": "now"},
    }  # fmt: skip
    found = written(tmp_path, "d.json", {"meta": {}, "dashboard": dashboard})
    assert [query.forms[0] for query in found.queries] == [(15_000, "a"), (0, "b"), (15_000, "c"), (15_000, "d")]
    assert {query.asking.per_hour for query in found.queries} == {120.0}
    assert [query.asking.span_ms for query in found.queries] == [3 * HOUR_MS, 0, 3 * HOUR_MS, 3 * HOUR_MS]


# -- rules and ASAPQuery's config


def test_rules_are_asked_at_any_time_as_often_as_their_group_says(tmp_path: Path) -> None:
    rules = {
        "groups": [
            {"name": "a", "interval": "30s", "rules": [{"record": "r", "expr": "sum(m)"}, {"alert": "A", "expr": 1}]},
            {"name": "b", "rules": [{"alert": "B", "expr": "up == 0", "for": "5m"}]},
        ]
    }
    for content in (rules, {"kind": "PrometheusRule", "spec": rules}):
        found = written(tmp_path, "r.yaml", content)
        assert forms(found) == [((0, "sum(m)"),), ((0, "1"),), ((0, "up == 0"),)]
        assert [query.asking.per_hour for query in found.queries] == [120.0, 120.0, 60.0]


def test_a_controller_config_says_how_often_how_exact_and_how_fast(tmp_path: Path) -> None:
    config = {
        "query_groups": [
            {"id": 1, "queries": ["quantile by (p) (0.99, m)"], "repetition_delay_ms": 10_000,
             "controller_options": {"accuracy_sla": 0.95, "latency_sla": 0.5}},
            {"queries": ["sum(rate(x[5m]))"], "repetition_delay": 300, "step": 60, "range_duration": 3600},
        ],
        "metrics": [{"metric": "m", "labels": ["p"]}],
        "sketch_parameters": {"DatasketchesKLL": {"K": 400}, "CountMinSketch": {"depth": 3, "width": 1024}},
    }  # fmt: skip
    found = written(tmp_path, "controller-config.yaml", config)
    first, second = (query.asking for query in found.queries)
    assert (first.per_hour, first.accuracy_sla, first.latency_ms) == (360.0, 0.95, 500.0)
    assert (second.per_hour, second.span_ms, second.accuracy_sla, second.latency_ms) == (12.0, HOUR_MS, None, 0.0)
    assert forms(found)[1] == ((60_000, "sum(rate(x[5m]))"),)
    assert found.quantile == "kll(k=400)"
    assert found.labels == {"m": frozenset("p")}
    assert [note for note in found.notes if "CountMinSketch" in note]


def test_what_of_a_controller_config_is_not_used_is_named(tmp_path: Path) -> None:
    group = {"queries": ["sum(m)"], "client_options": {}, "controller_options": {"memory_sla": 1}}
    config = {"query_groups": [group], "metrics": [{"metric": "m", "labels": [], "unit": "s"}], "store": {}}
    assert written(tmp_path, "controller-config.yaml", config).notes == (
        "controller-config.yaml: store is not used",
        "controller-config.yaml: metrics[0].unit is not used",
        "controller-config.yaml: query_groups[0].client_options is not used",
        "controller-config.yaml: query_groups[0].controller_options.memory_sla is not used",
    )


# -- what cannot be read

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("x.jsonl", "{", "x.jsonl:1 is no JSON"),
        ("x.jsonl", '{"expr": 5}', "x.jsonl:1: expr should be a string, not int"),
        ("x.jsonl", "[]", "x.jsonl:1 should be a mapping, not list"),
        ("x.log", '{"a": 1}\n{}', "x.log:1 has neither expr nor a query"),
        ("x.log", '{"query": "m", "step": -1}', "step should be a number above 0"),
        ("x.log", '{"query": "m", "ts": "yesterday"}', "ts should be a time"),
        ("x.json", '{"panels": 5}', "panels should be a list, not int"),
        ("x.json", '{"panels": [{"targets": [{"expr": ["m"]}]}]}', "expr should be a string, not list"),
        ("x.yaml", "a: [", "x.yaml is no YAML"),
        ("x.yaml", "a: 1", "has neither groups of rules nor query_groups"),
        ("x.yaml", "[1]", "should be a mapping"),
        ("x.yaml", "groups: [{rules: [{alert: A}]}]", "has no expr"),
        ("x.yaml", "groups: [{interval: soon, rules: []}]", "interval should be a duration"),
        ("x.yaml", f"{BOMB}groups: [{{rules: [{{expr: *i}}]}}]", "expr should be a string, not list"),
        ("x.yaml", f"{BOMB}groups: [{{interval: *i}}]", "interval should be a duration such as 30s, not list"),
        ("x.yaml", "query_groups: [{queries: m}]", "queries should be a list"),
        ("x.yaml", "query_groups: [{queries: [m], repetition_delay: .nan}]", "should be a number above 0"),
        ("x.yaml", "query_groups: [{queries: [m], controller_options: {accuracy_sla: 2}}]", "should be below 1"),
        ("x.yaml", "query_groups: []\nsketch_parameters: {DatasketchesKLL: {K: 1}}", "K: k should be between"),
    ],
)  # fmt: skip
def test_what_is_no_workload_is_one_clear_error(tmp_path: Path, name: str, content: str, told: str) -> None:
    with pytest.raises(WorkloadError) as error:
        written(tmp_path, name, content)
    assert told in str(error.value)
    assert len(str(error.value)) < 300


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be read: No such file"):
        read(tmp_path / "no.json", ZOOMS)


@pytest.mark.parametrize("depth", [500, 200_000])
def test_deep_nesting_ends_in_an_answer(tmp_path: Path, depth: int) -> None:
    nested = '{"panels":[' * depth + "]}" * depth
    with suppress(WorkloadError):
        assert written(tmp_path, "x.json", nested).queries == ()
    with pytest.raises(WorkloadError):
        written(tmp_path, "x.yaml", "[" * depth + "]" * depth)
