"""An hour of a shop's samples as a sender brings them: counters that start again, series that come and go, samples
that come late, and samples that come twice, some of these with another value.

A function of its start and its seed alone. Samples are columns, in the order of their delivery.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from precompute.labels import Labels
from precompute.samples import F64, I32, I64, STALE
from tests.e2e.talking import named
from tests.ingest.wire import encode_columns, encode_labels, snappy

SCRAPE_MS = 15_000
SCRAPES = 240
JITTER_MS = 900
"""Targets are scraped at times of their own."""
LATE_SHARE, TWICE_SHARE, OTHER_SHARE = 0.03, 0.02, 0.5
LATEST_SCRAPES = 20
"""How many scrapes later the last late sample comes."""
PODS, NODES, CODES, BUCKETS = 12, 4, ("200", "404", "500"), ("0.1", "0.5", "2.5", "+Inf")


def labels() -> list[Labels]:
    """All series that there ever are."""
    pods = [(f"p{k}", "shop" if k % 3 else "stock", f"n{k % NODES}") for k in range(PODS)]
    return [
        *(named("g", pod=pod, job=job) for pod, job, _ in pods),
        *(named("odd", pod=pod, job=job) for pod, job, _ in pods),
        *(named("node_info", pod=pod, node=node) for pod, _, node in pods),
        *(named("c_total", pod=pod, job=job, code=code) for pod, job, _ in pods for code in CODES),
        *(named("h_bucket", pod=pod, job=job, le=le) for pod, job, _ in pods for le in BUCKETS),
    ]


@dataclass(frozen=True)
class Recording:
    """Samples from `start_ms` on; `requests` brings them."""

    start_ms: int
    seed: int

    @property
    def end_ms(self) -> int:
        return self.start_ms + SCRAPES * SCRAPE_MS

    @cached_property
    def columns(self) -> tuple[I32, I64, F64, I32]:
        """Series, ms, value, and the scrape with which it is delivered, in the order of that."""
        draw = np.random.default_rng(self.seed)
        sid, t_ms, value, due = self._scraped(draw)
        late = draw.random(len(due)) < LATE_SHARE
        due[late] += draw.integers(1, LATEST_SCRAPES, late.sum())
        again = np.flatnonzero(draw.random(len(due)) < TWICE_SHARE)
        with np.errstate(invalid="ignore"):  # a staleness marker and 1 are a number that is none
            other = np.where(draw.random(len(again)) < OTHER_SHARE, value[again], value[again] + 1.0)
        parts = ((sid, sid[again]), (t_ms, t_ms[again]), (value, other), (due, due[again] + 1))
        sid, t_ms, value, due = (np.concatenate(pair) for pair in parts)
        order = np.argsort(due, kind="stable")
        return sid[order], t_ms[order], value[order], due[order]

    def _scraped(self, draw: np.random.Generator) -> tuple[I32, I64, F64, I32]:
        """What each target had at each scrape, as long as it was there, and a staleness marker when it was gone."""
        series = len(labels())
        pod = np.arange(series) % PODS
        first, last = draw.integers(0, SCRAPES // 3, PODS), draw.integers(SCRAPES // 2, 2 * SCRAPES, PODS)
        first[::3] = 0
        step = np.arange(SCRAPES)[None, :]
        there = (step >= first[pod][:, None]) & (step <= last[pod][:, None])
        value = self._values(draw)
        value[step == np.broadcast_to(last[pod][:, None], value.shape)] = STALE
        phase = draw.integers(0, JITTER_MS, series)
        t_ms = self.start_ms + SCRAPE_MS * step + phase[:, None] + draw.integers(1, 50, value.shape)
        sid = np.broadcast_to(np.arange(series)[:, None], value.shape)
        due = np.broadcast_to(step, value.shape)
        return (
            sid[there].astype(np.int32), t_ms[there].astype(np.int64), value[there], due[there].astype(np.int32)
        )  # fmt: skip

    def _values(self, draw: np.random.Generator) -> F64:
        """float64[series, scrapes]: gauges, odd numbers, ones, counters with resets and buckets of counters."""
        counters = PODS * (len(CODES) + len(BUCKETS))
        gauges = draw.normal(20.0, 8.0, (PODS, SCRAPES)) * draw.uniform(1e-3, 1e3, (PODS, 1))
        odd = draw.choice([0.0, 0.1, -1e308, 1e308, 1e-320, np.inf, 3.0], (PODS, SCRAPES))
        grown = np.cumsum(draw.integers(0, 50, (counters, SCRAPES)).astype(np.float64), axis=1)
        reset_at = draw.integers(1, SCRAPES, (counters, 1))
        since = grown - np.take_along_axis(grown, reset_at - 1, axis=1)
        counted = np.where(np.arange(SCRAPES) < reset_at, grown, since)
        return np.concatenate([gauges, odd, np.ones((PODS, SCRAPES)), counted])

    def requests(self) -> Iterator[bytes]:
        """The write requests, packed, one for each scrape with what comes late beside it."""
        runs = [encode_labels(one) for one in labels()]
        sid, t_ms, value, due = self.columns
        edges = np.flatnonzero(np.diff(due)) + 1
        for part in np.split(np.arange(len(due)), edges):
            yield snappy(encode_columns([runs[k] for k in sid[part]], t_ms[part], value[part], 1))
