"""Scraping a target that runs in the test."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import pytest
from prometheus_client import CollectorRegistry

from ingest.errors import BadBody
from ingest.metrics import IngestMetrics
from ingest.sources import scrape
from ingest.sources.base import Write
from ingest.sources.exposition import parse_page
from ingest.sources.scrape import ScrapeJob, ScrapeSource, Target
from ingest.writer import NoteMetadata, Outcome, SeriesColumns
from precompute.clock import ManualClock, SystemClock
from precompute.errors import Rejected
from precompute.labels import Labels
from precompute.metadata import Described, Family
from precompute.samples import is_stale
from tests.ingest.node import NOW_MS, Node, make_node

T = NOW_MS
PAGE = '# TYPE http_requests counter\n# HELP http_requests Seen.\nhttp_requests{code="200"} 7\nup_to 1.5\n'


class Exporter(ThreadingHTTPServer):
    """A target whose answer the test sets."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page, self.status, self.seen = PAGE, 200, threading.Semaphore(0)
        self.silent, self.drips, self.announced = threading.Event(), False, 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Exporter
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        if self.server.silent.is_set():
            self.server.seen.acquire()
        self.send_response(self.server.status)
        if self.server.announced:
            self.send_header("Content-Length", str(self.server.announced))
        self.end_headers()
        self.wfile.write(self.server.page.encode())
        while self.server.drips and not self.server.seen.acquire(timeout=0.01):
            self.wfile.write(b"\n")
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with Exporter() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.seen.release(100)
        server.shutdown()
        thread.join()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return make_node(tmp_path)


def target(node: Node, exporter: Exporter, timeout_ms: int = 5000) -> Target:
    job = ScrapeJob("web", (exporter.address,), timeout_ms=timeout_ms)
    return Target(job, exporter.address, SystemClock(), note(node), node.remote_write.metrics)


def note(node: Node) -> NoteMetadata:
    return lambda described: node.metadata.update((family, astuple(said)) for family, said in described)


def into(node: Node) -> Write:
    return lambda columns: node.writer.write("scrape", columns)


def of(exporter: Exporter, name: str, **labels: str) -> Labels:
    return tuple(sorted({"__name__": name, "instance": exporter.address, "job": "web", **labels}.items()))


def stale_at(node: Node) -> dict[Labels, list[int]]:
    """Times of the staleness markers, by series."""
    out: dict[Labels, list[int]] = {}
    for entry in node.log.read(0, node.table):
        if entry.block is not None:
            block = entry.block.take(is_stale(entry.block.value))
            for sid, t_ms in zip(block.sid.tolist(), block.t_ms.tolist(), strict=True):
                out.setdefault(node.table.labels_of(sid), []).append(t_ms)
    return out


def test_it_works(node: Node, exporter: Exporter) -> None:
    target(node, exporter).scrape(T, into(node))
    kept = node.kept()
    assert kept[of(exporter, "http_requests", code="200")] == [(T, 7.0)]
    assert kept[of(exporter, "up_to")] == [(T, 1.5)]
    assert kept[of(exporter, "up")] == [(T, 1.0)]
    assert kept[of(exporter, "scrape_samples_scraped")] == [(T, 2.0)]
    assert 0 <= kept[of(exporter, "scrape_duration_seconds")][0][1] < 5
    assert node.metadata["http_requests"] == ("counter", "Seen.", "")
    assert node.count("asap_ingest_samples_total", source="scrape") == 5
    assert node.count("asap_ingest_scrapes_total", job="web", outcome="up") == 1


def test_a_page_is_described_again_each_minute(node: Node) -> None:
    clock, told = ManualClock(T), list[Sequence[Described]]()
    job = ScrapeJob("own", ("here",), own_page=lambda: PAGE)
    one = Target(job, "here", clock, told.append, node.remote_write.metrics)
    for times in (1, 1, 2):
        one.scrape(clock.now_ms(), into(node))
        assert told == [[("http_requests", Family("counter", "Seen.", ""))]] * times
        clock.advance(30_000)


def test_a_series_that_vanishes_goes_stale_once(node: Node, exporter: Exporter) -> None:
    one = target(node, exporter)
    one.scrape(T, into(node))
    exporter.page = "up_to 2\n"
    one.scrape(T + 1, into(node))
    one.scrape(T + 2, into(node))
    assert stale_at(node) == {of(exporter, "http_requests", code="200"): [T + 1]}


def test_a_target_that_fails_is_down_and_all_its_series_go_stale(node: Node, exporter: Exporter) -> None:
    one = target(node, exporter)
    one.scrape(T, into(node))
    exporter.status = 500
    one.scrape(T + 1, into(node))
    exporter.status = 200
    one.scrape(T + 2, into(node))
    kept = node.kept()
    assert kept[of(exporter, "up")] == [(T, 1.0), (T + 1, 0.0), (T + 2, 1.0)]
    assert kept[of(exporter, "scrape_samples_scraped")] == [(T, 2.0), (T + 1, 0.0), (T + 2, 2.0)]
    assert stale_at(node) == {of(exporter, "http_requests", code="200"): [T + 1], of(exporter, "up_to"): [T + 1]}
    assert node.count("asap_ingest_scrapes_total", job="web", outcome="down") == 1


@pytest.mark.parametrize("page", ['a{b="c} 1\n', "a\n", "a one\n", '{"x"=} 1\n'])
def test_a_page_that_is_no_exposition_is_a_failed_scrape(node: Node, exporter: Exporter, page: str) -> None:
    exporter.page = page
    target(node, exporter).scrape(T, into(node))
    assert node.kept()[of(exporter, "up")] == [(T, 0.0)]


