"""A query that nobody announced, on a running program: served from summaries within two ticks after its third time."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from precompute.clock import SystemClock
from tests.e2e.talking import await_summary, named, points, ranged, ticks, tier, write
from tests.running import Program

pytestmark = pytest.mark.e2e

Start = Callable[..., AbstractContextManager[Program]]

PATH = "/api/v1/aggregations"
QUERY = "sum by (job) (rate(c[10s]))"
WINDOW_S = 4
CONFIG = {
    "engine": {"minibatch": {"window_size": f"{WINDOW_S}s", "allowed_lateness": "1s"}},
    "planner": {"enabled": True},
}


def test_a_query_asked_three_times_is_served_from_summaries_with_its_history_and_after_a_restart(
    asap_process: Start,
) -> None:
    with asap_process(CONFIG) as asap:
        now_ms = SystemClock().now_ms()
        for i in range(8):
            rows = [(t_ms, float(t_ms % 100_000 * (i + 1))) for t_ms in range(now_ms - 120_000, now_ms, 1000)]
            assert write(asap, [(named("c", job="ab"[i % 2], i=str(i)), rows)]).status == 204
        end_ms = (now_ms - 10_000) // (1000 * WINDOW_S) * (1000 * WINDOW_S)
        span = (end_ms - 80_000, end_ms, 1000 * WINDOW_S)
        assert asap.get(PATH).json()["data"] == []
        exact = [ranged(asap, QUERY, *span) for _ in range(3)][-1]
        assert tier(exact) == "head"
        # one tick by the timer may pass before the plan, one after it; the plan asks for one more itself
        served = await_summary(asap, lambda: ranged(asap, QUERY, *span), ticks(asap) + 3)
        assert points(served) == points(exact)
        (made,) = asap.get(PATH).json()["data"]
        assert (made["origin"], made["pinned"], made["by"]) == ("planner", False, ["job"])
        asap.kill()
    with asap_process(CONFIG) as asap:
        (again,) = asap.get(PATH).json()["data"]
        assert (again["id"], again["origin"]) == (made["id"], "planner")
        answer = ranged(asap, QUERY, *span)
        assert (tier(answer), points(answer)) == ("summary", points(exact))
        assert asap.stop() == 0
