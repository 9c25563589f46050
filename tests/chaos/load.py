"""Senders as Prometheus is one: a scrape each second, and a request is sent again and again until it is acknowledged.

Some scrapes are sent late and some twice. What was acknowledged is kept in columns: it is what must be found again.
"""

import http.client
import threading
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np

from precompute.clock import Clock
from precompute.labels import Labels
from precompute.samples import F64, I64
from tests.bench.bodies import Request
from tests.e2e.talking import SNAPPY, named
from tests.ingest.wire import encode_labels
from tests.running import http as asked

SCRAPE_MS = 1000
AGAIN_S = 0.2
ANSWER_S = 10.0
LATE_SHARE, TWICE_SHARE = 0.05, 0.05
LATEST_SCRAPES = 6
RESET_SHARE = 0.01
GROUPS = ("a", "b", "c", "d", "e")


def labels(sender: str, pairs: int) -> list[Labels]:
    """A sender's series: `pairs` gauges, then as many counters."""
    return [
        named(metric, sender=sender, g=GROUPS[k % len(GROUPS)], i=f"{k:03}")
        for metric in ("chaos_gauge", "chaos_total")
        for k in range(pairs)
    ]


@dataclass(frozen=True)
class Scrape:
    """All of a sender's samples of one time; `acknowledged_ms` is when the 204 came."""

    t_ms: int
    values: F64
    acknowledged_ms: int = 0


@dataclass
class Sender:
    """One thread's work, from `run` on."""

    name: str
    pairs: int
    urls: Sequence[str]
    clock: Clock
    seed: int
    acknowledged: list[Scrape] = field(default_factory=list)
    refused: str = ""
    """An answer that no sender should get; the sender has given up."""
    tries_again: int = 0

    def __post_init__(self) -> None:
        self.labels = labels(self.name, self.pairs)
        self._request = Request([encode_labels(one) for one in self.labels], 1)
        self._draw = np.random.default_rng(self.seed)
        self._urls, self._counted = cycle(self.urls), np.zeros(self.pairs)
        self._held: list[tuple[int, Scrape]] = []
        self._next_ms = self.clock.now_ms() // SCRAPE_MS * SCRAPE_MS

    def settled_ms(self) -> int:
        """Every scrape up to this time has been acknowledged."""
        return min([self._next_ms, *(scrape.t_ms for _, scrape in self._held)]) - 1

    def run(self, stop: threading.Event) -> None:
        """Until it is told to stop; then what was held back is sent too."""
        while not self.refused and not stop.wait(max(0, self._next_ms - self.clock.now_ms()) / 1000):
            self._hold_or_send(self._scraped(self._next_ms + int(self._draw.integers(0, 50))))
            self._next_ms += SCRAPE_MS
            self._send_held(self._next_ms)
        self._send_held(1 << 62)

    def _scraped(self, t_ms: int) -> Scrape:
        grown = self._draw.integers(0, 20, self.pairs)
        self._counted = np.where(self._draw.random(self.pairs) < RESET_SHARE, 0.0, self._counted + grown)
        return Scrape(t_ms, np.concatenate([self._draw.normal(0.0, 100.0, self.pairs), self._counted]))

    def _hold_or_send(self, scrape: Scrape) -> None:
        if self._draw.random() < LATE_SHARE:
            due_ms = scrape.t_ms + SCRAPE_MS * int(self._draw.integers(1, LATEST_SCRAPES))
            self._held.append((due_ms, scrape))
        else:
            self._send(scrape)

    def _send_held(self, due_ms: int) -> None:
        """One leaves the list only when it is acknowledged: `settled_ms` is read by others meanwhile."""
        for held in [one for one in self._held if one[0] <= due_ms]:
            self._send(held[1])
            self._held = [one for one in self._held if one is not held]

    def _send(self, scrape: Scrape) -> None:
        """Until it is acknowledged, and sometimes once more, as a sender does that did not hear the answer."""
        body = self._request.packed(np.array([scrape.t_ms]), scrape.values[:, None])
        while not self.refused and not self._is_taken(body):
            self.tries_again += 1
            threading.Event().wait(AGAIN_S)
        if not self.refused:
            self.acknowledged.append(Scrape(scrape.t_ms, scrape.values, self.clock.now_ms()))
            if self._draw.random() < TWICE_SHARE:
                self._is_taken(body)

    def _is_taken(self, body: bytes) -> bool:
        try:
            answer = asked(f"{next(self._urls)}/api/v1/write", body, SNAPPY, ANSWER_S)
        except (OSError, http.client.HTTPException, urllib.error.URLError):
            return False
        if answer.status not in (204, 503):
            self.refused = f"{answer.status} {answer.body[:300]!r}"
        return answer.status == 204


@contextmanager
def sending(senders: Sequence[Sender]) -> Iterator[Callable[[], None]]:
    """All of them at work, until the end of the block or until what it yields is called, which waits for the last
    acknowledgement."""
    stop = threading.Event()
    threads = [threading.Thread(target=sender.run, args=(stop,), daemon=True) for sender in senders]
    for thread in threads:
        thread.start()

    def finish() -> None:
        stop.set()
        for thread in threads:
            thread.join()

    try:
        yield finish
    finally:
        stop.set()


def columns(senders: Sequence[Sender], after_ms: int, until_ms: int) -> "Acknowledged":
    """What was acknowledged with times in (after, until], scrape by scrape."""
    rows = [
        (number, scrape)
        for number, sender in enumerate(senders)
        for scrape in list(sender.acknowledged)
        if after_ms < scrape.t_ms <= until_ms
    ]
    first = np.cumsum([0, *(len(sender.labels) for sender in senders)])
    sizes = [len(scrape.values) for _, scrape in rows]
    return Acknowledged(
        np.concatenate([np.arange(first[k], first[k + 1]) for k, _ in rows] or [np.zeros(0, np.int64)]),
        np.repeat(np.array([scrape.t_ms for _, scrape in rows], np.int64), sizes),
        np.concatenate([scrape.values for _, scrape in rows] or [np.zeros(0)]),
        np.repeat(np.array([scrape.acknowledged_ms for _, scrape in rows], np.int64), sizes),
    )


@dataclass(frozen=True)
class Acknowledged:
    """Samples: the number of the series over all senders, ms, value, and when the 204 came, ms."""

    series: I64
    t_ms: I64
    value: F64
    heard_ms: I64

    def __len__(self) -> int:
        return len(self.t_ms)

    def without(self, rows: I64) -> "Acknowledged":
        """All but these rows."""
        kept = np.setdiff1d(np.arange(len(self)), rows)
        return Acknowledged(self.series[kept], self.t_ms[kept], self.value[kept], self.heard_ms[kept])
