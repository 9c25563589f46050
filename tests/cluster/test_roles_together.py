"""What the processes of a cluster have in common: the plan, which any of them changes, and life without PostgreSQL."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from precompute.clock import SystemClock
from precompute.panes import last_end
from tests.cluster.roles import Cluster, Counts, cluster, ground
from tests.e2e.talking import instant, named, tier, write
from tests.running import Program, http, poll_until

pytestmark = pytest.mark.e2e

WIDTH_MS = 5000
TAKEN_OVER_S, SUMMARISED_S, STARTED_S, SCRAPED_S, PLANNED_S = 20.0, 60.0, 90.0, 60.0, 60.0
CONFIG: dict[str, Any] = {
    "engine": {"minibatch": {"window_size": "5s", "allowed_lateness": "2s", "shards": 4}},
    "cluster": {"lease": "5s"},
}
PATH = "/api/v1/aggregations"
ITEM = {"expr": "m", "by": ["job"], "accumulators": ["sum"]}


def test_a_plan_changed_in_one_engine_is_the_others_and_outlives_postgresql(tmp_path: Path) -> None:
    with (
        ground("everysec") as below,
        cluster(tmp_path, below, CONFIG, Counts(ingest=1, query_engines=2, workers=1)) as many,
    ):
        one, other = (role.running for role in many.query_engines)
        made = one.post(PATH, json.dumps(ITEM).encode(), content_type="application/json")
        assert made.status == 201, made.body
        poll_until(lambda: kept(other) == kept(one) != [], TAKEN_OVER_S, "the other engine keeps the same", 0.2)
        assert_summarised(many)
        below.database.stop()
        for role in many.roles:
            role.kill()
            role.start()
        many.await_ready(STARTED_S)
        assert kept(many.query_engines[1].running) == kept(many.query_engines[0].running) != []
        assert_summarised(many)
        below.database.start()
        (aggregation,) = kept(many.query_engines[0].running)
        gone = http(f"{many.query_engines[0].url}{PATH}/{aggregation}", method="DELETE")
        assert gone.status == 204, gone.body
        poll_until(lambda: kept(many.query_engines[1].running) == [], TAKEN_OVER_S, "the other lets go of it too", 0.2)


def test_what_several_ingest_processes_scrape_is_kept_once(tmp_path: Path) -> None:
    with ground("everysec") as below, exposing("thing 1\n") as target:
        scrape = {"job": "things", "targets": [target], "interval": "1s", "timeout": "1s"}
        counts = Counts(ingest=2, query_engines=1, schedulers=0, workers=0)
        with cluster(tmp_path, below, {**CONFIG, "scrape": [scrape]}, counts) as many:
            engine = many.query_engines[0].running
            poll_until(lambda: scraped(engine) >= 8, SCRAPED_S, "ten seconds of samples are there", 0.5)
            # one who takes over may scrape at once
            assert scraped(engine) <= 12
            poll_until(partial(one_scrapes_alone, many), SCRAPED_S, "one process scrapes, the other does not")


def test_what_one_query_engine_is_asked_is_planned_for_whichever_of_them_plans(tmp_path: Path) -> None:
    counts = Counts(ingest=1, query_engines=2, schedulers=0, workers=0)
    with (
        ground("everysec") as below,
        cluster(tmp_path, below, {**CONFIG, "planner": {"enabled": True}}, counts) as many,
    ):
        write_pane(many)
        engines = [role.running for role in many.query_engines]

        def planned() -> bool:
            for engine, operator in zip(engines, ("min", "max"), strict=True):
                instant(engine, f"{operator} by (job) (m)", last_end(SystemClock().now_ms(), WIDTH_MS))
            return all({"min", "max"} <= accumulators(engine) for engine in engines)

        poll_until(planned, PLANNED_S, "what either is asked is kept by both", 1.0)


def scraped(engine: Program) -> float:
    """Samples of the last ten seconds."""
    now_ms = last_end(SystemClock().now_ms(), 1000)
    found = instant(engine, "count_over_time(thing[10s])", now_ms - 2000).json()["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


def one_scrapes_alone(many: Cluster) -> bool:
    """Whether, while some process scrapes three times more, no other does."""

    def more() -> list[float]:
        return [now - then for now, then in zip(samples_scraped(many), before, strict=True)]

    before = samples_scraped(many)
    poll_until(lambda: max(more()) >= 3, SCRAPED_S, "three more scrapes", 0.2)
    return sum(count > 0 for count in more()) == 1


def samples_scraped(many: Cluster) -> list[float]:
    """By each ingest process since it was started, of the one sample of the target."""
    name = 'asap_ingest_samples_total{source="scrape"} '
    pages = [role.running.get("/metrics").body.decode().splitlines() for role in many.ingests]
    return [sum(float(line.removeprefix(name)) for line in page if line.startswith(name)) for page in pages]


@contextmanager
def exposing(text: str) -> Iterator[str]:
    """The address of a target that always says this."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def kept(engine: Program) -> list[str]:
    """Ids of what an engine keeps."""
    return [one["id"] for one in engine.get(PATH).json()["data"]]


def accumulators(engine: Program) -> set[str]:
    """All that an engine keeps for a group, of whatever aggregations."""
    return {name for one in engine.get(PATH).json()["data"] for name in one["accumulators"]}


def write_pane(many: Cluster) -> int:
    """Samples of eight series at the end of the newest pane, which is returned."""
    t_ms = last_end(SystemClock().now_ms(), WIDTH_MS)
    write(many.ingests[0].running, [(named("m", job="a", i=str(i)), [(t_ms, float(i))]) for i in range(8)])
    return t_ms


def assert_summarised(many: Cluster) -> None:
    """Samples of a new pane are taken, and every engine answers from its summary."""
    t_ms = write_pane(many)
    for engine in many.query_engines:
        poll_until(
            partial(is_summed, engine.running, t_ms), SUMMARISED_S, f"{engine.name} answers from a summary", 0.2
        )


def is_summed(engine: Program, t_ms: int) -> bool:
    """A summary with every sample of the write: until the engine has read it from the log, one without is right too."""
    answer = instant(engine, "sum by (job) (m)", t_ms)
    return tier(answer) == "summary" and [row["value"][1] for row in answer.json()["data"]["result"]] == ["28"]
