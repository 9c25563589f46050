"""The dashboards and the alerts in deploy/: each asks for metrics that are there, and a running ASAP answers it.

A running cluster does so in tests/cluster/test_watching.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.shown import (
    ALERTS,
    CLUSTER_ALERTS,
    CLUSTER_DASHBOARD,
    DASHBOARD,
    OF_EVERY_SCRAPE,
    alert_expressions,
    ask_promtool,
    asked,
    assert_fires,
    metrics,
    ours,
    panel_expressions,
    rules,
)
from tests.e2e.talking import named, write
from tests.running import Program, asap, poll_until

pytestmark = pytest.mark.e2e

EXPRESSIONS = [
    *(expression for path in (DASHBOARD, CLUSTER_DASHBOARD) for expression in panel_expressions(path)),
    *(expression for path in (ALERTS, CLUSTER_ALERTS) for expression in alert_expressions(path)),
]

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


FIRES_OF_A_CLUSTER = {
    "AsapShardUnheld": ('asap_shard_held{shard="1"}', "0x60"),
    "AsapShardLogNearlyFull": ('asap_shard_log_bytes{shard="1"}', "95x60"),
    "AsapShardBacklog": ('asap_shard_backlog_bytes{shard="1"}', "60x60"),
    "AsapNobodyListens": ('asap_shard_silent_seconds{shard="1"}', "20x60"),
    "AsapRedisUnreached": ("asap_silent_servers", "1x60"),
    "AsapClocksDiffer": ('asap_clock_ahead_seconds{server="redis://log"}', "-2x60"),
    "AsapFinalLags": ('asap_shard_final_lag_seconds{shard="1"}', "1000x60"),
    "AsapTicksFail": ('asap_shard_ticks_failed_total{shard="1"}', "0+1x60"),
    "AsapShardMoves": ('asap_shard_taken_total{shard="1"}', "0+1x60"),
    "AsapWorkerTicksStopped": ("asap_worker_last_tick_seconds", "1x60"),
    "AsapPanesDropped": ("asap_dropped_panes_total", "0+1x60"),
    "AsapStoringFails": ("asap_storing_failed_total", "0+1x60"),
    "AsapLogEntriesDamaged": ('asap_shard_damaged_entries_total{shard="1"}', "0+1x60"),
    "AsapFollowerBehind": ("asap_follower_behind_seconds", "40x60"),
    "AsapSchedulerSilent": ('asap_scheduler_messages_sent_total{task="place"}', "7x60"),
}

BESIDE_IN_A_CLUSTER = {
    'asap_shard_log_max_bytes{shard="1"}': "100x60",
    'asap_shard_backlog_max_bytes{shard="1"}': "100x60",
    "asap_worker_shards": "4x60",
}

ALL_WELL_IN_A_CLUSTER = {
    **BESIDE_IN_A_CLUSTER,
    **dict.fromkeys((series for series, _ in FIRES_OF_A_CLUSTER.values()), "0x60"),
    'asap_shard_held{shard="1"}': "1x60",
    "asap_worker_last_tick_seconds": "0+60x60",
    'asap_scheduler_messages_sent_total{task="place"}': "0+4x60",
}


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


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_is_one_of_ours(expression: str) -> None:
    for metric in metrics(expression):
        assert metric in OF_EVERY_SCRAPE or metric.removesuffix("_bucket") in ours(), metric


@pytest.mark.parametrize("expression", panel_expressions(DASHBOARD))
def test_every_panel_shows_something(running: Program, expression: str) -> None:
    assert bool(found(running, expression)) or metrics(expression) & NEED_AN_EVENT


def test_no_alert_fires_on_a_node_that_is_well(running: Program) -> None:
    for rule in rules(ALERTS):
        if not metrics(rule["expr"]) & NEED_AN_EVENT:
            assert found(running, rule["expr"]) == [], rule["alert"]


@pytest.mark.parametrize("alerts", [ALERTS, CLUSTER_ALERTS])
def test_prometheus_takes_the_alerts(alerts: Path) -> None:
    ask_promtool("check", "rules", str(alerts))


def test_every_alert_fires_when_it_should(tmp_path: Path) -> None:
    assert set(FIRES) == {rule["alert"] for rule in rules(ALERTS)}
    assert_fires(tmp_path, ALERTS, {**BESIDE, **dict(FIRES.values())}, dict.fromkeys(FIRES, 1))


def test_every_alert_of_a_cluster_fires_when_it_should(tmp_path: Path) -> None:
    assert set(FIRES_OF_A_CLUSTER) == {rule["alert"] for rule in rules(CLUSTER_ALERTS)}
    values = {**BESIDE_IN_A_CLUSTER, **dict(FIRES_OF_A_CLUSTER.values())}
    assert_fires(tmp_path, CLUSTER_ALERTS, values, dict.fromkeys(FIRES_OF_A_CLUSTER, 1))


def test_none_of_them_fires_where_all_is_well(tmp_path: Path) -> None:
    assert_fires(tmp_path, CLUSTER_ALERTS, ALL_WELL_IN_A_CLUSTER, {})


def test_a_scheduler_that_is_gone_is_silent(tmp_path: Path) -> None:
    gone = {series: values for series, values in ALL_WELL_IN_A_CLUSTER.items() if "scheduler" not in series}
    assert_fires(tmp_path, CLUSTER_ALERTS, gone, {"AsapSchedulerSilent": 1})


def test_a_worker_without_shards_need_not_tick(tmp_path: Path) -> None:
    idle = {**ALL_WELL_IN_A_CLUSTER, "asap_worker_last_tick_seconds": "1x60", "asap_worker_shards": "0x60"}
    assert_fires(tmp_path, CLUSTER_ALERTS, idle, {})
