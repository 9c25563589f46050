"""One process and a whole cluster give the same answers to the same samples, before and after their panes are final."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from precompute.clock import SystemClock
from precompute.cluster.storing import PANES
from precompute.panes import last_end
from tests.cluster.recording import Recording
from tests.cluster.roles import Cluster, Counts, cluster, ground
from tests.e2e.talking import SNAPPY, instant, ranged, tier
from tests.running import Program, asap, drawn_seed, http, merged, poll_until

pytestmark = pytest.mark.e2e

WIDTH_MS = 15_000
REACH_MS = 300_000
"""The longest reach of what is kept: the lookback of an instant selector."""
ACCEPTED_MS = 4 * 3_600_000
"""At the least: the hour begins where a pack of it becomes final soon after the replay."""
READY_MS, REPLAY_MS = 150_000, 75_000
"""From the config's making to the replay's beginning, and from there until its first sample would be refused."""
FINAL_PANES = 4
"""So many of the hour's panes are final in the end, the others are not. They end a pack of the cluster's database."""
SHARDS = 8
SUMMARISED_S, FINAL_S, STORED_S = 120.0, 300.0, 300.0
"""Final panes are stored two minutes later at most, and then in turn each two windows."""
EVERY = ["sum", "count", "min", "max", "quantile", "stddev"]
CONFIG: dict[str, Any] = {
    "engine": {
        "minibatch": {"window_size": "15s", "allowed_lateness": "15s", "max_reach": "10m", "shards": SHARDS}
    },
    "head": {"retention": "6h"},
    "query_engine": {"cache_bytes": 0},
    "aggregations": [
        {"expr": "g", "by": ["job"], "accumulators": EVERY},
        {"expr": "odd", "by": ["job"], "accumulators": EVERY},
        {"expr": "rate(c_total[1m])", "by": ["job", "code"], "accumulators": ["sum", "count", "max"]},
        {"expr": "rate(h_bucket[2m])", "by": ["job", "le"], "accumulators": ["sum"]},
        {"expr": "g * on (pod) group_left (node) node_info", "by": ["node"], "accumulators": ["sum", "max"]},
        {"expr": "g > 0", "without": ["pod"], "accumulators": ["count", "max"]},
    ],
}  # fmt: skip
COVERED = (
    "sum by (job) (g)", "count by (job) (g)", "min(g)", "max by (job) (g)", "avg by (job) (g)",
    "quantile by (job) (0.9, g)", "quantile(0.5, g)", "stddev by (job) (g)", "stdvar(g)",
    "sum by (job) (odd)", "min by (job) (odd)", "max(odd)", "count(odd)",
    "sum by (job, code) (rate(c_total[1m]))", 'sum(rate(c_total{job="shop"}[1m]))', "max by (code) (rate(c_total[1m]))",
    "histogram_quantile(0.9, sum by (le) (rate(h_bucket[2m])))",
    "sum by (node) (g * on (pod) group_left (node) node_info)", "count without (pod) (g > 0)",
    'sum(rate(c_total{code="500"}[1m])) / sum(rate(c_total[1m]))',
)  # fmt: skip
"""What summaries answer at every pane's end."""
UNCOVERED = (
    "g", "c_total", "odd", "sum by (pod) (g)", "avg by (job) (odd)", "increase(c_total[3m])", "stddev_over_time(g[2m])",
    "sum by (job) (count_over_time(g[1m]))", "topk(3, g)", "g / on (pod) group_left (node) node_info",
    "sum by (job) (g) / sum by (job) (count_over_time(g[1m]))", 'absent(g{pod="p99"})', "changes(node_info[5m])",
)  # fmt: skip
"""What the head has a part in."""


