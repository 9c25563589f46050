"""Files of JSON lines: collections of expressions, and query logs (Prometheus' and our own).

A collection has `expr` in each line. A line of Prometheus' log has `params` with `query`, `start`, `end` and `step`
(prometheus.io, "Using the query log"); one of ours has `query`, and of a range query `start`, `end` and `step`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from precompute.planner.demand import Asking
from query.workloads.base import Query, Workload, WorkloadError, Zooms, mapping, number, shown, text_of

_SHORTEST_LOG_S = 60.0
"""A log of less time says as much about an hour as one of this."""

_Asked = tuple[str, int, int]
"""Text, step and span in ms."""


def read(text: bytes, name: str, zooms: Zooms) -> Workload:
    """Raises WorkloadError where a line is neither."""
    expressions, asked, times = list[Query](), Counter[_Asked](), list[float]()
    for place, line in _lines(text, name):
        if "expr" in line:
            expr = text_of(line["expr"], f"{place}: expr")
            expressions.append(Query(((zooms.window_ms, expr),), Asking(origin=place)))
        else:
            one, at_s = _asked(line, place)
            asked[one] += 1
            times += [at_s] if at_s is not None else []
    return Workload((*expressions, *_repeated(asked, times, name)))


def _lines(text: bytes, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number_, line in enumerate(text.splitlines(), 1):
        place = f"{name}:{number_}"
        if line.strip():
            try:
                yield place, mapping(orjson.loads(line), place)
            except ValueError:
                raise WorkloadError(f"{place} is no JSON") from None


def _asked(line: Mapping[str, Any], place: str) -> tuple[_Asked, float | None]:
    """What was asked, and when in seconds since the epoch."""
    params = mapping(line.get("params", line), f"{place}: params")
    if "query" not in params:
        raise WorkloadError(f"{place} has neither expr nor a query")
    step_s = params.get("step") or 0
    step_ms = round(1000 * number(step_s, f"{place}: step")) if step_s else 0
    start_s, end_s = (_time_s(params.get(key), f"{place}: {key}") for key in ("start", "end"))
    ranged = step_ms and start_s is not None and end_s is not None
    span_ms = max(0, round(1000 * (end_s - start_s))) if ranged else 0  # type: ignore[operator]
    return (text_of(params["query"], f"{place}: query"), step_ms, span_ms), _time_s(line.get("ts"), f"{place}: ts")


def _time_s(value: Any, what: str) -> float | None:
    """Seconds since the epoch, of a number of them or of RFC 3339."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            raise WorkloadError(f"{what} should be a time, not {shown(value)}") from None
    return number(value, what)


def _repeated(asked: Counter[_Asked], times: list[float], name: str) -> Iterator[Query]:
    """Each query once, as often as the log shows in the time that it spans."""
    hours = max(_SHORTEST_LOG_S, max(times) - min(times) if times else 3600.0) / 3600
    for (text, step_ms, span_ms), count in sorted(asked.items()):
        yield Query(((step_ms, text),), Asking(count / hours, span_ms, origin=name))
