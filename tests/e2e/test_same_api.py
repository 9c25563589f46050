"""The same requests of ASAP and of a real Prometheus that hold the same samples; and promtool, asking ASAP."""

import random
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from precompute.clock import SystemClock
from tests.differential.grammar import Grammar
from tests.e2e.talking import Labels, named, write
from tests.running import Answer, Program, http, prometheus

Start = Callable[..., AbstractContextManager[Program]]

pytestmark = pytest.mark.e2e

FLAGS = ("--web.enable-remote-write-receiver", "--log.level=error")
RANGE = {"query": "up", "start": "0", "end": "60", "step": "15"}
FORMATTED = 300
"""Random queries that both format."""

SAME_BODY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("query", {"query": "up", "time": "x"}),
    ("query", {"query": "up", "timeout": "x"}),
    ("query", {"query": "1 + 1", "time": "5"}),
    ("query", {"query": '"é"', "time": "5.5"}),
    ("query_range", {**RANGE, "start": "x"}),
    ("query_range", {**RANGE, "end": "-1"}),
    ("query_range", {**RANGE, "step": "0"}),
    ("query_range", {**RANGE, "step": "0.001", "end": "60"}),
    ("query", {"query": "1 / 3e7", "time": "1e9"}),
    ("query_range", {**RANGE, "query": "vector(1)"}),
    ("labels", {}),
    ("labels", {"match[]": ["m", "none"]}),
    ("labels", {"match[]": "none"}),
    ("labels", {"start": "x"}),
    ("labels", {"start": "1", "end": "2"}),
    ("label/job/values", {}),
    ("label/job/values", {"match[]": '{job!="b"}'}),
    ("label/none/values", {}),
    ("series", {}),
    ("series", {"match[]": "m"}),
    ("series", {"match[]": ['m{job="a"}', "{job='b'}"]}),
    ("series", {"match[]": "m", "end": "x"}),
    ("metadata", {"limit": "x"}),
    ("metadata", {"limit": "0"}),
    ("alerts", {}),
    ("rules", {}),
    ("rules", {"type": "record"}),
    ("rules", {"type": "x"}),
    ("query_exemplars", {"query": "m", "start": "0", "end": "1"}),
    ("query_exemplars", {"query": "m", "start": "2", "end": "1"}),
    ("query_exemplars", {"query": "m", "start": "x"}),
    ("format_query", {"query": "foo/bar"}),
)
SAME_KIND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("query_range", {**RANGE, "query": '"s"'}),
    ("query", {}),
    ("query", {"query": "m["}),
    ("query", {"query": "m + on () m"}),
    ("query", {"query": 'm{a=~"("}'}),
    ("labels", {"match[]": "m["}),
    ("labels", {"match[]": "{}"}),
    ("series", {"match[]": '{a=~".*"}'}),
    ("query_exemplars", {"query": "1"}),
    ("query_exemplars", {"query": "m["}),
    ("format_query", {"query": "m["}),
    ("status/buildinfo", {}),
)
"""Requests whose answers are of the same kind, though the texts or values are each server's own."""
SAME_FIELDS = ("status/tsdb", "status/runtimeinfo", "status/config", "status/walreplay")


def names(value: Any) -> Any:
    """The names in an answer, all the way down, without what they stand for."""
    if isinstance(value, dict):
        return {name: names(inner) for name, inner in value.items()}
    return [names(value[0])] if isinstance(value, list) and value else None


def kind(answer: Answer) -> tuple[int, str, str]:
    if answer.status == 204:
        return 204, "", ""
    body = answer.json()
    return answer.status, body["status"], body.get("errorType", "")


def samples(page: Answer) -> list[tuple[str, dict[str, str], float, float]]:
    assert page.status == 200, page.body
    families = text_string_to_metric_families(page.body.decode())
    return [(s.name, s.labels, s.value, float(s.timestamp)) for family in families for s in family.samples]


