"""ASAPQuery's `controller-config.yaml`: groups of queries with how often they are asked, and targets.

Delays, steps and ranges are seconds, or milliseconds where their key ends in `_ms`; `latency_sla` is in seconds.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from precompute.planner.demand import Asking
from precompute.sketches.registry import canonical
from query.workloads.base import (
    DEFAULT_REPETITION_S,
    Query,
    Workload,
    WorkloadError,
    items,
    mapping,
    number,
    per_hour,
    text_of,
)

_KLL = "DatasketchesKLL"
_READ = ("query_groups", "metrics", "sketch_parameters", "aggregate_cleanup")
_READ_OF_GROUPS = (
    "id", "queries", "controller_options",
    *(f"{key}{unit}" for key in ("repetition_delay", "step", "range_duration") for unit in ("", "_ms")),
)  # fmt: skip
_READ_OF_OPTIONS = ("accuracy_sla", "latency_sla")


def read(document: Mapping[str, Any], name: str) -> Workload:
    """Raises WorkloadError where it is no such config."""
    sketches = mapping(document.get("sketch_parameters") or {}, f"{name}: sketch_parameters")
    return Workload(
        tuple(_queries(document, name)), _quantile(sketches, name), _labels(document, name),
        tuple(_notes(document, sketches, name)),
    )  # fmt: skip


def _queries(document: Mapping[str, Any], name: str) -> Iterator[Query]:
    for place, group in items(document.get("query_groups"), f"{name}: query_groups"):
        queries = group.get("queries")
        if not isinstance(queries, list):
            raise WorkloadError(f"{place}.queries should be a list")
        asking, step_ms = _asking(group, place), round(1000 * (_seconds(group, "step", place) or 0))
        for number_, query in enumerate(queries):
            yield Query(((step_ms, text_of(query, f"{place}.queries[{number_}]")),), asking)


def _asking(group: Mapping[str, Any], place: str) -> Asking:
    options = mapping(group.get("controller_options") or {}, f"{place}.controller_options")
    accuracy, latency = options.get("accuracy_sla"), options.get("latency_sla")
    if accuracy is not None and number(accuracy, f"{place}: accuracy_sla") >= 1:
        raise WorkloadError(f"{place}: accuracy_sla should be below 1, not {accuracy:g}")
    return Asking(
        per_hour(_seconds(group, "repetition_delay", place) or DEFAULT_REPETITION_S),
        round(1000 * (_seconds(group, "range_duration", place) or 0)),
        accuracy,
        1000 * number(latency, f"{place}: latency_sla") if latency is not None else 0.0,
        place,
    )


def _seconds(group: Mapping[str, Any], key: str, place: str) -> float | None:
    for name, unit_s in ((key, 1.0), (f"{key}_ms", 0.001)):
        if group.get(name) is not None:
            return unit_s * number(group[name], f"{place}.{name}")
    return None


def _quantile(sketches: Mapping[str, Any], name: str) -> str:
    """The KLL sketch that it asks for; empty where it asks for none."""
    if _KLL not in sketches:
        return ""
    k = number(mapping(sketches[_KLL], f"{name}: {_KLL}").get("K"), f"{name}: {_KLL}.K")
    try:
        return canonical(f"kll(k={k:g})")
    except ValueError as error:
        raise WorkloadError(f"{name}: {_KLL}.K: {error}") from None


def _labels(document: Mapping[str, Any], name: str) -> Mapping[str, frozenset[str]]:
    """All labels of each metric."""
    found = dict[str, frozenset[str]]()
    for place, one in items(document.get("metrics"), f"{name}: metrics"):
        labels = one.get("labels")
        if not isinstance(labels, list):
            raise WorkloadError(f"{place}.labels should be a list")
        metric = text_of(one.get("metric"), f"{place}.metric")
        found[metric] = frozenset(text_of(label, f"{place}.labels") for label in labels)
    return found


def _notes(document: Mapping[str, Any], sketches: Mapping[str, Any], name: str) -> Iterator[str]:
    """What has no meaning here, and what takes its place."""
    for sketch in sorted(set(sketches) - {_KLL}):
        yield f"{name}: {sketch} is not used: what it estimates is kept exactly"
    if document.get("aggregate_cleanup"):
        yield f"{name}: aggregate_cleanup is not used: summaries end with their retention"
    yield from _unread(document, _READ, f"{name}: ")
    for place, metric in items(document.get("metrics"), f"{name}: metrics"):
        yield from _unread(metric, ("metric", "labels"), f"{place}.")
    for place, group in items(document.get("query_groups"), f"{name}: query_groups"):
        yield from _unread(group, _READ_OF_GROUPS, f"{place}.")
        yield from _unread(group.get("controller_options") or {}, _READ_OF_OPTIONS, f"{place}.controller_options.")


def _unread(found: Mapping[str, Any], read: tuple[str, ...], place: str) -> Iterator[str]:
    return (f"{place}{key} is not used" for key in found if key not in read)
