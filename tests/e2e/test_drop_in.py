"""One Prometheus that writes to us and stands behind us: each step from the first tier that has all of it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from precompute.clock import SystemClock
from tests.e2e.pair import EXTERNAL, FLUSH, Pair, prometheus_config
from tests.e2e.shop import open_shop
from tests.e2e.talking import await_tier, crash, differences, instant, points, ranged, tier
from tests.ports import free_port
from tests.running import Program, poll_until, prometheus

Start = Callable[..., AbstractContextManager[Program]]

pytestmark = pytest.mark.e2e

QUERY = "sum by (job) (up)"
LOOKBACK_S, LATENESS_S = 10, 5
"""Longer than scrapes stay away while the machine is busy."""
SEEN_MS = 14_000
"""From a start until a lookback, and one more of our own scrapes before it, have passed."""


def config(port: int, upstream: str) -> dict[str, Any]:
    return {
        "engine": {"minibatch": {"window_size": "1s", "allowed_lateness": f"{LATENESS_S}s"}},
        "query_engine": {"http_port": port, "prometheus_server": upstream, "lookback_delta": f"{LOOKBACK_S}s"},
        "aggregations": [{"expr": "up", "by": ["job"], "accumulators": ["sum", "count"]}],
    }


def now_ms() -> int:
    return SystemClock().now_ms()


def wait_for(both: Pair, t_ms: int) -> None:
    """Until a time has passed and all samples up to it have arrived."""
    poll_until(lambda: now_ms() > t_ms + 1000, 60, "the time to come", every_s=0.2)
    both.await_all(t_ms, range_s=LOOKBACK_S)


def same_as_upstream(both: Pair, query: str, t_ms: int) -> str:
    """The tier of an answer that equals the upstream's own, which knows no lookback but five minutes."""
    ours, theirs = instant(both.asap, query, t_ms), instant(both.prometheus, query, t_ms)
    assert not differences(points(ours, EXTERNAL), points(theirs, EXTERNAL))
    return tier(ours)


def test_each_time_is_answered_by_the_first_tier_that_has_all_of_it(
    asap_process: Start, prometheus_binary: str, tmp_path: Path
) -> None:
    port = free_port()
    with open_shop() as (target, shop):
        jobs = {"shop": target, "prometheus": "127.0.0.1:__PORT__"}
        text = prometheus_config(f"http://127.0.0.1:{port}", jobs)
        with prometheus(prometheus_binary, tmp_path / "prometheus", text, FLUSH) as upstream:
            poll_until(lambda: shop.scrapes > 3, 30, "scrapes of the shop")
            before_ms = now_ms()
            with asap_process(config(port, upstream.url)) as asap:
                both = Pair(asap, upstream)
                seen_ms = now_ms() + SEEN_MS
                assert same_as_upstream(both, QUERY, before_ms) == "upstream"
                wait_for(both, seen_ms)
                assert same_as_upstream(both, QUERY, seen_ms + 1) == "head"
                assert same_as_upstream(both, "topk(2, up)", seen_ms + 1) == "head"
                assert same_as_upstream(both, "prometheus_tsdb_head_series_not_there", seen_ms + 1) == "upstream"
                assert tier(await_tier(asap, QUERY, seen_ms // 1000 * 1000)) == "summary"
                mixed = ranged(asap, QUERY, seen_ms // 1000 * 1000, now_ms() // 1000 * 1000 + 1000, 1000)
                assert tier(mixed) == "summary, head"
                crash(asap)
            wanted = shop.scrapes + 2 * LATENESS_S + 1
            poll_until(lambda: shop.scrapes > wanted, 30, "scrapes while nobody listens")
            hole_ms = now_ms() - 1000
            with asap_process(config(port, upstream.url)) as asap:
                both, again_ms = Pair(asap, upstream), now_ms() + SEEN_MS
                wait_for(both, again_ms)
                assert same_as_upstream(both, QUERY, hole_ms) == "upstream"
                assert same_as_upstream(both, QUERY, seen_ms + 1) == "head"
                assert same_as_upstream(both, QUERY, again_ms + 1) == "head"
