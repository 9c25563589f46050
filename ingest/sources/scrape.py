"""Scraping targets as Prometheus does (prometheus/scrape/scrape.go): aligned times, `up`, staleness.

Each target has a thread. Its times lie on the grid of the interval, shifted by a stable offset that spreads
the targets. Samples carry the scrape's start unless the page gives its own time.
"""

import logging
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ingest.errors import BadBody
from ingest.metrics import IngestMetrics
from ingest.sources.base import Pace, Write
from ingest.sources.exposition import Page, parse_page
from ingest.sources.fetch import Address, TargetDown, fetch_text
from ingest.sources.tracked import TrackedSeries
from ingest.writer import NoteMetadata
from precompute.clock import Clock
from precompute.errors import Rejected
from precompute.lasting import attempt
from precompute.metadata import Family

MAX_PAGE_BYTES = 64 << 20

_STOP_S = 2.0
_DESCRIBED_AGAIN_S = 60.0
"""As often as Prometheus sends metadata."""
_JITTER_MS = 2
"""A start this close behind its due time counts as on time, so that samples lie on the grid (scrape.go)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScrapeJob:
    """What to scrape and how often; targets are host:port."""

    name: str
    targets: tuple[str, ...]
    interval_ms: int = 15_000
    timeout_ms: int = 10_000
    path: str = "/metrics"
    scheme: str = "http"
    own_page: Callable[[], str] | None = None
    """Where the page is ours: it is had without HTTP, so that no password and no certificate stands in the way."""


class ScrapeSource:
    """Scrapes all targets of some jobs."""

    def __init__(
        self, jobs: tuple[ScrapeJob, ...], clock: Clock, note_metadata: NoteMetadata, metrics: IngestMetrics
    ) -> None:
        self._clock, self._stopped = clock, threading.Event()
        self._targets = [Target(job, target, clock, note_metadata, metrics) for job in jobs for target in job.targets]

    def run(self, write: Write) -> None:
        threads = [threading.Thread(target=self._keep, args=(target, write), daemon=True) for target in self._targets]
        for thread in threads:
            thread.start()
        self._stopped.wait()
        until_s = self._clock.monotonic_s() + _STOP_S
        for thread in threads:
            thread.join(max(0.0, until_s - self._clock.monotonic_s()))

    def stop(self) -> None:
        self._stopped.set()

    def _keep(self, target: "Target", write: Write) -> None:
        """Once at the start, so that there is something to ask for; then on the target's own grid."""
        if not self._stopped.is_set():
            attempt(partial(target.scrape, self._clock.now_ms(), write), target.name)
        for due_ms in target.pace.beats(self._stopped):
            now_ms = self._clock.now_ms()
            t_ms = due_ms if 0 <= now_ms - due_ms <= _JITTER_MS else now_ms
            attempt(partial(target.scrape, t_ms, write), target.name)


class Target:
    """One target; used by one thread."""

    def __init__(
        self, job: ScrapeJob, target: str, clock: Clock, note_metadata: NoteMetadata, metrics: IngestMetrics
    ) -> None:
        self._job, self._clock, self._note_metadata, self._metrics = job, clock, note_metadata, metrics
        self._address = Address(job.scheme, target, job.path)
        self._series = TrackedSeries((("instance", target), ("job", job.name)))
        self._described: dict[str, tuple[str, str]] = {}
        self._described_s = clock.monotonic_s()
        self.pace = Pace(job.interval_ms, zlib.crc32(f"{job.name}/{target}/{job.path}".encode()), clock)

    @property
    def name(self) -> str:
        return f"the scrape of {self._address.target}"

    def scrape(self, t_ms: int, write: Write) -> None:
        """Fetch the page and write its samples at `t_ms`."""
        begun_s = self._clock.monotonic_s()
        page = self._fetch()
        report = {
            "up": float(page is not None),
            "scrape_duration_seconds": self._clock.monotonic_s() - begun_s,
            "scrape_samples_scraped": float(len(page.samples)) if page else 0.0,
        }
        columns = self._series.columns(page.samples if page else (), report, t_ms)
        try:
            write(columns)
        except Rejected as rejected:
            _log.warning("the scrape of %s was not taken: %s", self._address.target, rejected)
            return self._count("rejected")
        self._series.written()
        self._describe(page)
        return self._count("up" if page else "down")

    def _fetch(self) -> Page | None:
        try:
            return parse_page(self._text())
        except (TargetDown, BadBody) as error:
            _log.info("the scrape of %s failed: %s", self._address.target, error)
            return None

    def _text(self) -> str:
        if self._job.own_page is not None:
            return self._job.own_page()
        return fetch_text(self._address, self._job.timeout_ms / 1000, MAX_PAGE_BYTES, self._clock)

    def _describe(self, page: Page | None) -> None:
        """Tell the core of families when one's description is new, and now and then, since it may have let them go."""
        now_s = self._clock.monotonic_s()
        if page is None or (page.families == self._described and now_s - self._described_s < _DESCRIBED_AGAIN_S):
            return
        self._note_metadata([(family, Family(kind, text, "")) for family, (kind, text) in page.families.items()])
        self._described, self._described_s = page.families, now_s

    def _count(self, outcome: str) -> None:
        self._metrics.scrapes.labels(self._job.name, outcome).inc()
