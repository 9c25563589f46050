"""The dashboards and the alerts in deploy/, taken apart for tests."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from precompute.evaluate.expr import selectors
from query.promql.parse import parse
from tests.running import ROOT

_PROMETHEUS, _GRAFANA = ROOT / "deploy" / "prometheus", ROOT / "deploy" / "grafana" / "dashboards"
ALERTS, CLUSTER_ALERTS = _PROMETHEUS / "asap-alerts.yml", _PROMETHEUS / "asap-cluster-alerts.yml"
DASHBOARD, CLUSTER_DASHBOARD = _GRAFANA / "asap.json", _GRAFANA / "asap-cluster.json"

OF_EVERY_SCRAPE = frozenset({"up", "process_resident_memory_bytes", "process_cpu_seconds_total"})


def rules(alerts: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(alerts.read_text())["groups"] for rule in group["rules"]]


def alert_expressions(alerts: Path) -> list[str]:
    return [rule["expr"] for rule in rules(alerts)]


def panel_expressions(dashboard: Path) -> list[str]:
    panels = json.loads(dashboard.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def asked(expression: str) -> str:
    """With what Grafana puts in for its variable."""
    return expression.replace("$__rate_interval", "20s")


def metrics(expression: str) -> set[str]:
    return {str(selector.metric()) for selector in selectors(parse(asked(expression)))}


def ours() -> set[str]:
    """Every metric that docs/metrics.md names."""
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    return set(re.findall(r"^\| `(asap_\w+)` \|", page, re.MULTILINE))


def assert_fires(folder: Path, alerts: Path, values: Mapping[str, str], firing: Mapping[str, int]) -> None:
    """By promtool: of these series, with their values at each minute of an hour, so many of each alert fire at its
    end, and no others."""
    expected = [{"labels": f'{{alertname="{name}"}}', "value": count} for name, count in firing.items()]
    asks = {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "1h", "exp_samples": expected}
    series = [{"series": _scraped(name), "values": text} for name, text in values.items()]
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": [asks]}]
    path = folder / "alerts.test.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(alerts)], "tests": tests}))
    ask_promtool("test", "rules", str(path))


def _scraped(series: str) -> str:
    """With the labels that a scrape gives it."""
    name, _, labels = series.rstrip("}").partition("{")
    return f'{name}{{instance="a:1",job="asap",{labels}}}'


def ask_promtool(*words: str) -> None:
    """AssertionError with what it prints where it does not agree."""
    done = subprocess.run([promtool(), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def promtool() -> str:
    """Of the package prometheus, like the program."""
    path = shutil.which("promtool")
    if path is None:
        (pytest.fail if os.environ.get("CI") == "1" else pytest.skip)("needs promtool (Debian package prometheus)")
    return path
