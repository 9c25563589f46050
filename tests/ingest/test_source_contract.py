"""What every source promises (`ingest.sources.base`), run by each of them."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prometheus_client import CollectorRegistry

from ingest.limits import LabelLimits, scan
from ingest.metrics import IngestMetrics
from ingest.sources.base import Source, Write
from ingest.sources.demo import DemoSource
from ingest.sources.scrape import ScrapeJob, ScrapeSource
from ingest.writer import Outcome, SeriesColumns
from precompute.clock import SystemClock
from precompute.errors import Rejected

Make = Callable[[], Source]


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'a{b="c"} 1\n')

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def target() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(params=["demo", "scrape"])
def make(request: pytest.FixtureRequest, target: str) -> Make:
    def demo() -> Source:
        return DemoSource(SystemClock(), interval_ms=10, cardinality=2)

    def scrape() -> Source:
        job = ScrapeJob("web", (target,), interval_ms=10, timeout_ms=5000)
        return ScrapeSource((job,), SystemClock(), lambda *_: None, IngestMetrics(CollectorRegistry()))

    return {"demo": demo, "scrape": scrape}[request.param]


def run_until(source: Source, write: Write, done: threading.Event) -> None:
    """Run the source in a thread until `done`, then stop it and see that it ends."""
    thread = threading.Thread(target=source.run, args=(write,))
    thread.start()
    assert done.wait(60)
    source.stop()
    source.stop()
    thread.join(60)
    assert not thread.is_alive()


def collect(make: Make, count: int, refuse: int = 0) -> list[SeriesColumns]:
    """The first writes of a source, of which the first `refuse` are refused."""
    written: list[SeriesColumns] = []
    done = threading.Event()

    def write(columns: SeriesColumns) -> Outcome:
        written.append(columns)
        if len(written) >= count:
            done.set()
        if len(written) <= refuse:
            raise Rejected("full")
        return Outcome(len(columns.t_ms), 0, {}, "")

    run_until(make(), write, done)
    return written


def test_columns_fit_together_and_their_labels_are_good(make: Make) -> None:
    for columns in collect(make, 2):
        assert len(columns.label_start) == len(columns.label_length) == len(columns.samples) > 0
        assert len(columns.t_ms) == len(columns.value) == columns.samples.sum()
        found = scan(columns.buf, columns.label_start, columns.label_length, LabelLimits())
        assert not found.verdict.any()
        assert found.canonical.all()


def test_times_go_up(make: Make) -> None:
    times = [int(columns.t_ms[0]) for columns in collect(make, 4)]
    assert times == sorted(set(times))


def test_samples_that_are_not_taken_are_let_go(make: Make) -> None:
    written = collect(make, 3, refuse=2)
    assert len({int(columns.t_ms[0]) for columns in written}) == len(written)


def test_a_source_that_is_stopped_before_it_runs_returns_at_once(make: Make) -> None:
    source = make()
    source.stop()
    thread = threading.Thread(target=source.run, args=(lambda columns: Outcome(0, 0, {}, ""),))
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
