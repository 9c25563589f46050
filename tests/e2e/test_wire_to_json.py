"""The same samples in any order, split, doubled and late: the same summaries, and the same bytes of JSON."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from precompute.samples import STALE
from precompute.summaries import Summary
from tests.e2e.talking import Labels, named, seconds
from tests.e2e.whole import Whole, whole
from tests.ingest.wire import encode_write_request
from tests.precompute.made_summaries import same

WIDTH_MS = 15_000
BEGIN_MS = 1_764_500_400_000 // WIDTH_MS * WIDTH_MS
SPAN_MS = 6 * WIDTH_MS
ROUNDS = 16
"""In how many steps of a pane each the samples come, all within the acceptance age."""
LAST_ROUND = 56
"""Then the acceptance age of every sample has passed."""
MAX_FUTURE_MS = 60_000
MINIBATCH = {"window_size": "15s", "allowed_lateness": "15s", "acceptance_age": "10m", "max_reach": "6m"}
EVERY = ["sum", "count", "min", "max", "quantile", "stddev"]
AGGREGATIONS: list[dict[str, Any]] = [
    {"expr": "g", "by": ["job"], "accumulators": EVERY},
    {"expr": "rate(c_total[1m])", "by": ["job", "code"], "accumulators": ["sum", "count"]},
    {"expr": "g > 0", "without": ["pod"], "accumulators": ["count", "max"]},
]
SERIES: tuple[Labels, ...] = (
    *(named("g", job="a", pod=f"p{k}") for k in range(3)),
    named("g", pod="without a job"),
    named("g", job="b", pod="p0", zone="ł"),
    *(named("c_total", job="a", code=str(code)) for code in (200, 500)),
    named("c_total", job="b"),
)
VALUES = st.one_of(
    st.integers(-5, 5).map(float),
    st.floats(width=64),
    st.sampled_from([STALE, float("inf"), 1e308, -1e308, 1e-320, 0.1]),
)
INSTANT = (
    "g", "c_total", "sum by (job) (g)", "sum(g)", "avg by (job) (g)", "quantile by (job) (0.9, g)", "stddev(g)",
    "sum by (code) (rate(c_total[1m]))", 'sum(rate(c_total{job="a"}[1m]))', "count without (pod, zone) (g > 0)",
    "sum by (pod) (g)", "increase(c_total[1m])", "stddev_over_time(g[1m])", "g / on (job, pod, zone) g",
)  # fmt: skip

Sample = tuple[int, int, float]
"""Index in SERIES, ms after BEGIN_MS, value."""


@st.composite
def samples(draw: st.DrawFn) -> list[Sample]:
    """Enough that most panes have some, and that some disagree about the value at one time."""
    places = st.one_of(st.integers(1, 12).map(lambda k: 7500 * k), st.integers(1, SPAN_MS))
    one = st.tuples(st.integers(0, len(SERIES) - 1), places, VALUES)
    return draw(st.lists(one, min_size=30, max_size=90))


Delivery = list[list[list[Sample]]]
"""Per round its requests, each with its samples in the order of the wire."""


def earliest(sample: Sample) -> int:
    """The first round in which a sample is not too far ahead."""
    return max(0, -(-(sample[1] - MAX_FUTURE_MS) // WIDTH_MS) - 1)


def in_order(wanted: Sequence[Sample]) -> Delivery:
    """Each sample as soon as it can be there, in order of time, one request per time."""
    rounds: Delivery = [[] for _ in range(ROUNDS)]
    for sample in sorted(wanted, key=lambda s: s[1]):
        rounds[-(-sample[1] // WIDTH_MS) - 1].append([sample])
    return rounds


def shuffled(wanted: Sequence[Sample], draw: random.Random) -> Delivery:
    """Each sample once to three times, in any round, in requests of any size, in any order."""
    rounds: Delivery = [[] for _ in range(ROUNDS)]
    for sample in wanted:
        for _ in range(draw.randrange(1, 4)):
            requests = rounds[draw.randrange(earliest(sample), ROUNDS)]
            if not requests or draw.random() < 0.3:
                requests.append([])
            draw.choice(requests).append(sample)
    for requests in rounds:
        draw.shuffle(requests)
        for request in requests:
            draw.shuffle(request)
    return rounds


def body(request: Sequence[Sample], draw: random.Random) -> bytes:
    """The request on the wire; neighbours of one series sometimes share its labels, sometimes repeat them."""
    out: list[tuple[Labels, list[tuple[int, float]]]] = []
    for series, after_ms, value in request:
        if not out or out[-1][0] != SERIES[series] or draw.random() < 0.5:
            out.append((SERIES[series], []))
        out[-1][1].append((BEGIN_MS + after_ms, value))
    return encode_write_request(out)


def deliver(node: Whole, delivery: Delivery, draw: random.Random, tick_share: float) -> None:
    """Round by round; then time passes, to the same moment for every delivery, until every pane is settled."""
    for requests in delivery:
        node.pass_time(WIDTH_MS)
        for request in filter(None, requests):
            assert node.write(body(request, draw)) == 204
        if draw.random() < tick_share:
            node.tick()
    for later in range(1, LAST_ROUND - ROUNDS + 1):
        node.pass_time(WIDTH_MS)
        if later % 8 == 0:
            node.tick()


def summaries(node: Whole, after_ms: int) -> list[Summary]:
    """All panes that end after this time, without what depends on the entries of the log."""
    made = [node.node.store.get(a.id, after_ms, node.clock.now_ms()) for a in node.node.engine.aggregations]
    return [replace(s, seen=np.zeros_like(s.seen), plan=np.zeros_like(s.plan)) for s in made]


def answers(node: Whole) -> Iterator[tuple[str, tuple[int, bytes, str, str]]]:
    """Instant answers on and off the pane grid, and a range over all of it."""
    for query in INSTANT:
        for after_ms in (WIDTH_MS, 2 * WIDTH_MS + 7, SPAN_MS, SPAN_MS + 60_000):
            asked = {"query": query, "time": seconds(BEGIN_MS + after_ms)}
            yield f"{query} {after_ms}", node.ask("/api/v1/query", asked)
        window = {"start": seconds(BEGIN_MS), "end": seconds(BEGIN_MS + 2 * SPAN_MS), "step": "5"}
        yield query, node.ask("/api/v1/query_range", {"query": query, **window})


def outcome(delivery: Delivery, draw: random.Random, tick_share: float, after_ms: int) -> tuple[Any, ...]:
    with (
        tempfile.TemporaryDirectory() as folder,
        whole(Path(folder), BEGIN_MS, AGGREGATIONS, **MINIBATCH) as node,
    ):
        deliver(node, delivery, draw, tick_share)
        return summaries(node, after_ms), dict(answers(node))


@given(wanted=samples(), seed=st.integers(0, 2**32), tick_share=st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=30, deadline=None, phases=[Phase.reuse, Phase.generate], print_blob=True)
def test_order_split_doubling_and_lateness_change_nothing(wanted: list[Sample], seed: int, tick_share: float) -> None:
    draw = random.Random(seed)
    after_ms = BEGIN_MS + min(s[1] for s in wanted) - 1
    plain, json = outcome(in_order(wanted), random.Random(0), 1.0, after_ms)
    other, other_json = outcome(shuffled(wanted, draw), draw, tick_share, after_ms)
    assert [s.panes > 0 for s in plain] == [True] * len(AGGREGATIONS)
    assert all(map(same, plain, other))
    assert json == other_json
