"""Sub-expressions are asked of an upstream whose semantics are ours, and its values become columns."""

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from precompute.clock import ManualClock, SystemClock
from precompute.errors import BadExpression, ExecutionError, LimitExceeded, QueryError, TimedOut
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Scalar, Vector
from query.errors import NotJoinable, UpstreamDown
from query.metrics import QueryMetrics
from query.promql.parse import parse
from query.slots import Slots
from query.tiers.recognition import LabelLookup, Parts
from query.tiers.summary import Steps
from query.tiers.upstream import Upstream
from query.tiers.upstream_parts import Part, UpstreamParts
from tests import running
from tests.ports import free_port
from tests.query.answering import Reply, Server, answering, serving
from tests.query.tiers.test_points import matrix, rows

LOOKBACK_MS, INTERVAL_MS = 300_000, 60_000
TIMES = np.arange(0, 75_000, 15_000, dtype=np.int64)
STEPS = Steps(TIMES, 0, 60_000, 15_000)
NOW = Steps(TIMES[1:2], 15_000, 15_000)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def budget(timeout_ms: int = 60_000, **limits: int) -> Budget:
    return Budget(Limits(**limits), SystemClock(), timeout_ms)


class Asking:
    """An upstream and what reads parts from it."""

    def __init__(
        self, url: str, parts: Parts = "always", slots: Slots | None = None, external: Mapping[str, str] | None = None
    ) -> None:
        self.clock = ManualClock(1_000_000)
        self.upstream = Upstream(url, 60_000, "", SystemClock(), slots or Slots(1), QueryMetrics(CollectorRegistry()))
        lookup = LabelLookup(self.upstream, external or {}, ("cluster", "__replica__"), self.clock)
        self.parts = UpstreamParts(self.upstream, parts, lookup, INTERVAL_MS, self.clock)

    def read(self, text: str, steps: Steps = STEPS, **headers: str) -> Part:
        return self.parts.read(parse(text), steps, LOOKBACK_MS, budget(), headers)

    def close(self) -> None:
        self.upstream.close()

    def takes_parts(self) -> bool:
        return self.parts.takes_parts({}, budget())


Maker = Callable[..., Asking]


@pytest.fixture
def asking_with(server: Server) -> Iterator[Maker]:
    """Makes what `Asking` is, at the server, and closes it at the end."""
    with contextlib.ExitStack() as made:

        def make(*args: Any, **options: Any) -> Asking:
            asking = Asking(server.url, *args, **options)
            made.callback(asking.close)
            return asking

        yield make


@pytest.fixture
def asking(asking_with: Maker) -> Asking:
    return asking_with()


def vector(*series: tuple[Mapping[str, str], list[Any]]) -> bytes:
    result = [{"metric": labels, "value": point} for labels, point in series]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def failing(status: int, kind: str, text: str) -> Reply:
    return answering(status, json.dumps({"status": "error", "errorType": kind, "error": text}).encode())


def test_steps_are_asked_for_as_a_range(server: Server, asking: Asking) -> None:
    body = matrix(({"a": "1"}, [[15, "1.5"], [60, "NaN"]]), warnings=["w"], infos=["i"])
    server.reply = answering(200, body.encode())
    part = asking.read("up")
    method, path, form, _ = server.asked[0]
    assert (method, path) == ("POST", "/api/v1/query_range")
    assert int(form.pop("timeout")[0].removesuffix("ms")) <= 60_000
    assert form == {
        "query": ["up"], "start": ["0"], "end": ["60"], "step": ["15"], "lookback_delta": ["300000ms"]
    }  # fmt: skip
    ((labels, values),) = rows(part.value)
    assert (labels, values[:4]) == ({"a": "1"}, [None, 1.5, None, None])
    assert (part.warnings, part.infos) == (("w",), ("i",))


def test_one_time_is_asked_for_as_an_instant(server: Server, asking: Asking) -> None:
    server.reply = answering(200, vector(({"__name__": "up", "a": "1"}, [15, "3"])))
    assert rows(asking.read("up", NOW).value) == [({"__name__": "up", "a": "1"}, [3.0])]
    assert server.asked[0][1:2] == ("/api/v1/query",)
    assert server.asked[0][2]["time"] == ["15"]


