"""The real thing, started as a newcomer starts it."""

import re
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.running import Program, connection, poll_until

Start = Callable[..., AbstractContextManager[Program]]

pytestmark = pytest.mark.e2e

STOPS_WITHIN_S = 30


def test_the_printed_query_finds_our_own_metrics(asap_process: Start) -> None:
    with asap_process({"ingest": {"self_scrape": True}, "query_engine": {"prometheus_scrape_interval": "1s"}}) as asap:
        command = re.search(r"try +(curl .*)", asap.log())
        assert command is not None

        def found() -> bool:
            done = subprocess.run(["bash", "-c", f"{command[1]} -sS"], capture_output=True, text=True, check=True)
            return '"job":"asap"' in done.stdout

        poll_until(found, 60, "up of job asap")


def test_a_start_compiles_nothing(asap_process: Start) -> None:
    with asap_process({"demo": {"enabled": True}}, env={"NUMBA_DEBUG_CACHE": "1"}) as asap:
        fed = {"query": "sum(sensor_reading)"}
        poll_until(lambda: asap.get("/api/v1/query", **fed).json()["data"]["result"], 20, "the demo")
        assert asap.stop() == 0
        assert "[cache] data loaded from" in asap.log()
        assert "[cache] data saved to" not in asap.log()


def test_two_nodes_cannot_share_a_data_dir(asap_process: Start, tmp_path: Any) -> None:
    shared = {"data_dir": str(tmp_path / "shared")}
    with asap_process(shared):
        refused = pytest.raises(AssertionError, match=re.escape(str(tmp_path / "shared")))
        with refused, asap_process(shared, folder="other"):
            pass


def test_every_role_endpoint_answers(asap_process: Start) -> None:
    with asap_process() as asap:
        assert [asap.get(path).status for path in ("/-/healthy", "/-/ready", "/metrics")] == [200, 200, 200]
        assert asap.stop() == 0
    assert "Traceback" not in asap.log()


def test_sigterm_ends_in_time_under_load_and_with_half_sent_requests(asap_process: Start) -> None:
    with asap_process({"demo": {"enabled": True}, "ingest": {"self_scrape": True}}) as asap:
        half = b"POST /api/v1/write HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf"
        with connection(asap, half), connection(asap, half):
            assert asap.stop(STOPS_WITHIN_S) == 0
    assert "Traceback" not in asap.log()


def test_after_a_killed_supervisor_a_start_succeeds(asap_process: Start) -> None:
    with asap_process({"demo": {"enabled": True}}) as asap:
        asap.kill()
    with asap_process({"demo": {"enabled": True}}) as again:
        assert again.stop() == 0


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        ({"expr": "rate(x[5h])", "by": ["a"]}, "engine.minibatch.max_reach is 1h: raise it"),
        ({"expr": "sum(x)", "by": ["a"]}, "an aggregation operator inside"),
        ({"expr": "x[5m]", "by": ["a"]}, "a range vector; put a function over it"),
        ({"expr": "sort(x)", "by": ["a"]}, "sort inside, which only orders"),
        ({"expr": "sum(", "by": ["a"]}, "parse error"),
    ],
)
def test_an_aggregation_that_cannot_be_kept_ends_the_start_with_a_line(
    asap_process: Start, kept: dict[str, object], why: str
) -> None:
    refused = pytest.raises(AssertionError, match=f"ended with 2:\nasap: .*{re.escape(why)}")
    with refused, asap_process({"aggregations": [{**kept, "accumulators": ["sum"]}]}):
        pass


def test_what_is_kept_can_be_asked_for(asap_process: Start) -> None:
    kept = {"expr": "rate(x[1m])", "by": ["b", "a"], "accumulators": ["sum"], "retention": "2h"}
    with asap_process({"aggregations": [kept]}) as asap:

        def panes() -> int:
            (only,) = asap.get("/api/v1/aggregations").json()["data"]
            assert only["expr"] == "rate(x[1m])"
            assert only["by"] == ["a", "b"]
            assert (only["width"], only["reach"], only["retention"]) == ("15s", "1m", "2h")
            return int(only["panes"]) if only["bytes"] else 0

        poll_until(panes, 20, "panes of the last hour")
        assert asap.post("/api/v1/aggregations", b"{}", content_type="application/json").status == 400
