"""The query log: what a line says, and that nothing waits for it."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Counter

from precompute.clock import ManualClock
from precompute.errors import ExecutionError
from precompute.evaluate.values import Scalar
from query import query_log
from query.account import TIERS, Account, Served
from query.answers import Answer, Forwarded, Told
from query.metrics import QueryMetrics
from query.promql.parse import MAX_LENGTH
from query.query_log import Asked, QueryLog, query_hash
from query.tiers.summary import Steps
from tests.e2e.talking import posted
from tests.query.answering import answering, serving
from tests.running import Program, poll_until

Start = Callable[..., AbstractContextManager[Program]]

NOW_MS = 1_764_500_000_250
ASKED = Asked("range", "sum( up )", 1000, 61_000, 15_000, "192.0.2.1", "ann")
TIMES = np.arange(5)
ACCOUNT = Account(
    samples=7, panes=4, groups=8, served={(0, "summary"): Served(3), (0, "head"): Served(2), (1, "head"): Served(1)}
)
TOLD = Told("sum( up )", None, Steps(TIMES, 0, 4, 1), ACCOUNT, None, "")
ANSWER = Answer(Scalar(np.zeros(5)), TIMES, "range", ("summary", "head"), "exact", told=TOLD)


@pytest.fixture
def lost() -> Counter:
    return Counter("lost_total", "Lost.", registry=None)


@pytest.fixture
def log(tmp_path: Path, lost: Counter) -> Iterator[QueryLog]:
    made = QueryLog(str(tmp_path / "query.log"), ManualClock(NOW_MS), lost)
    yield made
    made.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def value(counter: Counter) -> float:
    return next(iter(counter.collect())).samples[0].value


def noted(log: QueryLog, asked: Asked = ASKED) -> None:
    with log.noting(asked) as note:
        note(ANSWER)


def test_it_works(log: QueryLog, tmp_path: Path) -> None:
    noted(log)
    log.close()
    assert lines(tmp_path / "query.log") == [
        {
            "ts": "2025-11-30T10:53:20.250+00:00",
            "hash": query_hash("sum(up)"),
            "query": "sum( up )",
            "kind": "range",
            "start": 1.0,
            "end": 61.0,
            "step": 15.0,
            "duration": 0.0,
            "status": 200,
            "tiers": ["summary", "head"],
            "steps": {"summary": 3, "head": 3},
            "samples": 7,
            "panes": 4,
            "groups": 8,
            "bound": "exact",
            "client": "192.0.2.1",
            "user": "ann",
        }
    ]


def test_an_error_is_logged_and_goes_on(log: QueryLog, tmp_path: Path) -> None:
    with pytest.raises(ExecutionError), log.noting(ASKED):
        raise ExecutionError("it fails")
    with pytest.raises(ZeroDivisionError), log.noting(ASKED):
        raise ZeroDivisionError
    log.close()
    said = [(line["status"], line["error"], "tiers" in line) for line in lines(tmp_path / "query.log")]
    assert said == [(422, "it fails", False), (500, "an unexpected error", False)]


def test_what_an_upstream_answered_has_its_status(log: QueryLog, tmp_path: Path) -> None:
    with log.noting(ASKED) as note:
        note(Forwarded(429, "application/json", b"{}", TOLD))
    log.close()
    (line,) = lines(tmp_path / "query.log")
    assert (line["status"], line["tiers"], line["steps"]) == (429, ["upstream"], {"upstream": 5})
    assert "bound" not in line


def test_spelling_does_not_change_the_hash() -> None:
    assert query_hash("sum by(a,b) (rate(x{c='d'}[5m]))") == query_hash('sum(rate(x{c="d"}[300s])) by (a, b)')
    assert query_hash("sum(x)") != query_hash("sum(y)")
    assert query_hash("sum(") != query_hash("sum((")


@pytest.mark.parametrize("text", ["\ud800", "a\nb", '"', "é", "x" * (MAX_LENGTH + 5), ""])
def test_whatever_was_asked_is_one_line(log: QueryLog, tmp_path: Path, text: str) -> None:
    noted(log, Asked("instant", text, None, None, 0, "::1", ""))
    log.close()
    (line,) = lines(tmp_path / "query.log")
    assert len(line["query"]) <= MAX_LENGTH
    assert {"start", "step", "user"}.isdisjoint(line)


def test_a_file_that_was_moved_away_is_made_anew(log: QueryLog, tmp_path: Path) -> None:
    path, moved = tmp_path / "query.log", tmp_path / "query.log.1"
    noted(log)
    poll_until(lambda: lines(path), 30, "the first line")
    path.rename(moved)
    noted(log)
    poll_until(lambda: lines(path), 30, "a line in a new file")
    assert len(lines(moved)) == 1


def test_a_file_that_cannot_be_written_loses_lines_and_comes_back(tmp_path: Path, lost: Counter) -> None:
    folder = tmp_path / "absent"
    log = QueryLog(str(folder / "query.log"), ManualClock(NOW_MS), lost)
    noted(log)
    poll_until(lambda: value(lost) == 1, 30, "the line is lost")
    folder.mkdir()
    noted(log)
    log.close()
    assert len(lines(folder / "query.log")) == 1


def test_nothing_waits_for_a_pipe_that_nobody_reads(tmp_path: Path, lost: Counter) -> None:
    os.mkfifo(tmp_path / "pipe")
    log = QueryLog(str(tmp_path / "pipe"), ManualClock(NOW_MS), lost)
    for _ in range(50):
        noted(log)
    poll_until(lambda: value(lost) == 50, 30, "its lines are lost")
    log.close()


def test_no_query_waits_for_a_writer_that_is_behind(
    tmp_path: Path, lost: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_log, "MOST_WAITING", 10)
    written = threading.Event()
    monkeypatch.setattr(query_log, "line", lambda _: written.wait(60) and "late")
    log = QueryLog(str(tmp_path / "query.log"), ManualClock(NOW_MS), lost)
    for _ in range(50):
        noted(log)
    assert 39 <= value(lost) <= 40
    written.set()
    log.close()


@pytest.mark.e2e
def test_the_whole_program_logs_its_queries(asap_process: Start, tmp_path: Path) -> None:
    path = tmp_path / "queries.log"
    with serving() as behind:
        behind.reply = answering(200, b'{"status":"success"}')
        config = {"query_engine": {"query_log_file": str(path), "prometheus_server": behind.url}}
        with asap_process(config) as asap:
            posted(asap, "/api/v1/query", query="1 + 1", time="10")
            asap.get("/api/v1/query_range", query="vector(1)", start="0", end="30", step="15")
            asap.get("/api/v1/query", query="sum(")
            asap.get("/api/v1/query", query="not_here")
            asap.get("/api/v1/labels")
            assert asap.stop() == 0
    said = lines(path)
    assert [(line["query"], line["kind"], line["status"]) for line in said] == [
        ("1 + 1", "instant", 200),
        ("vector(1)", "range", 200),
        ("sum(", "instant", 400),
        ("not_here", "instant", 200),
    ]
    assert said[0]["start"] == said[0]["end"] == 10
    assert (said[1]["start"], said[1]["end"], said[1]["step"]) == (0, 30, 15)
    assert "parse error" in said[2]["error"]
    assert (said[1]["tiers"], said[1]["bound"]) == (["head"], "exact")
    assert (said[3]["tiers"], said[3]["steps"]) == (["upstream"], {"upstream": 1})
    assert {line["client"] for line in said} == {"127.0.0.1"}
    assert all(line["duration"] > 0 for line in said)


@pytest.mark.e2e
def test_a_dash_is_stderr(asap_process: Start) -> None:
    with asap_process({"query_engine": {"query_log_file": "-"}}) as asap:
        asap.get("/api/v1/query", query="1")
        poll_until(lambda: '"query":"1"' in asap.log(), 30, "the line")


def test_a_folder_that_is_not_there_ends_the_start(asap_process: Start, tmp_path: Path) -> None:
    refused = pytest.raises(AssertionError, match=r"ended with 2:\nasap: query_engine.query_log_file = ")
    with refused, asap_process({"query_engine": {"query_log_file": str(tmp_path / "absent" / "log")}}):
        pass


def test_the_metrics_count_steps_by_tier_and_how_exact_they_are() -> None:
    registry = CollectorRegistry()
    metrics = QueryMetrics(registry)
    metrics.count(ANSWER)
    metrics.count(replace(ANSWER, bound="0.01 relative; not sealed after 10:00:00 UTC"))
    metrics.count(Forwarded(200, "application/json", b"{}", TOLD))
    steps = {tier: registry.get_sample_value("asap_query_steps_total", {"tier": tier}) for tier in TIERS}
    assert steps == {"summary": 6, "head": 6, "upstream": 5}
    for bound, sealed in (("exact", "yes"), ("estimate", "no")):
        assert registry.get_sample_value("asap_query_answers_total", {"bound": bound, "sealed": sealed}) == 1
    for bound, sealed in (("exact", "no"), ("estimate", "yes")):
        assert registry.get_sample_value("asap_query_answers_total", {"bound": bound, "sealed": sealed}) == 0
