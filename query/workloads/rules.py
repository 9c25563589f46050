"""Rule files of Prometheus: groups of recording and alerting rules; a PrometheusRule of its operator too."""

from collections.abc import Iterator, Mapping
from typing import Any

from precompute.planner.demand import Asking
from query.workloads.base import DEFAULT_REPETITION_S, Query, Workload, WorkloadError, items, per_hour, shown, text_of
from query.workloads.durations import duration_ms


def read(document: Mapping[str, Any], name: str) -> Workload:
    """Raises WorkloadError where it is no rule file."""
    return Workload(tuple(_rules(document, name)))


def _rules(document: Mapping[str, Any], name: str) -> Iterator[Query]:
    for place, group in items(document.get("groups"), f"{name}: groups"):
        every_s = _interval_s(group.get("interval"), f"{place}.interval")
        for where, rule in items(group.get("rules"), f"{place}.rules"):
            if "expr" not in rule:
                raise WorkloadError(f"{where} has no expr")
            # YAML reads `expr: 1` as a number, which is PromQL too
            written = rule["expr"]
            expr = text_of(str(written) if isinstance(written, (int, float)) else written, f"{where}.expr")
            called = rule.get("record") or rule.get("alert")
            origin = f"{name}: {called if isinstance(called, str) else where}"
            yield Query(((0, expr),), Asking(per_hour(every_s), origin=origin))


def _interval_s(value: Any, what: str) -> float:
    if value is None:
        return DEFAULT_REPETITION_S
    if (found := duration_ms(value)) is None:
        raise WorkloadError(f"{what} should be a duration such as 30s, not {shown(value)}")
    return found / 1000
