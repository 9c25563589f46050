"""Behind ASAP stands another system: a Prometheus with external labels, or a second ASAP that is asked for parts."""

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from precompute.clock import SystemClock
from tests.e2e.pair import EXTERNAL, FLUSH, Pair, prometheus_config
from tests.e2e.shop import open_shop
from tests.e2e.talking import await_tier, instant, named, points, ranged, tier, write
from tests.ports import free_port
from tests.query.answering import serving
from tests.running import Program, asap, poll_until, prometheus

pytestmark = pytest.mark.e2e

STEP_MS = 5000


def now_ms() -> int:
    return SystemClock().now_ms()


LABELLED = (
    "up", 'up{site="here"}', 'up{site=~"h.*",job!="x"}', 'up{site!="there"}', "sum by (site, job) (up)", "-up",
    "sum without (instance) (rate(shop_requests_total[5s]))", "rate(shop_requests_total[5s])", "count(up) by (site)",
    'absent(nothing{site="here"})', "timestamp(up)", 'topk(1, shop_requests_total{path!="/c"})',
    "max_over_time(up[5s:1s])",
    "up * on (site, job) group_left () count by (site, job) (up)", 'count_values by (site) ("v", up)',
    'label_replace(up, "x", "$1", "site", "(.*)")', "shop_requests_total[5s]", '{site!="",job="shop",__name__="up"}',
)  # fmt: skip


def label_sets(program: Program, text: str, t_ms: int) -> tuple[str, set[tuple[tuple[str, str], ...]]]:
    """The tier that answered, and the label sets of its answer."""
    answer = instant(program, text, t_ms)
    return tier(answer), {tuple(sorted(row["metric"].items())) for row in answer.json()["data"]["result"]}


def test_labels_do_not_change_with_the_tier(prometheus_binary: str, tmp_path: Path) -> None:
    port = free_port()
    with open_shop() as (target, shop):
        text = prometheus_config(f"http://127.0.0.1:{port}", {"shop": target, "prometheus": "127.0.0.1:__PORT__"})
        with prometheus(prometheus_binary, tmp_path / "prometheus", text, FLUSH) as upstream:
            poll_until(lambda: shop.scrapes > 8, 30, "scrapes of the shop")
            before_ms = now_ms()
            config = {"query_engine": {"http_port": port, "prometheus_server": upstream.url, "lookback_delta": "8s"}}
            with asap(tmp_path / "asap", config) as ours:
                both, after_ms = Pair(ours, upstream), now_ms() + 15_000
                poll_until(lambda: now_ms() > after_ms + 1000, 60, "the time to come", every_s=0.2)
                both.await_all(after_ms, range_s=8)
                for text in LABELLED:
                    there, here = label_sets(ours, text, before_ms), label_sets(ours, text, after_ms)
                    assert there[0] == "upstream"
                    assert here == ("upstream" if "nothing" in text else "head", there[1]), text
                    assert there[1], text
                assert "site" in dict(next(iter(label_sets(ours, "up", before_ms)[1])))
                check_lists(ours)


def check_lists(ours: Program) -> None:
    """Names, values and series are those of the series here; what only the upstream has gets its labels too."""
    only_there = "prometheus_tsdb_head_series"

    def listed(path: str, **params: Any) -> Any:
        return ours.get(f"/api/v1/{path}", **params).json()["data"]

    assert "site" in listed("labels", **{"match[]": only_there})
    assert listed("label/site/values") == ["here"]
    assert listed("label/site/values", **{"match[]": "nothing"}) == []
    assert listed("label/job/values", **{"match[]": 'up{site="here"}'}) == ["prometheus", "shop"]
    assert listed("label/job/values", **{"match[]": 'up{site="there"}'}) == []
    series = listed("series", **{"match[]": 'up{site="here"}'})
    assert len(series) == 2
    assert all(EXTERNAL.items() <= labels.items() for labels in series)


@contextmanager
def two(folder: Path, **options: Any) -> Iterator[tuple[Program, Program]]:
    """An ASAP that has everything, and one before it; both take samples of the next minutes."""
    ingest = {"max_future": "10m"}
    with asap(folder / "far", {"ingest": ingest}) as far:
        engine = {"prometheus_server": far.url, "prometheus_timeout": "60s", **options}
        with asap(folder / "near", {"ingest": ingest, "query_engine": engine}) as near:
            yield near, far


