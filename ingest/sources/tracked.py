"""The series of one target from scrape to scrape, and the staleness markers between them.

A series that was in the last page that was written and is not in this one gets a marker; all do when there is
no page. Samples with times of their own are left out of this, as Prometheus leaves them out.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ingest.sources.exposition import Exposed
from ingest.writer import SeriesColumns, columns_of
from precompute.labels import METRIC_NAME, Labels, canonical_bytes
from precompute.samples import STALE_BITS

_Key = tuple[str, tuple[tuple[str, str], ...]]


class TrackedSeries:
    """`columns` makes the samples of one scrape; `written` says that they were taken."""

    def __init__(self, target_labels: Labels) -> None:
        self._target_labels = target_labels
        self._runs: dict[_Key, bytes] = {}
        self._alive: set[bytes] = set()
        self._next_alive: set[bytes] = set()

    def columns(self, samples: Sequence[Exposed], report: Mapping[str, float], t_ms: int) -> SeriesColumns:
        """Samples of a page, markers, and the report's series (never stale: every scrape has them).

        Of two samples of one series and time the first is kept.
        """
        rows: dict[tuple[bytes, int], float] = {}
        alive = set()
        known, self._runs = self._runs, {}
        for sample in samples:
            run = self._run(known, sample)
            rows.setdefault((run, t_ms if sample.t_ms is None else sample.t_ms), sample.value)
            if sample.t_ms is None:
                alive.add(run)
        for name, value in report.items():
            rows[(canonical_bytes(((METRIC_NAME, name), *self._target_labels)), t_ms)] = value
        gone = [run for run in self._alive - alive if (run, t_ms) not in rows]
        self._next_alive = alive
        return _as_columns(rows, gone, t_ms)

    def written(self) -> None:
        """The last columns were taken; those that were not leave their series to be marked later."""
        self._alive = self._next_alive

    def _run(self, known: dict[_Key, bytes], sample: Exposed) -> bytes:
        key = (sample.name, tuple(sample.labels.items()))
        run = known.get(key) or canonical_bytes(labels_of(sample, self._target_labels))
        self._runs[key] = run
        return run


def labels_of(sample: Exposed, target_labels: Labels) -> Labels:
    """The sample's labels with the target's; one that the page has too is kept as `exported_…` (scrape.go)."""
    labels = {name: value for name, value in sample.labels.items() if value}
    for name, value in target_labels:
        if name in labels:
            labels[_exported(name, labels)] = labels[name]
        labels[name] = value
    labels[METRIC_NAME] = sample.name
    return tuple(sorted(labels.items()))


def _exported(name: str, labels: Mapping[str, str]) -> str:
    while name in labels:
        name = "exported_" + name
    return name


def _as_columns(rows: Mapping[tuple[bytes, int], float], gone: Sequence[bytes], t_ms: int) -> SeriesColumns:
    runs = [run for run, _ in rows] + list(gone)
    times = np.full(len(runs), t_ms, np.int64)
    times[: len(rows)] = [t for _, t in rows]
    value = np.empty(len(runs), np.float64)
    value[: len(rows)] = list(rows.values())
    value.view(np.uint64)[len(rows) :] = STALE_BITS
    return columns_of(runs, times, value)