def test_one_process_and_a_cluster_give_the_same_answers(tmp_path: Path) -> None:
    seed = drawn_seed()
    recording = Recording(last_end(now_ms() - ACCEPTED_MS, PANES * WIDTH_MS) - FINAL_PANES * WIDTH_MS, seed)
    accepted_ms = now_ms() - recording.start_ms + READY_MS + REPLAY_MS
    config = merged(CONFIG, {"engine": {"minibatch": {"acceptance_age": f"{accepted_ms}ms"}}})
    with (
        ground("everysec", "everysec") as below,
        cluster(tmp_path / "cluster", below, config, Counts(ingest=2, query_engines=2, workers=3)) as many,
        asap(tmp_path / "single", config) as one,
    ):
        replay(recording, one, many)
        assert now_ms() - accepted_ms < recording.start_ms, "too slow: samples may have been refused"
        engines = [role.running for role in many.query_engines]
        for program in (one, *engines):
            poll_until(partial(is_summarised, program, recording), SUMMARISED_S, f"{program.url} has all summaries", 1)
        assert final_ms(one) < recording.start_ms, "too slow: panes are final already"
        before = answers(one, recording)
        for engine in engines:
            assert_same(before, answers(engine, recording))
        await_final(one, many, recording.start_ms + FINAL_PANES * WIDTH_MS)
        after = answers(one, recording)
        assert_same(before, after)
        for engine in engines:
            assert_same(after, answers(engine, recording))


def now_ms() -> int:
    return SystemClock().now_ms()


def replay(recording: Recording, one: Program, many: Cluster) -> None:
    """Each request to the one and to a member of the other in turn; every tenth to a second member too."""
    members = cycle(role.running for role in many.ingests)
    for k, request in enumerate(recording.requests()):
        for program in (one, next(members), *((next(members),) if k % 10 == 0 else ())):
            reply = http(f"{program.url}/api/v1/write", request, SNAPPY)
            assert reply.status == 204, reply.body


def whole(recording: Recording) -> tuple[int, int]:
    """First and last pane end whose panes are all at hand."""
    return recording.start_ms + WIDTH_MS, recording.end_ms + REACH_MS


def is_summarised(program: Program, recording: Recording) -> bool:
    return all(tier(ranged(program, query, *whole(recording), WIDTH_MS)) == "summary" for query in COVERED)


Answers = dict[tuple[str, str], tuple[str, str]]
"""The tier and the JSON of `data`, by what was asked and how."""


def answers(program: Program, recording: Recording) -> Answers:
    """Every query: over all pane ends, off their grid, and at some moments."""
    return {(query, how): said for query in COVERED + UNCOVERED for how, said in asked(program, query, recording)}


def asked(program: Program, query: str, recording: Recording) -> Iterator[tuple[str, tuple[str, str]]]:
    first_ms, last_ms = whole(recording)
    for step_ms, after_ms in ((WIDTH_MS, 0), (60_000, 0), (7000, 3)):
        answer = ranged(program, query, first_ms + after_ms, last_ms, step_ms)
        yield f"every {step_ms} ms", (tier(answer), json.dumps(answer.json()["data"]))
    for at_ms in (first_ms, first_ms + 20 * WIDTH_MS, first_ms + 20 * WIDTH_MS + 1, recording.end_ms):
        answer = instant(program, query, at_ms)
        yield f"at {at_ms}", (tier(answer), json.dumps(answer.json()["data"]))


def assert_same(ours: Answers, theirs: Answers) -> None:
    different = [key for key in ours if ours[key] != theirs[key]]
    for key in different[:5]:
        (tier_here, here), (tier_there, there) = ours[key], theirs[key]
        at = next((k for k, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), 0)
        around = slice(max(0, at - 60), at + 60)
        print(f"{key}\n  {tier_here}: {here[around]}\n  {tier_there}: {there[around]}")
    assert not different


def final_ms(program: Program) -> int:
    """Up to which pane end nothing changes any more, as the metrics say."""
    lines = program.get("/metrics").body.decode().splitlines()
    return next(int(1000 * float(line.split()[1])) for line in lines if line.startswith("asap_final_seconds "))


def await_final(one: Program, many: Cluster, end_ms: int) -> None:
    """Until some panes with samples are final in both, and the cluster has put them away."""
    poll_until(lambda: final_ms(one) >= end_ms, FINAL_S, "the one's panes are final", 1)
    poll_until(lambda: min(many.finals_ms(SHARDS)) >= end_ms, FINAL_S, "the cluster's panes are final", 1)
    poll_until(lambda: min(many.open_ends_ms(SHARDS)) > end_ms, STORED_S, "the cluster's panes are in its database", 1)