def rows(now_ms: int) -> list[tuple[Labels, list[tuple[int, float]]]]:
    """What both hold."""
    return [
        (named("m", job=job, zone=zone), [(now_ms - 15_000 * k, value * k) for k in range(3, -1, -1)])
        for job, zone, value in (("a", "x", 1e-7), ("a", "é\n\"\\", 1e9), ("b", "x", -2.5))
    ] + [(named("n:total", instance="i"), [(now_ms, 3.0)])]  # fmt: skip


def test_a_prometheus_answers_alike(asap_process: Start, prometheus_binary: str, tmp_path: Path) -> None:
    now_ms = SystemClock().now_ms()
    reference = prometheus(prometheus_binary, tmp_path / "prometheus", "global: {}\n", *FLAGS)
    with reference as theirs, asap_process() as ours:
        for program in (ours, theirs):
            assert write(program, rows(now_ms)).status == 204
        for path, params in SAME_BODY:
            a, b = (program.get(f"/api/v1/{path}", **params) for program in (ours, theirs))
            # written with a small letter since version 3
            theirs_now = b.body.replace(b'": Invalid time value', b'": invalid time value')
            assert (a.status, a.body) == (b.status, theirs_now), (path, params)
        for path, params in SAME_KIND:
            a, b = (program.get(f"/api/v1/{path}", **params) for program in (ours, theirs))
            assert kind(a) == kind(b), (path, params, a.body, b.body)
        for path in SAME_FIELDS:
            a, b = (names(program.get(f"/api/v1/{path}").json()["data"]) for program in (ours, theirs))
            assert b == {name: a[name] for name in b}, path
        selectors = ['{__name__=~"m|n:total"}', "m"]
        assert samples(ours.get("/federate", **{"match[]": selectors})) == samples(
            theirs.get("/federate", **{"match[]": selectors})
        )
        for sent in ({"Origin": "http://page"}, {}):
            for path in ("/api/v1/labels", "/api/v1/nowhere"):
                _same_preflight(ours, theirs, path, sent)
        grammar = Grammar(random.Random(1), (now_ms,))
        drawn = [grammar.instant() for _ in range(FORMATTED)]
        # which has another name since version 3
        for text in (text for text in drawn if "holt_winters" not in text):
            a, b = (program.get("/api/v1/format_query", query=text) for program in (ours, theirs))
            assert a.json() == b.json(), text


def _same_preflight(ours: Program, theirs: Program, path: str, sent: dict[str, str]) -> None:
    found = []
    for program in (ours, theirs):
        answer = http(program.url + path, None, sent, method="OPTIONS")
        assert answer.status == 204
        headers = {name.lower(): text for name, text in answer.headers.items()}
        found.append([headers.get(f"access-control-allow-{name}") for name in ("origin", "methods", "headers")])
    assert found[0] == found[1]


def test_promtool_asks_asap(asap_process: Start, promtool_binary: str) -> None:
    now_ms = SystemClock().now_ms()
    with asap_process() as asap:
        assert write(asap, rows(now_ms)).status == 204
        # as promtool writes them
        begin, middle, now = (str(ms / 1000).removesuffix(".0") for ms in (now_ms - 30_000, now_ms - 15_000, now_ms))

        def promtool(*words: str) -> str:
            command = [promtool_binary, "query", *words]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

        assert promtool("instant", f"--time={now}", asap.url, "count(m)") == f"{{}} => 3 @[{now}]\n"
        told = promtool("range", f"--start={begin}", f"--end={now}", "--step=15s", asap.url, 'm{job="b"}')
        assert told == (
            'm{job="b", zone="x"} =>\n'
            f"-5 @[{begin}]\n-2.5 @[{middle}]\n-0 @[{now}]\n"
        )  # fmt: skip
        assert promtool("labels", asap.url, "job") == "a\nb\n"
        assert promtool("series", "--match=n:total", asap.url) == '{__name__="n:total", instance="i"}\n'
        assert promtool("series", "--match=m{zone='x'}", f"--start={begin}", asap.url).count("\n") == 2