def test_only_the_asked_steps_of_a_grid_with_gaps_are_taken(server: Server, asking: Asking) -> None:
    points = [[t, str(t)] for t in (15, 30, 45, 60)]
    server.reply = answering(200, matrix(({}, points), ({"b": "1"}, points[1:3])).encode())
    part = asking.read("up", STEPS.at(TIMES[[1, 4]]))
    assert rows(part.value) == [({}, [15.0, 60.0])]
    assert (server.asked[0][2]["start"], server.asked[0][2]["end"]) == (["15"], ["60"])


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("up @ end()", "up @ 60.000"),
        ("sum(rate(up[5m] @ start() offset 1m))", "sum(rate(up[5m] @ 0.000 offset 1m))"),
        ("max_over_time(up[1h:])", "max_over_time((up)[1h:1m])"),
        ("max_over_time(up[1h:5s] @ end())", "max_over_time((up)[1h:5s] @ 60.000)"),
        ("up * (end() - start()) / step() + range()", "(((up * (60 - 0)) / 15) + 60)"),
        ("info(up)", 'info(up, {__name__=~"target_info"})'),
        ("info(up offset 5m, {x=~'.+'})", 'info(up offset 5m, {__name__=~"target_info",x=~".+"})'),
        ('up{a="\ufffd"}', 'up{a="\\ufffd"}'),
    ],
)
def test_a_part_is_asked_for_without_what_depends_on_the_query_around_it(
    server: Server, asking: Asking, text: str, asked: str
) -> None:
    server.reply = answering(200, matrix().encode())
    asking.read(text, STEPS.at(TIMES[1:3]))
    assert server.asked[0][2]["query"] == [asked]


def test_external_labels_are_put_on_what_is_read(server: Server, asking_with: Maker) -> None:
    server.reply = answering(200, matrix().encode())
    asking_with(external={"cluster": "eu"}).read('up{cluster="eu"} @ end()')
    assert server.asked[0][2]["query"] == ['label_replace(up{cluster=~"eu|"} @ 60.000, "cluster", "eu", "cluster", "")']


