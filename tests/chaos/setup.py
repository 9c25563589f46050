"""The cluster that is troubled: short panes, a short lease, and what it keeps.

All is short enough that panes become final and leave for the database, a pack of 60 at a time, while things fail.
"""

from typing import Any

from tests.cluster.roles import Counts

WIDTH_MS = 1000
LATENESS_MS = 2000
LEASE_S = 3.0
SHARDS = 4
LOOKBACK_MS = 10_000
REACH_MS = 20_000
"""The longest reach of what is kept."""
ACCEPTED_MS = 60_000
COUNTED = "sum by (g) (count_over_time(chaos_gauge[1s]))"
"""Counts each sample in exactly one pane."""
KEPT = (
    COUNTED,
    "sum by (g) (chaos_gauge)",
    "count by (g) (chaos_gauge)",
    "min by (g) (chaos_gauge)",
    "max by (sender) (chaos_gauge)",
    "sum by (g) (rate(chaos_total[20s]))",
    "sum by (sender) (chaos_gauge * on (sender, g, i) chaos_total)",
)
"""What is asked at every pane end; an aggregation answers each."""

CONFIG: dict[str, Any] = {
    "engine": {
        "minibatch": {
            "window_size": "1s", "allowed_lateness": "2s", "acceptance_age": "60s", "max_reach": "30s",
            "shards": SHARDS,
        }
    },
    "head": {"retention": "5m"},
    "cluster": {"lease": "3s", "segment": "30s"},
    "query_engine": {"lookback_delta": "10s", "cache_bytes": 0},
    "aggregations": [
        {"expr": "count_over_time(chaos_gauge[1s])", "by": ["g"], "accumulators": ["sum"]},
        {"expr": "chaos_gauge", "by": ["g"], "accumulators": ["sum", "count", "min"]},
        {"expr": "chaos_gauge", "by": ["sender"], "accumulators": ["max"]},
        {"expr": "rate(chaos_total[20s])", "by": ["g"], "accumulators": ["sum"]},
        {"expr": "chaos_gauge * on (sender, g, i) chaos_total", "by": ["sender"], "accumulators": ["sum"]},
    ],
}  # fmt: skip
COUNTS = Counts(ingest=2, query_engines=2, schedulers=2, workers=3)
