"""What Grafana's Prometheus data source asks, in its order.

From its sources: pkg/promlib and packages/grafana-prometheus.

Queries and health checks go out from Grafana's backend as POST of a form, times as plain decimals, without an exponent.
Whatever its browser side asks (names, values, series, rules) passes through the backend too, which sends POST with the
parameters left in the URL, and asks again by GET where the answer is 405 or 400.
"""

import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass

from tests.e2e.talking import FORM, seconds
from tests.running import Answer, Program, http

Params = Sequence[tuple[str, str]]

ASK_AGAIN = (400, 405)
"""Statuses of a POST after which the backend tries GET."""

MOST = "40000"
"""The limit that the browser side sends along."""

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Request:
    """One request. how: `form` (POST), `url` (POST with its parameters in the URL) or `get`."""

    name: str
    how: str
    path: str
    params: Params = ()

    def send(self, to: Program) -> Answer:
        asked = urllib.parse.urlencode(self.params)
        if self.how == "form":
            return http(f"{to.url}{self.path}", asked.encode(), FORM)
        url = f"{to.url}{self.path}{'?' if asked else ''}{asked}"
        return http(url, b"" if self.how == "url" else None, FORM if self.how == "url" else {})

    def as_get(self) -> "Request":
        return Request(f"{self.name}, by GET", "get", self.path, self.params)

    def asked(self, to: Program) -> Answer:
        """The answer that Grafana sees in the end."""
        answer = self.send(to)
        return self.as_get().send(to) if self.how != "get" and answer.status in ASK_AGAIN else answer


def save_and_test() -> list[Request]:
    """The health check, then what kind of Prometheus this is."""
    return [
        Request("health check", "form", "/api/v1/query", [("query", "1+1"), ("time", "4")]),
        Request("build information", "url", "/api/v1/status/buildinfo"),
    ]


def opened(now_ms: int) -> list[Request]:
    """A data source is opened: rules to expand, exemplars to offer, names to suggest.

    The times of the exemplars are milliseconds, as Grafana sends them.
    """
    far = [("start", str(now_ms - HOUR_MS // 2)), ("end", str(now_ms))]
    window = _window(now_ms)
    return [
        Request("rules", "url", "/api/v1/rules"),
        Request("exemplars at all", "url", "/api/v1/query_exemplars", [("query", "test"), *far]),
        Request("metric names", "url", "/api/v1/label/__name__/values", [("limit", MOST), *window]),
        Request("metadata", "url", "/api/v1/metadata", [("limit", MOST)]),
        Request("label names", "url", "/api/v1/labels", [("limit", MOST), *window]),
    ]


def browsed(now_ms: int, selector: str, label: str) -> list[Request]:
    """The metric browser, the query builder and the variables of a dashboard, about one selector."""
    window, chosen = _window(now_ms), ("match[]", selector)
    counted = [("query", f"count({selector})"), ("time", seconds(now_ms))]
    has_label = ("match[]", f'{{{label}!=""}}')
    return [
        Request("labels of a metric", "url", "/api/v1/labels", [("limit", MOST), *window, chosen]),
        Request("labels of a metric, form", "form", "/api/v1/labels", [("limit", MOST), *window, chosen]),
        Request("label_values(metric, label)", "url", f"/api/v1/label/{label}/values", [chosen, *window]),
        Request("label_values(label)", "url", f"/api/v1/label/{label}/values", [("limit", MOST), *window]),
        Request("label_values(no such label)", "url", "/api/v1/label/no_such_label/values", window),
        Request("metric names beside a label", "url", "/api/v1/label/__name__/values", [*window, has_label]),
        Request("series", "url", "/api/v1/series", [*window, chosen, ("limit", MOST)]),
        Request("series, form", "form", "/api/v1/series", [*window, chosen, ("match[]", "up")]),
        Request("series of nothing", "url", "/api/v1/series", [*window, ("match[]", "no_such_metric")]),
        Request("query_result(…)", "url", "/api/v1/query", counted),
    ]  # fmt: skip


def panel(now_ms: int, query: str, step_s: float = 15, minutes: int = 10) -> list[Request]:
    """A graph, a table and the exemplars of one query; start and end are moved down to a multiple of the step."""
    step_ms = round(step_s * 1000)
    start_ms, end_ms = ((t // step_ms) * step_ms for t in (now_ms - minutes * 60_000, now_ms))
    span = [("start", plain(start_ms)), ("end", plain(end_ms))]
    instant = [("query", query), ("time", plain(now_ms))]
    return [
        Request("graph", "form", "/api/v1/query_range", [("query", query), *span, ("step", plain(step_ms))]),
        Request("table", "form", "/api/v1/query", instant),
        Request("alert rule", "form", "/api/v1/query", [*instant, ("timeout", "30s")]),
        Request("exemplars", "form", "/api/v1/query_exemplars", [("query", query), *span]),
    ]


def plain(ms: int) -> str:
    """Seconds as Go's FormatFloat(…, 'f', -1, 64) writes them."""
    return seconds(ms).rstrip("0").rstrip(".")


def _window(now_ms: int) -> list[tuple[str, str]]:
    """The dashboard's time range in whole seconds, rounded outwards."""
    return [("start", str((now_ms - HOUR_MS) // 1000)), ("end", str(-(-now_ms // 1000)))]
