"""A query that nobody announced, on a running program: served from summaries within two ticks after its third time."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from precompute.clock import SystemClock
from tests.e2e.talking import named, points, ranged, tier, write
from tests.running import Program, poll_until

pytestmark = pytest.mark.e2e

Start = Callable[..., AbstractContextManager[Program]]

PATH = "/api/v1/aggregations"
QUERY = "sum by (job) (rate(c[10s]))"
WINDOW_S = 4
CONFIG = {
    "engine": {"minibatch": {"window_size": f"{WINDOW_S}s", "allowed_lateness": "1s"}},
    "planner": {"enabled": True},
}


def ticks(program: Program) -> float:
    page = program.get("/metrics").body.decode()
    return float(next(line for line in page.splitlines() if line.startswith("asap_ticks_total")).split()[1])


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
        exact = [ranged(asap, QUERY, *span) for _ in range(3)][-1]
        assert tier(exact) == "head" and asap.get(PATH).json()["data"] == []
        before, asked_ms = ticks(asap), SystemClock().now_ms()
        poll_until(lambda: tier(ranged(asap, QUERY, *span)) == "summary", 30, "it is served from summaries")
        # one tick by the timer may pass before the plan, one after it; the plan asks for one more itself
        assert ticks(asap) <= before + 3, SystemClock().now_ms() - asked_ms
        assert points(ranged(asap, QUERY, *span)) == points(exact)
        (made,) = asap.get(PATH).json()["data"]
        assert (made["origin"], made["pinned"], made["by"]) == ("planner", False, ["job"])
        asap.kill()
    with asap_process(CONFIG) as asap:
        (again,) = asap.get(PATH).json()["data"]
        assert (again["id"], again["origin"]) == (made["id"], "planner")
        answer = ranged(asap, QUERY, *span)
        assert (tier(answer), points(answer)) == ("summary", points(exact))
        assert asap.stop() == 0