def test_a_scalar_is_a_scalar(server: Server, asking: Asking) -> None:
    server.reply = answering(200, matrix(({}, [[t // 1000, "2"] for t in TIMES.tolist()])).encode())
    part = asking.read("scalar(up)")
    assert isinstance(part.value, Scalar)
    assert part.value.values.tolist() == [2.0] * 5


def test_more_steps_than_an_upstream_gives_at_once_are_asked_for_in_stretches(server: Server, asking: Asking) -> None:
    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        form = server.asked[-1][2]
        first, last = int(form["start"][0]), int(form["end"][0])
        points = [[t, str(t)] for t in range(first, last + 1)]
        assert len(points) <= 11_000
        answering(200, matrix(({"a": "1"}, points)).encode())(request)

    server.reply = reply
    times = np.arange(0, 25_000_000, 1000, dtype=np.int64)
    part = asking.read("up", Steps(times, 0, int(times[-1]), 1000))
    assert isinstance(part.value, Vector)
    assert (part.value.values == times / 1000).all()
    assert part.value.present.all()
    assert len(server.asked) == 3


def test_of_one_time_the_order_that_was_asked_for_is_kept(server: Server, asking: Asking) -> None:
    server.reply = answering(200, vector(({"a": "2"}, [15, "1"]), ({"a": "1"}, [15, "2"])))
    for text, ordered in (("sort(up)", True), ("topk(2, up)", True), ("up", False)):
        value = asking.read(text, NOW).value
        assert isinstance(value, Vector)
        assert (value.ordered, [labels["a"] for labels, _ in rows(value)]) == (ordered, ["2", "1"])


@pytest.mark.parametrize("text", ["up[5m]", "up[5m:1m]", '"text"'])
def test_what_is_no_vector_or_scalar_is_no_part(server: Server, asking: Asking, text: str) -> None:
    with pytest.raises(NotJoinable):
        asking.read(text)
    assert not server.asked


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (failing(400, "bad_data", "unknown function"), BadExpression, "answered: unknown function"),
        (failing(422, "execution", "duplicate series"), ExecutionError, "answered: duplicate series"),
        (failing(503, "timeout", "query timed out"), TimedOut, "answered: query timed out"),
        (failing(503, "unavailable", "starting"), UpstreamDown, "answered: starting"),
        (failing(500, "internal", "oh"), UpstreamDown, "answered: oh"),
        (answering(401, b"who are you"), UpstreamDown, "answered: status 401"),
        (answering(502, b"[]"), UpstreamDown, "answered: status 502"),
        (answering(200, b"<html>"), UpstreamDown, "answered with no JSON"),
        (answering(200, matrix().replace("matrix", "vector").encode()), UpstreamDown, "answered with no matrix"),
        (answering(200, matrix(({}, [])).replace('"values"', '"histograms"').encode()), NotJoinable, "histograms"),
        (answering(302, b"", Location="/login"), UpstreamDown, "sends us elsewhere"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error_with_its_name_and_the_reason(
    server: Server, asking: Asking, reply: Reply, error: type[QueryError], text: str
) -> None:
    server.reply = reply
    with pytest.raises(error, match=f"the upstream {server.url} .*{text}"):
        asking.read("up")


def test_an_answer_too_large_for_a_query_is_refused(server: Server, asking: Asking) -> None:
    server.reply = answering(200, matrix(*(({"a": str(k)}, []) for k in range(1000))).encode())
    with pytest.raises(LimitExceeded):
        asking.parts.read(parse("up"), STEPS, LOOKBACK_MS, budget(max_matrix_bytes=10_000), {})


def test_the_slot_is_lent_while_we_wait_and_held_afterwards(server: Server, asking_with: Maker) -> None:
    slots = Slots(1)
    asking = asking_with(slots=slots)
    arrived, release = threading.Event(), threading.Event()

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        arrived.set()
        release.wait(120)
        answering(200, matrix().encode())(request)

    held: list[bool] = []

    def query() -> None:
        with slots.taken(1000):
            asking.read("up")
            try:
                with slots.taken(1):
                    held.append(False)
            except TimedOut:
                held.append(True)

    server.reply = reply
    thread = threading.Thread(target=query)
    thread.start()
    assert arrived.wait(60)
    with slots.taken(100):
        pass
    release.set()
    thread.join()
    assert held == [True]


def buildinfo(version: Any) -> Reply:
    return answering(200, json.dumps({"status": "success", "data": {"version": version}}).encode())


@pytest.mark.parametrize(
    ("reply", "takes"),
    [
        (buildinfo("3.5.0"), True), (buildinfo("v3.10.2-rc.1"), True),
        (buildinfo("2.42.0+ds"), False), (buildinfo("2.24.0"), False), (buildinfo("4.0.0"), False),
        (buildinfo("0.39.2"), False), (buildinfo("33"), False), (buildinfo("main"), False),
        (buildinfo(None), False), (answering(404, b"404 page not found"), False), (answering(200, b"[]"), False),
        (answering(500, b'{"data":{"version":"3.5.0"}}'), False),
    ],
)  # fmt: skip
def test_who_takes_parts_is_told_by_its_buildinfo(
    server: Server, reply: Reply, takes: bool, asking_with: Maker
) -> None:
    server.reply = reply
    asking = asking_with("auto")
    assert [asking.takes_parts() for _ in range(3)] == [takes] * 3
    assert [path for _, path, _, _ in server.asked] == ["/api/v1/status/buildinfo"]


def test_the_option_beats_the_buildinfo(server: Server, asking_with: Maker) -> None:
    assert asking_with("always").takes_parts()
    assert not asking_with("never").takes_parts()
    assert not server.asked


def test_it_is_asked_again_after_a_while(server: Server, asking_with: Maker) -> None:
    server.reply = buildinfo("3.5.0")
    asking = asking_with("auto")
    assert asking.takes_parts()
    server.reply = buildinfo("2.24.0")
    asking.clock.advance(59_000)
    assert asking.takes_parts()
    asking.clock.advance(1000)
    assert not asking.takes_parts()


def test_it_is_asked_again_soon_where_it_did_not_say_or_has_failed(server: Server, asking_with: Maker) -> None:
    asking = asking_with("auto")
    server.reply = answering(503, b"starting")
    assert not asking.takes_parts()
    server.reply = buildinfo("3.5.0")
    asking.clock.advance(5000)
    assert asking.takes_parts()
    server.reply = answering(200, b"<html>")
    with pytest.raises(UpstreamDown):
        asking.read("up")
    asking.clock.advance(5000)
    assert not asking.takes_parts()


def test_nobody_there_takes_no_parts() -> None:
    asking = Asking(f"http://127.0.0.1:{free_port()}", "auto")
    assert not asking.takes_parts()
    with pytest.raises(UpstreamDown, match="Connection refused"):
        asking.read("up")


SCRAPING = """
global: {scrape_interval: 1s, external_labels: {cluster: eu}}
scrape_configs: [{job_name: itself, static_configs: [{targets: ["127.0.0.1:__PORT__"]}]}]
"""


@pytest.mark.e2e
@pytest.mark.parametrize("external", [{}, {"cluster": "eu"}])
def test_a_real_prometheus_says_what_we_read(prometheus_binary: str, tmp_path: Path, external: dict[str, str]) -> None:
    with (
        running.prometheus(prometheus_binary, tmp_path, SCRAPING) as prometheus,
        closing(Asking(prometheus.url, external=external)) as asking,
    ):
        query = '{__name__=~"go_.*|prometheus_.*"}'
        running.poll_until(lambda: rows(asking.read("up", three_seconds_ago()).value), 30, "scrapes")
        end_ms = SystemClock().now_ms() - 1001
        steps = Steps(np.arange(end_ms - 20_000, end_ms, 137, dtype=np.int64), end_ms - 20_000, end_ms, 137)
        asked = {"start": (end_ms - 20_000) / 1000, "end": int(steps.times[-1]) / 1000, "step": 0.137}
        theirs = prometheus.get("/api/v1/query_range", query=query, **asked).json()["data"]["result"]
        ours = rows(asking.read(query, steps).value)
        assert len(ours) == len(theirs) > 100
        for (labels, values), row in zip(ours, theirs, strict=True):
            assert labels == {**row["metric"], **external}
            points = {round(t * 1000): float(text) for t, text in row["values"]}
            there = {t: v for t, v in zip(steps.times.tolist(), values, strict=True) if v is not None}
            assert there == pytest.approx(points, rel=0, abs=0, nan_ok=True)


def three_seconds_ago() -> Steps:
    t_ms = SystemClock().now_ms() - 3000
    return Steps(np.array([t_ms], np.int64), t_ms, t_ms)