def fill(near: Program, far: Program) -> int:
    """`both` comes to the near side from its start on, `theirs` never; when the last sample is."""
    last_ms = (now_ms() // STEP_MS + 31) * STEP_MS
    for k in range(60, -1, -1):
        t_ms = last_ms - k * STEP_MS
        rows = [(named(m, i=i), [(t_ms, float(k * len(m) + int(i)))]) for m in ("both", "theirs") for i in "123"]
        assert write(far, rows).status == 204
        assert write(near, rows[:3] if k < 30 else []).status == 204
    # from when on a metric comes here is noted with the next tick
    await_tier(near, "both", last_ms, "head")
    return last_ms


def same(near: Program, far: Program, text: str, start_ms: int, end_ms: int) -> str:
    """The tiers of an answer over a range that equals the far side's own."""
    ours, theirs = (ranged(program, text, start_ms, end_ms, STEP_MS) for program in (near, far))
    assert points(ours) == points(theirs)
    assert points(ours)
    return tier(ours)


def test_a_second_asap_is_asked_for_the_parts_that_are_not_here(tmp_path: Path) -> None:
    with two(tmp_path, lookback_delta="10s") as (near, far):
        last_ms = fill(near, far)
        start_ms, late_ms = last_ms - 50 * STEP_MS, last_ms - 10 * STEP_MS
        assert same(near, far, "sum(theirs)", start_ms, last_ms) == "upstream"
        assert same(near, far, "sum(both)", late_ms, last_ms) == "head"
        assert same(near, far, "sum(both) / sum(theirs)", late_ms, last_ms) == "head, upstream"
        assert same(near, far, "both * on (i) theirs @ end()", late_ms, last_ms) == "head, upstream"
        assert same(near, far, "sum by (i) (both)", start_ms, last_ms) in ("head, upstream", "upstream, head")
        counted = near.get("/metrics").body.decode()
        assert 'asap_upstream_requests_total{outcome="answered"}' in counted


def test_an_upstream_that_takes_no_parts_gets_whole_queries(tmp_path: Path) -> None:
    with two(tmp_path, lookback_delta="10s", prometheus_parts="never") as (near, far):
        last_ms = fill(near, far)
        assert same(near, far, "sum(both) / sum(theirs)", last_ms - 10 * STEP_MS, last_ms) == "upstream"


def test_while_the_upstream_is_down_what_needs_it_is_told_so_and_the_rest_goes_on(tmp_path: Path) -> None:
    with two(tmp_path, lookback_delta="10s") as (near, far):
        last_ms = fill(near, far)
        assert same(near, far, "both + on (i) theirs", last_ms - 2 * STEP_MS, last_ms) == "head, upstream"
        far.kill()
        for text in ("theirs", "both + on (i) theirs"):
            answer = near.get("/api/v1/query", query=text, time=last_ms / 1000)
            assert answer.status == 503
            assert answer.json()["errorType"] == "unavailable"
            assert f"the upstream {far.url} cannot be asked: Connection refused" in answer.json()["error"]
        assert tier(instant(near, "sum(both)", last_ms)) == "head"


def test_a_slow_upstream_ends_within_the_querys_time_while_the_rest_goes_on(tmp_path: Path) -> None:
    release = threading.Event()

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        release.wait(60)
        request.close_connection = True

    with serving() as slow:
        slow.reply = reply
        engine = {"prometheus_server": slow.url, "threads": 1, "prometheus_external_labels": {}}
        with asap(tmp_path, {"query_engine": engine}) as near:
            began_s = time.monotonic()
            answer = near.get("/api/v1/query", query="theirs", timeout="500ms")
            assert time.monotonic() - began_s < 20
            assert (answer.status, answer.json()["errorType"]) == (503, "timeout")
            assert f"the upstream {slow.url} did not answer within" in answer.json()["error"]
            assert instant(near, "1 + 1", now_ms()).status == 200
        release.set()
