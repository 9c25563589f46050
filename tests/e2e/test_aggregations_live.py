"""Aggregations that come and go on a running program: served from summaries within two ticks, kept over a crash."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from precompute.clock import SystemClock
from tests.e2e.talking import await_summary, instant, named, points, seconds, ticks, tier, write
from tests.running import ROOT, Answer, Program, http, poll_until

pytestmark = pytest.mark.e2e

Start = Callable[..., AbstractContextManager[Program]]

PATH = "/api/v1/aggregations"
JSON = {"Content-Type": "application/json"}
QUERY = "sum by (job) (m)"
FIXED = {"expr": "up", "by": ["job"], "accumulators": ["sum"]}
CONFIG = {
    "engine": {"minibatch": {"window_size": "2s", "allowed_lateness": "1s"}},
    "query_engine": {"lookback_delta": "20s"},
    "aggregations": [FIXED],
}


def asked(program: Program, method: str, path: str, body: Any = None) -> Answer:
    return http(program.url + path, None if body is None else json.dumps(body).encode(), JSON, method=method)


def command(program: Program, *flags: str) -> str:
    """What `python manage.py aggregations` prints."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "aggregations", "--url", program.url, *flags],
        cwd=program.folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_created_filled_from_the_head_kept_over_a_crash_and_deleted(asap_process: Start, tmp_path: Path) -> None:
    with asap_process(CONFIG) as asap:
        now_ms = SystemClock().now_ms()
        for job in ("a", "b"):
            rows = [(t_ms, float(t_ms % 100)) for t_ms in range(now_ms - 60_000, now_ms, 1000)]
            assert write(asap, [(named("m", job=job), rows)]).status == 204
        old_ms = (now_ms - 30_000) // 2000 * 2000
        exact = instant(asap, QUERY, old_ms)
        assert tier(exact) == "head"
        answer = asked(asap, "POST", PATH, {"expr": "m", "by": ["job"], "accumulators": ["sum", "count"]})
        made = answer.json()["data"]
        assert (answer.status, made["origin"]) == (201, "api")
        served = await_summary(asap, lambda: instant(asap, QUERY, old_ms), ticks(asap) + 2)
        assert points(served) == points(exact)
        listed = command(asap)
        assert f"m by (job): sum, count\n    answered {QUERY}\n" in listed
        assert {one["id"]: one["hits"] for one in json.loads(command(asap, "--json"))}[made["id"]] >= 1
        fixed = next(one for one in asap.get(PATH).json()["data"] if one["origin"] == "config")
        for method, body in (("DELETE", None), ("PATCH", {"pinned": False})):
            assert asked(asap, method, f"{PATH}/{fixed['id']}", body).status == 409
        asap.kill()
    with asap_process(CONFIG) as asap:
        again = {one["id"]: one for one in asap.get(PATH).json()["data"]}
        assert (again[made["id"]]["origin"], again[made["id"]]["pinned"]) == ("api", True)
        assert again[made["id"]]["panes"] > 0
        assert tier(instant(asap, QUERY, old_ms)) == "summary"
        assert asked(asap, "PATCH", f"{PATH}/{made['id']}", {"pinned": False}).json()["data"]["pinned"] is False
        assert asked(asap, "DELETE", f"{PATH}/{made['id']}").status == 204
        gone = instant(asap, QUERY, old_ms)
        assert (tier(gone), points(gone)) == ("head", points(exact))
        assert asap.stop() == 0
    with asap_process(CONFIG) as asap:
        assert [one["origin"] for one in asap.get(PATH).json()["data"]] == ["config"]
        assert tier(instant(asap, QUERY, old_ms)) == "head"


def test_what_this_config_does_not_allow_any_more_is_said_and_left_out(asap_process: Start) -> None:
    with asap_process(CONFIG) as asap:
        long = {"expr": "rate(m[50m])", "by": [], "accumulators": ["sum"]}
        assert asked(asap, "POST", PATH, long).status == 201
        assert asap.stop() == 0
    shorter = {**CONFIG, "engine": {"minibatch": {"window_size": "2s", "allowed_lateness": "1s", "max_reach": "10m"}}}
    with asap_process(shorter) as asap:
        assert len(asap.get(PATH).json()["data"]) == 1
        assert "rate(m[50m]) looks back 50m; engine.minibatch.max_reach is 10m: raise it" in asap.log()
        assert asap.stop() == 0
    with asap_process(CONFIG) as asap:
        assert len(asap.get(PATH).json()["data"]) == 2


def test_queries_are_answered_all_the_same_while_what_is_kept_comes_and_goes(asap_process: Start) -> None:
    body = {"expr": "m", "by": ["job"], "accumulators": ["sum"]}
    with asap_process(CONFIG) as asap:
        now_ms = SystemClock().now_ms()
        rows = [(t_ms, float(t_ms % 100)) for t_ms in range(now_ms - 60_000, now_ms, 1000)]
        assert write(asap, [(named("m", job="a"), rows)]).status == 204
        end_ms = (now_ms - 6000) // 2000 * 2000
        asked_for = {"query": QUERY, "start": seconds(end_ms - 40_000), "end": seconds(end_ms), "step": "2"}
        poll_until(lambda: SystemClock().now_ms() > end_ms + 4000, 30, "the panes are sealed")
        exact, tiers = points(asap.get("/api/v1/query_range", **asked_for)), set[str]()
        for turn in range(200):
            if turn % 20 == 0:
                made = asked(asap, "POST", PATH, body).json()["data"]
            if turn % 20 == 12:
                assert asked(asap, "DELETE", f"{PATH}/{made['id']}").status == 204
            answer = asap.get("/api/v1/query_range", **asked_for, nocache=str(turn % 2))
            assert points(answer) == exact
            tiers.add(tier(answer))
        assert {"head", "summary"} <= tiers
        assert "Traceback" not in asap.log()
