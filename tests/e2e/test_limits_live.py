"""Limits, replica pairs and the upstream, at a running node."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from precompute.clock import SystemClock
from tests.e2e.talking import instant, named, points, posted, seconds, single, tier, write
from tests.ports import free_port
from tests.running import Answer, Program, asap, poll_until, prometheus

Start = Callable[..., AbstractContextManager[Program]]

pytestmark = pytest.mark.e2e

QUICK = {"minibatch": {"window_size": "1s", "allowed_lateness": "1s"}}
SCRAPES_ITSELF = """
global: {scrape_interval: 1s}
scrape_configs: [{job_name: p, static_configs: [{targets: ['127.0.0.1:__PORT__']}]}]
"""
BURST = 2000
"""Series of one request of `fill`."""


def now_ms() -> int:
    return SystemClock().now_ms()


def retry_after(answer: Answer) -> int:
    return int({name.lower(): text for name, text in answer.headers.items()}["retry-after"])


def fill(asap: Program, new_series: bool, requests: int = 300) -> tuple[int, Answer]:
    """Samples of x, hardly compressible, until a write is refused: how many requests were taken, and the refusal."""
    draw = random.Random(7)
    for request in range(requests):
        names = (f"{request if new_series else 0}-{k}" for k in range(BURST))
        answer = write(asap, [(named("x", n=n), [(now_ms(), draw.random())]) for n in names])
        if answer.status != 204:
            return request, answer
    raise AssertionError("nothing was refused")


def keeping(acceptance: str) -> dict[str, Any]:
    """Samples are kept for acceptance age plus reach: seconds."""
    batch = {"acceptance_age": acceptance, "max_reach": "2s", "window_size": "1s", "allowed_lateness": "1s"}
    return {"engine": {"minibatch": batch}, "query_engine": {"lookback_delta": "2s"}}


def test_a_full_head_refuses_writes_goes_on_answering_and_recovers(asap_process: Start) -> None:
    with asap_process({**keeping("18s"), "head": {"max_bytes": "8MiB", "retention": "20s"}}) as asap:
        taken, refusal = fill(asap, new_series=True)
        full_ms = now_ms()
        assert taken
        assert (refusal.status, retry_after(refusal) >= 1) == (503, True)
        assert b"head.max_bytes" in refusal.body
        assert single(instant(asap, "count(count_over_time(x[20s]))", full_ms)) == taken * BURST
        assert asap.get("/-/ready").status == 200
        assert write(asap, [(named("x", n="0-0"), [(now_ms(), 1.0)])]).status == 503
        poll_until(lambda: is_taken(asap), 90, "room in the head after trimming", every_s=0.3)


def is_taken(asap: Program) -> bool:
    return write(asap, [(named("y"), [(now_ms(), 1.0)])]).status == 204


def test_a_full_log_refuses_writes_until_old_samples_are_trimmed(asap_process: Start) -> None:
    """Segments go as a whole, and a restart begins a new one."""
    full = {"max_bytes": "400KiB", "max_backlog": "400KiB"}
    config: dict[str, Any] = {**keeping("2s"), "head": {"retention": "4s"}, "log": full}
    with asap_process(config) as asap:
        taken, refusal = fill(asap, new_series=False)
        assert taken
        assert (refusal.status, retry_after(refusal) >= 1) == (503, True)
        assert b"log.max_bytes" in refusal.body
        assert asap.get("/api/v1/query", query="1 + 1").status == 200
        assert asap.stop() == 0
    with asap_process(config) as asap:
        poll_until(lambda: is_taken(asap), 30, "room in the log after trimming", every_s=0.3)


def test_without_a_head_tier_a_constant_is_still_answered(asap_process: Start) -> None:
    """Data sources test their connection by `1+1`."""
    with asap_process({"head": {"retention": "0s"}}) as asap:
        assert points(instant(asap, "1+1", 4000)) == {((), 4000): 2.0}
        refused = asap.get("/api/v1/query", query="up")
        assert (refused.status, "head.retention" in refused.json()["error"]) == (422, True)


def test_of_a_pair_of_replicas_one_counts_and_the_other_takes_over(asap_process: Start) -> None:
    with asap_process({"ingest": {"ha": {"timeout": "15s"}}, "engine": QUICK}) as asap:

        def send(replica: str, value: float) -> int:
            labels = named("x", cluster="here", __replica__=replica, job="a")
            assert write(asap, [(labels, [(now_ms(), value)])]).status == 204
            return now_ms()

        def value() -> dict[Any, float]:
            return {labels: v for (labels, _), v in points(instant(asap, "x", now_ms())).items()}

        alone = (tuple(sorted({"__name__": "x", "cluster": "here", "job": "a"}.items())),)
        send("first", 1.0)
        send("second", 2.0)
        assert value() == {alone[0]: 1.0}

        def taken_over() -> bool:
            send("second", 2.0)
            return value() == {alone[0]: 2.0}

        poll_until(taken_over, 60, "the second replica is elected", every_s=0.2)
        send("first", 3.0)
        assert value() == {alone[0]: 2.0}
        series = asap.get("/api/v1/series", **{"match[]": "x"}).json()["data"]
        assert series == [{"__name__": "x", "cluster": "here", "job": "a"}]


UNSUPPORTED = {
    "increase(up[1m] anchored)": "anchored and smoothed selectors",
    "max_over_time(up[5s * 2])": "arithmetic of durations",
    "start_timestamp(up)": "start_timestamp",
    "up </ 5": "histogram trim operators",
}


@pytest.mark.parametrize("query", UNSUPPORTED)
def test_without_an_upstream_what_is_missing_is_named(bare: Program, query: str) -> None:
    answer = bare.get("/api/v1/query", query=query)
    assert answer.status == 422
    assert answer.json()["errorType"] == "execution"
    assert UNSUPPORTED[query] in answer.json()["error"]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with asap(tmp_path_factory.mktemp("bare")) as running:
        yield running


def test_an_upstream_answers_what_is_not_supported_and_what_was_not_received(
    asap_process: Start, prometheus_binary: str, tmp_path: Path
) -> None:
    with prometheus(prometheus_binary, tmp_path / "prometheus", SCRAPES_ITSELF) as upstream:
        poll_until(lambda: points(upstream.get("/api/v1/query", query="up")), 20, "a scrape")
        with asap_process({"query_engine": {"prometheus_server": upstream.url}}) as asap:
            for query in (*UNSUPPORTED, "topk(1, up)", "up", "count(up)", "sum(prometheus_build_info)"):
                at = seconds(now_ms())
                ours, theirs = (side.get("/api/v1/query", query=query, time=at) for side in (asap, upstream))
                assert (ours.status, ours.json(), tier(ours)) == (theirs.status, theirs.json(), "upstream"), query
            wrong = posted(asap, "/api/v1/query", query="topk(1, up")
            assert (wrong.status, wrong.json()["errorType"]) == (400, "bad_data")
            names = asap.get("/api/v1/label/__name__/values").json()["data"]
            assert names == upstream.get("/api/v1/label/__name__/values").json()["data"]


def test_an_upstream_that_is_down_is_named(asap_process: Start) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    aggregations = [{"expr": "x", "by": ["a"], "accumulators": ["sum"]}]
    config = {"query_engine": {"prometheus_server": nobody}, "engine": QUICK, "aggregations": aggregations}
    with asap_process(config) as asap:
        answer = asap.get("/api/v1/query", query="topk(1, x)")
        assert (answer.status, answer.json()["errorType"]) == (503, "unavailable")
        assert nobody in answer.json()["error"]
        listed = asap.get("/api/v1/labels").json()
        assert nobody in listed["warnings"][0]
        assert asap.get("/api/v1/query", query="1 + 1").status == 200