def test_a_target_that_does_not_answer_is_down_after_the_timeout(node: Node, exporter: Exporter) -> None:
    exporter.silent.set()
    target(node, exporter, timeout_ms=50).scrape(T, into(node))
    assert node.kept()[of(exporter, "up")] == [(T, 0.0)]


def test_a_target_that_is_not_there_is_down(node: Node, exporter: Exporter) -> None:
    for address in ("127.0.0.1:1", "no.such.host.invalid:80", "127.0.0.1:99999"):
        job = ScrapeJob("web", (address,), timeout_ms=500)
        Target(job, address, SystemClock(), note(node), node.remote_write.metrics).scrape(T, into(node))
    assert node.count("asap_ingest_scrapes_total", job="web", outcome="down") == 3


def test_a_page_above_the_bound_is_a_failed_scrape(
    node: Node, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "MAX_PAGE_BYTES", 10)
    target(node, exporter).scrape(T, into(node))
    assert node.kept()[of(exporter, "up")] == [(T, 0.0)]


def test_labels_that_the_target_has_too_are_kept_as_exported(node: Node, exporter: Exporter) -> None:
    exporter.page = 'm{job="own",exported_job="other",instance=""} 1\n'
    target(node, exporter).scrape(T, into(node))
    assert of(exporter, "m", exported_job="other", exported_exported_job="own") in node.kept()


def test_a_page_may_give_its_own_times_and_such_series_do_not_go_stale(node: Node, exporter: Exporter) -> None:
    exporter.page = f"m 1 {T - 5}\nm 2 {T - 4}\n"
    one = target(node, exporter)
    one.scrape(T, into(node))
    exporter.page = ""
    one.scrape(T + 1, into(node))
    assert node.kept()[of(exporter, "m")] == [(T - 5, 1.0), (T - 4, 2.0)]
    assert stale_at(node) == {}


def test_of_two_samples_of_a_series_the_first_is_kept(node: Node, exporter: Exporter) -> None:
    exporter.page = "m 1\nm 2\n"
    target(node, exporter).scrape(T, into(node))
    assert node.kept()[of(exporter, "m")] == [(T, 1.0)]


def test_markers_that_were_not_taken_are_written_with_the_next_scrape(node: Node, exporter: Exporter) -> None:
    one = target(node, exporter)
    one.scrape(T, into(node))
    exporter.page = "up_to 2\n"

    def full(columns: SeriesColumns) -> Outcome:
        raise Rejected("full")

    one.scrape(T + 1, full)
    one.scrape(T + 2, into(node))
    assert stale_at(node) == {of(exporter, "http_requests", code="200"): [T + 2]}
    assert node.count("asap_ingest_scrapes_total", job="web", outcome="rejected") == 1


def test_whatever_goes_wrong_in_a_scrape_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    asked = threading.Semaphore(0)

    def broken() -> str:
        asked.release()
        raise RuntimeError("planted")

    job = ScrapeJob("own", ("here",), 10, 10, own_page=broken)
    metrics = IngestMetrics(CollectorRegistry())
    source = ScrapeSource((job,), SystemClock(), lambda *_: None, metrics)
    thread = threading.Thread(target=source.run, args=(lambda _: Outcome(0, 0, {}, ""),))
    thread.start()
    assert all(asked.acquire(timeout=60) for _ in range(3))
    source.stop()
    thread.join()
    assert "the scrape of here failed; it is tried again" in caplog.text


def test_a_page_that_is_cut_off_is_a_failed_scrape(node: Node, exporter: Exporter) -> None:
    exporter.announced = 1000
    target(node, exporter).scrape(T, into(node))
    assert node.kept()[of(exporter, "up")] == [(T, 0.0)]


def test_a_page_that_drips_is_a_failed_scrape(node: Node, exporter: Exporter) -> None:
    exporter.drips = True
    target(node, exporter, timeout_ms=100).scrape(T, into(node))
    assert node.kept()[of(exporter, "up")] == [(T, 0.0)]


def test_counters_keep_the_names_that_the_page_gives_them() -> None:
    page = parse_page("# TYPE a counter\na 1\n# TYPE b counter\nb_total 2\n")
    assert [sample.name for sample in page.samples] == ["a", "b_total"]
    assert page.families == {"a": ("counter", ""), "b": ("counter", "")}


def test_help_texts_are_unescaped() -> None:
    assert parse_page("# HELP a one\\\\ntwo\\nthree\n").families == {"a": ("unknown", "one\\ntwo\nthree")}


def test_a_time_beyond_int64_is_no_exposition() -> None:
    for time in ("99999999999999999999", "NaN", "+Inf"):
        with pytest.raises(BadBody):
            parse_page(f"a 1 {time}\n")


def test_damaged_pages_raise_nothing_but_their_error() -> None:
    random, bad = Random(5), 0
    page = 'a{b="c",d="\\n"} 1.5 1395066363000\n{"dotted.name",q="1"} NaN\nh_bucket{le="+Inf"} 3 # {t="1"} 2\n'
    for _ in range(5000):
        text = list(page)
        for _ in range(random.randint(1, 4)):
            text[random.randrange(len(text))] = random.choice('"{},=\\ \n#eα\0')
        try:
            parse_page("".join(text))
        except BadBody:
            bad += 1
    assert 1000 < bad < 5000
