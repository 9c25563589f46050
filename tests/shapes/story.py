"""One story for both shapes: some minutes of a shop's samples, everything that the API answers, and a restart.

Panes are a second wide and final after a minute, so that they are stored, packed and let go while the story lasts.
"""

import json
from collections.abc import Iterator
from typing import Any

from precompute.clock import SystemClock
from precompute.panes import last_end
from tests.e2e.talking import FORM, Series, named, posted, seconds, write
from tests.running import Program, http, poll_until

WIDTH_MS = 1000
LOOKBACK = "20s"
BEFORE_S, BESIDE_S, AFTER_S = 100, 60, 20
"""How long samples come before the API is asked, while it is, and after the restart."""
CONFIG: dict[str, Any] = {
    "engine": {
        "minibatch": {
            "window_size": "1s", "allowed_lateness": "1s", "acceptance_age": "1m", "max_reach": "1m", "shards": 4,
        }
    },
    "head": {"retention": "90s"},
    "cluster": {"segment": "10s", "lease": "3s"},
    "query_engine": {"lookback_delta": LOOKBACK, "query_log_file": "queries.log"},
    "planner": {"enabled": True, "interval": "2s", "watch_share": 1},
    "aggregations": [
        {"expr": "g", "by": ["job"], "accumulators": ["sum", "count", "min", "max", "quantile", "stddev"]},
        {"expr": "rate(c_total[10s])", "by": ["job", "code"], "accumulators": ["sum", "count"]},
        {"expr": "g * on (pod) group_left (node) node_info", "by": ["node"], "accumulators": ["sum"]},
    ],
}  # fmt: skip
QUERIES = (
    "sum by (job) (g)", "quantile by (job) (0.9, g)", "avg(g)", "stddev by (job) (g)", "max(g)", "g", "topk(2, g)",
    'sum(rate(c_total{job="shop"}[10s]))', "sum by (node) (g * on (pod) group_left (node) node_info)",
    "count without (pod) (g > 3)", "sum by (code) (rate(c_total[20s]))", "sum(g) / sum(rate(c_total[10s]))",
    "max_over_time(g[20s:5s])", 'absent(g{pod="none"})', "label_replace(g, \"x\", \"$1\", \"pod\", \"p(.)\")",
    "sum by (job) (sum_over_time(g[10s]))", "1 + 1", "sum(no_such_metric)",
)  # fmt: skip
PLANNED = "sum by (pod) (rate(c_total[10s]))"
SAMPLES = "g[5s]"
"""What no range query may ask for."""
PAGES = (
    "/", "/-/healthy", "/-/ready", "/metrics", "/api/v1/status/buildinfo", "/api/v1/status/config",
    "/api/v1/status/flags", "/api/v1/status/runtimeinfo", "/api/v1/status/tsdb", "/api/v1/labels", "/api/v1/plan",
    "/api/v1/label/job/values", "/api/v1/series?match[]=g", "/api/v1/metadata", "/api/v1/rules", "/api/v1/alerts",
    "/api/v1/targets", "/api/v1/query_exemplars?query=g", "/api/v1/format_query?query=g", "/api/v1/openapi.json",
    "/api/v1/parse_query?query=g", "/api/v1/aggregations", "/federate?match[]=g", "/api/v1/status/walreplay",
)  # fmt: skip
MADE = {"expr": "g > 1", "by": ["pod"], "accumulators": ["max"]}


class Shop:
    """Writes what is scraped each second, and some of it late, twice, or wrong."""

    def __init__(self) -> None:
        self._clock, self._number = SystemClock(), 0

    def work(self, ingest: Program, for_s: float) -> None:
        """For so long."""
        until_ms = self._clock.now_ms() + round(1000 * for_s)
        poll_until(lambda: self._second(ingest) >= until_ms, for_s + 60, "the shop closes", 0.5)

    def _second(self, ingest: Program) -> int:
        now_ms, self._number = self._clock.now_ms(), self._number + 1
        write(ingest, self._scraped(now_ms))
        if self._number % 10 == 0:
            write(ingest, self._scraped(now_ms - 15_000))
            write(ingest, [(named("g", job="shop", pod="p1"), [(now_ms - 600_000, 1.0)])])
            http(f"{ingest.url}/api/v1/write", b"no request", FORM)
        return now_ms

    def _scraped(self, t_ms: int) -> Series:
        value = self._number % 40
        for pod in range(8):
            own = {"pod": f"p{pod}", "job": "shop" if pod % 3 else "stock"}
            yield named("g", **own), [(t_ms, float(value + pod))]
            yield named("node_info", pod=f"p{pod}", node=f"n{pod % 2}"), [(t_ms, 1.0)]
            for code in ("200", "500"):
                yield named("c_total", code=code, **own), [(t_ms, float(self._number + pod))]


def first_half(ingest: Program, engine: Program, shop: Shop) -> None:
    """Until panes are stored for long; then everything is asked for."""
    shop.work(ingest, BEFORE_S)
    for second in range(BESIDE_S // 10):
        ask(engine, everything=second == 0)
        shop.work(ingest, 10)
    change(engine)


def second_half(ingest: Program, engine: Program, shop: Shop) -> None:
    """After a restart."""
    shop.work(ingest, AFTER_S)
    ask(engine, everything=True)


def ask(engine: Program, everything: bool) -> None:
    """Every query, at pane ends and beside them; and every page, if asked to."""
    now_ms = last_end(SystemClock().now_ms(), WIDTH_MS)
    for query in (*QUERIES, SAMPLES, *[PLANNED] * 4):
        for path, params in _asked(query, now_ms):
            assert (reply := engine.get(path, **params)).status in (200, 422), (query, reply.body)
    if everything:
        for page in PAGES:
            engine.get(page)
        posted(engine, "/api/v1/query", query="sum(g)", stats="all")
        engine.get("/api/v1/query", query="sum(", time=seconds(now_ms))


def _asked(query: str, now_ms: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "/api/v1/query", {"query": query, "time": seconds(now_ms - 5000)}
    yield "/api/v1/query", {"query": query}
    yield "/api/v1/explain", {"query": query, "time": seconds(now_ms - 5000)}
    if query == SAMPLES:
        return
    for step_s, back_s in ((1, 40), (5, 150)):
        span = {"start": seconds(now_ms - 1000 * back_s), "end": seconds(now_ms), "step": step_s}
        yield "/api/v1/query_range", {"query": query, **span}


def change(engine: Program) -> None:
    """What is kept is created, pinned, asked for and deleted."""
    made = engine.post("/api/v1/aggregations", json.dumps(MADE).encode(), content_type="application/json")
    url = f"{engine.url}/api/v1/aggregations/{made.json()['data']['id']}"
    http(url, json.dumps({"pinned": False}).encode(), {"Content-Type": "application/json"}, method="PATCH")
    engine.get("/api/v1/query", query="max by (pod) (g > 1)")
    http(url, method="DELETE")
