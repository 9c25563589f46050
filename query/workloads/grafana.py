"""Grafana's dashboards: the expressions of their panels and annotations, with the variables filled in.

`$__rate_interval` and `$__interval` follow the step, which follows the zoom: a query that has one of them has a form
for each step (https://grafana.com/docs/grafana/latest/datasources/prometheus/template-variables/). Of the others, one
that stands in a string is a filter's value, which may be anything; elsewhere it is what the dashboard had it set to.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from precompute.evaluate.expr import duration_text
from precompute.planner.demand import Asking, rate_interval_ms
from query.workloads.base import DEFAULT_REPETITION_S, Query, Workload, Zooms, items, mapping, per_hour, text_of
from query.workloads.durations import duration_ms

FILTERED = "VAR"
"""What a variable in a string is filled with."""

_SPAN_MS = 3_600_000
_DEEPEST = 8
_VARIABLE = re.compile(r"\$\{(\w+)(?::[\w$]+)?\}|\$(\w+)|\[\[(\w+)(?::\w+)?\]\]")
_PARTS = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)""", re.DOTALL)
"""Splits an expression into what is no string and strings, in turn."""
_DURATION_OF_VARIABLE = "5m"

Values = Mapping[str, str]


def read(document: Mapping[str, Any], name: str, zooms: Zooms) -> Workload:
    """Raises WorkloadError where it is no dashboard."""
    board = mapping(document.get("dashboard") or document, f"{name}: dashboard")
    asking = Asking(_per_hour(board), _span_ms(board))
    values = dict(_values(board, name))
    found = [
        _query(expr, place, least_ms, instant, values, asking, zooms)
        for place, expr, least_ms, instant in _targets(board, name)
    ]
    return Workload(tuple(found))


def _per_hour(board: Mapping[str, Any]) -> float:
    refresh = board.get("refresh")
    every_ms = duration_ms(refresh)
    return per_hour(every_ms / 1000 if every_ms else DEFAULT_REPETITION_S)


def _span_ms(board: Mapping[str, Any]) -> int:
    """How much time the dashboard shows when it is opened."""
    time = board.get("time")
    since = time.get("from") if isinstance(time, dict) else None
    back = since.removeprefix("now-").partition("/")[0] if isinstance(since, str) else ""
    return duration_ms(back) or _SPAN_MS


def _values(board: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """What each variable was set to; nothing for those that had no single plain value."""
    templating = board.get("templating")
    for _, variable in items(templating.get("list") if isinstance(templating, dict) else None, f"{name}: templating"):
        current = variable.get("current")
        value = current.get("value") if isinstance(current, dict) else variable.get("query")
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, (str, int, float)) and "$" not in str(value):
            yield str(variable.get("name")), str(value)


def _targets(board: Mapping[str, Any], name: str) -> Iterator[tuple[str, str, int, bool]]:
    """(where it stands, expression, least step in ms, whether it is asked at one time only)"""
    for place, panel in _panels(board, name, _DEEPEST):
        titled = panel.get("title")
        title = f"{name}: {titled[:80] if titled and isinstance(titled, str) else place}"
        for where, target in items(panel.get("targets"), f"{place}.targets"):
            if target.get("expr") and not target.get("hide") and _asks_prometheus(target, panel):
                least_ms = duration_ms(target.get("interval") or panel.get("interval")) or 0
                instant = bool(target.get("instant")) and not target.get("range")
                yield title, text_of(target["expr"], f"{where}.expr"), least_ms, instant
    annotations = board.get("annotations")
    for place, one in items(annotations.get("list") if isinstance(annotations, dict) else None, f"{name}: annotations"):
        if one.get("expr") and one.get("enable", True) and _asks_prometheus(one, one):
            yield f"{name}: {place}", text_of(one["expr"], f"{place}.expr"), 0, False


def _panels(holder: Mapping[str, Any], what: str, deepest: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Panels, and those inside of rows, as far down as rows go."""
    for key in ("panels", "rows"):
        for place, panel in items(holder.get(key), f"{what}.{key}"):
            yield place, panel
            if deepest:
                yield from _panels(panel, place, deepest - 1)


def _asks_prometheus(*owners: Mapping[str, Any]) -> bool:
    """Whether the data source is one that speaks PromQL, or does not say."""
    kinds = (one.get("datasource") for one in owners)
    return next((k["type"] for k in kinds if isinstance(k, dict) and k.get("type")), "prometheus") == "prometheus"


def _query(
    expr: str, place: str, least_ms: int, instant: bool, values: Values, asking: Asking, zooms: Zooms
) -> Query:  # fmt: skip
    steps = sorted({max(step, least_ms) for step in zooms.steps_ms})
    forms = [(step, _filled(expr, {**values, **_of_step(step, asking, zooms)})) for step in steps]
    texts = {text for _, text in forms}
    chosen = forms if len(texts) > 1 else forms[:1]
    if instant:
        chosen = [(0, chosen[0][1])]
    span_ms = 0 if instant else asking.span_ms
    return Query(tuple(chosen), Asking(asking.per_hour, span_ms, origin=place))


def _of_step(step_ms: int, asking: Asking, zooms: Zooms) -> Values:
    """Grafana's own variables at one step."""
    span_ms = asking.span_ms
    return {
        "__rate_interval": duration_text(rate_interval_ms(step_ms, zooms.scrape_ms)),
        "__interval": duration_text(step_ms), "__interval_ms": str(step_ms),
        "__range": duration_text(span_ms), "__range_s": str(span_ms // 1000), "__range_ms": str(span_ms),
    }  # fmt: skip


def _filled(expr: str, values: Values) -> str:
    """The expression with its variables filled in; those that have no value stay, and it cannot be parsed."""
    parts = _PARTS.split(expr)
    for place, part in enumerate(parts):
        parts[place] = _VARIABLE.sub(lambda found: FILTERED, part) if place % 2 else _outside(part, values)
    return "".join(parts)


def _outside(part: str, values: Values) -> str:
    def value(found: re.Match[str]) -> str:
        name = next(filter(None, found.groups()))
        known = values.get(name)
        # a range needs a duration, whatever the variable was set to
        in_range = "[" in part[: found.start()].rpartition("]")[2]
        if in_range and (known is None or duration_ms(known) is None):
            return _DURATION_OF_VARIABLE
        return found[0] if known is None else known

    return _VARIABLE.sub(value, part)
