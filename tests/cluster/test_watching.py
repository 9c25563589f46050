"""A Prometheus that scrapes every role of a running cluster: each panel shows something, no alert fires."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from precompute.clock import SystemClock
from tests.cluster.roles import Cluster, Counts, cluster, ground
from tests.deploy.shown import ALERTS, CLUSTER_ALERTS, CLUSTER_DASHBOARD, asked, ours, panel_expressions, rules
from tests.e2e.talking import named, write
from tests.running import Program, poll_until, prometheus

pytestmark = pytest.mark.e2e

CONFIG: dict[str, Any] = {
    "engine": {"minibatch": {"window_size": "1s", "allowed_lateness": "1s", "shards": 4}},
    "aggregations": [{"expr": "m", "by": ["job"], "accumulators": ["sum"]}],
}
SHOWN_S, WELL_S, UNHEALTHY_S = 60.0, 60.0, 60.0
OF_A_CLUSTER = (
    "asap_append", "asap_clock_ahead", "asap_dropped", "asap_follower", "asap_kicks", "asap_merged", "asap_packs",
    "asap_scheduler", "asap_shard", "asap_silent", "asap_stor", "asap_worker",
)  # fmt: skip
"""What begins so, only a cluster's roles show."""


@dataclass(frozen=True)
class Watched:
    """A cluster and who scrapes it."""

    many: Cluster
    prometheus: Program

    def found(self, expression: str) -> list[dict[str, Any]]:
        answer = self.prometheus.get("/api/v1/query", query=asked(expression))
        assert answer.status == 200, f"{expression}: {answer.body!r}"
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        groups = self.prometheus.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


@pytest.fixture
def watched(tmp_path: Path, prometheus_binary: str) -> Iterator[Watched]:
    """Written to and asked once."""
    with (
        ground("everysec", "everysec") as below,
        cluster(tmp_path / "cluster", below, CONFIG, Counts(ingest=1, query_engines=1, workers=2)) as many,
        prometheus(prometheus_binary, tmp_path / "prometheus", scraping(many)) as scraper,
    ):
        now_ms = SystemClock().now_ms()
        rows = [(named("m", job="a", i=str(i)), [(now_ms, float(i))]) for i in range(20)]
        assert write(many.ingests[0].running, rows).status == 204
        many.query_engines[0].running.get("/api/v1/query", query="sum(m)")
        yield Watched(many, scraper)


def scraping(many: Cluster) -> str:
    """The config of a Prometheus with the rules of deploy/, in a hurry."""
    targets = [urlsplit(role.url).netloc for role in many.roles]
    whole = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS), str(CLUSTER_ALERTS)],
        "scrape_configs": [{"job_name": "asap", "static_configs": [{"targets": targets}]}],
    }
    return yaml.safe_dump(whole)


def test_a_prometheus_sees_a_cluster_that_is_well_and_then_a_redis_that_is_gone(watched: Watched) -> None:
    """One story, so that one cluster is enough."""
    assert_healthy_and_ready(watched)
    for expression in panel_expressions(CLUSTER_DASHBOARD):
        poll_until(lambda asked=expression: watched.found(asked), SHOWN_S, f"{expression} shows something", 0.5)
    assert_every_metric_of_a_cluster_is_shown(watched)
    assert_no_alert_fires_or_is_about_to(watched)
    watched.many.ground.logs[1].stop()
    assert_it_is_noticed(watched, watched.many.ground.logs[1].url)


def assert_healthy_and_ready(watched: Watched) -> None:
    for role in watched.many.roles:
        for page in ("/-/healthy", "/-/ready"):
            assert role.running.get(page).status == 200, role.name


def assert_every_metric_of_a_cluster_is_shown(watched: Watched) -> None:
    answer = watched.prometheus.get("/api/v1/label/__name__/values")
    lacking = {name for name in ours() if name.startswith(OF_A_CLUSTER)} - set(answer.json()["data"])
    assert lacking == set()


def assert_no_alert_fires_or_is_about_to(watched: Watched) -> None:
    def are_well() -> bool:
        return all((rule["health"], rule["state"]) == ("ok", "inactive") for rule in watched.rules())

    poll_until(lambda: watched.rules() and are_well(), WELL_S, "all alerts are inactive", 0.5)
    names = {rule["alert"] for path in (ALERTS, CLUSTER_ALERTS) for rule in rules(path)}
    assert {rule["name"] for rule in watched.rules()} == names


def assert_it_is_noticed(watched: Watched, url: str) -> None:
    """By ingest, which is unhealthy, and by Prometheus; what the other Redis has is shown on."""
    ingest = watched.many.ingests[0].running
    poll_until(lambda: ingest.get("/-/healthy").status == 503, UNHEALTHY_S, "ingest is unhealthy", 0.5)
    said = f"Redis at {url} has taken no heartbeat"
    poll_until(lambda: said in ingest.get("/-/healthy").body.decode(), UNHEALTHY_S, f"ingest says: {said}", 0.5)

    def alerts() -> bool:
        return "AsapRedisUnreached" in {rule["name"] for rule in watched.rules() if rule["state"] != "inactive"}

    def held() -> list[str]:
        return [row["value"][1] for row in watched.found("count(count by (shard) (asap_shard_held))")]

    poll_until(alerts, UNHEALTHY_S, "an alert is pending", 0.5)
    poll_until(lambda: held() == ["2"], UNHEALTHY_S, "the other Redis' shards are shown", 0.5)
