"""What a server tells of itself: versions, config, flags, process, head and log."""

import dataclasses
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.apps import apps
from django.test import Client

from tests.query.api.asking import data, error, get
from tests.query.served import NOW_MS, Served, served

pytestmark = pytest.mark.urls("query.urls")


def test_buildinfo_names_a_version_of_the_api_and_our_own(node: Served, client: Client) -> None:
    info = data(get(client, "/api/v1/status/buildinfo"))
    assert info["version"].startswith("3.")
    assert info["asap"] == node.parts.version


def test_runtimeinfo_is_that_of_this_process(node: Served, client: Client) -> None:
    info = data(get(client, "/api/v1/status/runtimeinfo"))
    started, now = (datetime.fromisoformat(info[name]).timestamp() * 1000 for name in ("startTime", "serverTime"))
    assert (started, now) == (NOW_MS, NOW_MS)
    assert info["CWD"] == str(Path.cwd())
    assert info["timeSeriesCount"] == 2
    assert info["goroutineCount"] >= threading.active_count() > 1
    assert info["GOMAXPROCS"] >= 1
    assert (info["storageRetention"], info["corruptionCount"], info["reloadConfigSuccess"]) == ("2h", 0, True)


def test_the_config_is_shown_without_its_credentials(tmp_path: Path, client: Client, monkeypatch: Any) -> None:
    with served(tmp_path, prometheus_server="http://ann:tops3cret@there:9090/x") as node:
        monkeypatch.setattr(apps.get_app_config("query"), "parts", node.parts)
        shown = yaml.safe_load(data(get(client, "/api/v1/status/config"))["yaml"])
        flags = data(get(client, "/api/v1/status/flags"))
    assert shown["query_engine"]["prometheus_server"] == "http://ann:***@there:9090/x"
    assert shown["engine"]["minibatch"]["window_size"] == "15s"
    assert flags["query-engine.prometheus-server"] == "http://ann:***@there:9090/x"
    assert flags["query-engine.http-port"] == "8088"
    assert (flags["scrape"], flags["database.url"]) == ("[]", '""')
    assert all(isinstance(value, str) for value in flags.values())


def test_the_head_is_counted_by_metric_label_and_pair(node: Served, client: Client) -> None:
    node.write({"__name__": "other", "job": "c"}, [(NOW_MS, 1.0)])
    told = data(get(client, "/api/v1/status/tsdb"))
    stats = told["headStats"]
    assert (stats["numSeries"], stats["numLabelPairs"]) == (3, 6)
    assert (stats["minTime"], stats["maxTime"]) == (NOW_MS - 60_000, NOW_MS)
    assert stats["chunkCount"] == 3
    assert told["seriesCountByMetricName"] == [{"name": "up", "value": 2}, {"name": "other", "value": 1}]
    assert told["labelValueCountByLabelName"] == [
        {"name": "job", "value": 3}, {"name": "__name__", "value": 2}, {"name": "zone", "value": 1}
    ]  # fmt: skip
    bytes_ = {one["name"]: one["value"] for one in told["memoryInBytesByLabelName"]}
    assert bytes_ == {"__name__": 2 * 10 + 13, "job": 3 * 4, "zone": 2 * 6}
    assert told["seriesCountByLabelValuePair"][:2] == [
        {"name": "__name__=up", "value": 2}, {"name": "zone=é", "value": 2}
    ]  # fmt: skip
    assert len(told["seriesCountByLabelValuePair"]) == 6


def test_a_limit_shortens_each_ranking(node: Served, client: Client) -> None:
    told = data(get(client, "/api/v1/status/tsdb", limit=1))
    assert [len(told[name]) for name in told if name != "headStats"] == [1, 1, 1, 1]
    assert told["labelValueCountByLabelName"] == [{"name": "job", "value": 2}]
    refused = error(get(client, "/api/v1/status/tsdb", limit=0))
    assert refused == (400, "bad_data", "limit must be a positive number")


def test_an_empty_head_has_prometheus_times_of_nothing(tmp_path: Path, client: Client, monkeypatch: Any) -> None:
    with served(tmp_path) as node:
        monkeypatch.setattr(apps.get_app_config("query"), "parts", node.parts)
        told = data(get(client, "/api/v1/status/tsdb"))
    assert told["headStats"] == {
        "numSeries": 0, "numLabelPairs": 0, "chunkCount": 0, "minTime": 2**63 - 1, "maxTime": -(2**63)
    }  # fmt: skip
    assert told["seriesCountByMetricName"] == told["memoryInBytesByLabelName"] == []


def test_the_replay_is_told_while_nothing_else_is(node: Served, client: Client, monkeypatch: Any) -> None:
    rebuilding = dataclasses.replace(node.parts, ready=lambda: "the head is being rebuilt")
    monkeypatch.setattr(apps.get_app_config("query"), "parts", rebuilding)
    assert data(get(client, "/api/v1/status/walreplay")) == {"min": 0, "max": 2, "current": 2}
    assert error(get(client, "/api/v1/status/tsdb"))[:2] == (503, "unavailable")
