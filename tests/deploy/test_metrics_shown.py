"""The dashboard and the alerts in deploy/: each asks for metrics that are there, and a running ASAP answers it."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from precompute.evaluate.expr import selectors
from query.promql.parse import parse
from tests.e2e.talking import named, write
from tests.running import ROOT, Program, asap, poll_until

pytestmark = pytest.mark.e2e

ALERTS = ROOT / "deploy" / "prometheus" / "asap-alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "asap.json"

OF_EVERY_SCRAPE = frozenset({"up", "process_resident_memory_bytes", "process_cpu_seconds_total"})

NEED_AN_EVENT = frozenset({"asap_ingest_samples_refused_total", "asap_http_requests_refused_total"})
"""Metrics that show nothing on a node where all is well and nobody logs in."""

FIRES = {
    "AsapDown": ("up", "0x60"),
    "AsapTicksStopped": ("asap_last_tick_seconds", "1x60"),
    "AsapSummariesLate": ("asap_newest_pane_seconds", "1x60"),
    "AsapPanesBehind": ("asap_panes_behind", "3x60"),
    "AsapWritesRefused": ('asap_ingest_requests_total{code="503"}', "0+1x60"),
    "AsapSamplesRefused": ('asap_ingest_samples_refused_total{reason="x"}', "0+1x60"),
    "AsapHeadNearlyFull": ("asap_head_bytes", "95x60"),
    "AsapLogNearlyFull": ("asap_log_bytes", "95x60"),
    "AsapLogDamaged": ("asap_log_damaged_records", "1x60"),
    "AsapClockMoved": ("asap_clock_drift_seconds", "-6x60"),
    "AsapQueriesFail": ('asap_query_requests_total{code="503"}', "0+1x60"),
    "AsapQueriesSlow": ('asap_query_seconds_bucket{endpoint="query",le="10"}', "0+9x60"),
    "AsapLoginsRefused": ('asap_http_requests_refused_total{reason="unauthorized"}', "0+60x60"),
    "AsapQueryLogLosesLines": ("asap_query_log_lines_lost_total", "0+1x60"),
    "AsapOutsideBound": ("asap_watch_outside_total", "0+1x60"),
}
"""For each alert the series, and its values at each minute, that make it fire."""

BESIDE = {
    "asap_sealed_seconds": "4000x60",
    "asap_head_max_bytes": "100x60",
    "asap_log_max_bytes": "100x60",
    'asap_query_requests_total{code="200"}': "0+1x60",
    'asap_query_seconds_bucket{endpoint="query",le="2.5"}': "0+1x60",
    'asap_query_seconds_bucket{endpoint="query",le="+Inf"}': "0+9x60",
}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def alert_expressions() -> list[str]:
    return [rule["expr"] for rule in rules()]


def panel_expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def asked(expression: str) -> str:
    """With what Grafana puts in for its variable."""
    return expression.replace("$__rate_interval", "20s")


def metrics(expression: str) -> set[str]:
    return {str(selector.metric()) for selector in selectors(parse(asked(expression)))}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A node that scrapes itself, summarises, was written to and was asked."""
    config = {
        "ingest": {"self_scrape": True},
        "query_engine": {"prometheus_scrape_interval": "1s"},
        "engine": {"minibatch": {"window_size": "1s", "allowed_lateness": "1s"}},
        "aggregations": [{"expr": "up", "by": ["job"], "accumulators": ["sum"]}],
    }
    with asap(tmp_path_factory.mktemp("shown"), config) as node:
        assert write(node, [(named("x"), [(1, 1.0)])]).status == 400, "too old"
        poll_until(lambda: found(node, 'rate(asap_ticks_total{job="asap"}[20s]) > 0'), 30, "two scrapes")
        poll_until(lambda: found(node, 'rate(asap_query_requests_total{endpoint="query"}[20s]) > 0'), 30, "queries")
        poll_until(lambda: found(node, 'asap_query_steps_total{tier="head"} > 0'), 30, "steps of the head")
        yield node


def found(node: Program, expression: str) -> Any:
    answer = node.get("/api/v1/query", query=asked(expression))
    assert answer.status == 200, f"{expression}: {answer.body!r}"
    return answer.json()["data"]["result"]


@pytest.mark.parametrize("expression", [*panel_expressions(), *alert_expressions()])
def test_every_metric_is_one_of_ours(expression: str) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    ours = set(re.findall(r"^\| `(asap_\w+)` \|", page, re.MULTILINE))
    for metric in metrics(expression):
        assert metric in OF_EVERY_SCRAPE or metric.removesuffix("_bucket") in ours, metric


@pytest.mark.parametrize("expression", panel_expressions())
def test_every_panel_shows_something(running: Program, expression: str) -> None:
    assert bool(found(running, expression)) or metrics(expression) & NEED_AN_EVENT


def test_no_alert_fires_on_a_node_that_is_well(running: Program) -> None:
    for rule in rules():
        if not metrics(rule["expr"]) & NEED_AN_EVENT:
            assert found(running, rule["expr"]) == [], rule["alert"]


def test_prometheus_takes_the_alerts() -> None:
    done = subprocess.run([promtool(), "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_should(tmp_path: Path) -> None:
    assert set(FIRES) == {rule["alert"] for rule in rules()}
    values = {**BESIDE, **dict(FIRES.values())}
    firing = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "1h",
        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in FIRES],
    }
    series = [{"series": scraped(name), "values": text} for name, text in values.items()]
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": [firing]}]
    path = tmp_path / "alerts.test.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": tests}))
    done = subprocess.run([promtool(), "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def scraped(series: str) -> str:
    """With the labels that a scrape gives it."""
    name, _, labels = series.rstrip("}").partition("{")
    return f'{name}{{instance="a:1",job="asap",{labels}}}'


def promtool() -> str:
    """Of the package prometheus, like the program."""
    path = shutil.which("promtool")
    if path is None:
        (pytest.fail if os.environ.get("CI") == "1" else pytest.skip)("needs promtool (Debian package prometheus)")
    return path
