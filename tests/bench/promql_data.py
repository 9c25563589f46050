"""What `make bench-promql` is measured on: the gauges of `data.py`, counters, and buckets of classic histograms.

    sensor_reading            7 patterns × spread³                              full: 189,000 series
    requests_total            10 regions × side services × side hosts           full: 100,000 series
    request_seconds_bucket    10 jobs × instances × 12 bounds                   full: 12,000 series

An hour at 15 s, as in `data.py`. One counter in ten is reset once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.bench.data import F64, STEP_MS, STEPS, Dataset
from tests.ingest.wire import encode_labels

COUNTER, BUCKET = "requests_total", "request_seconds_bucket"
REGIONS, JOBS = 10, 10
BOUNDS = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf")
_FULL_SPREAD = 30


@dataclass(frozen=True)
class LanguageDataset:
    """All series of a scale, one after another: gauges, counters, buckets."""

    gauges: Dataset

    @property
    def end_ms(self) -> int:
        return self.gauges.end_ms

    @property
    def times_ms(self) -> list[int]:
        return self.gauges.times_ms

    @property
    def counters(self) -> int:
        return REGIONS * self.side**2

    @property
    def buckets(self) -> int:
        return JOBS * self.instances * len(BOUNDS)

    @property
    def series(self) -> int:
        return self.gauges.series + self.counters + self.buckets

    @property
    def samples(self) -> int:
        return self.series * STEPS

    @property
    def side(self) -> int:
        """Services of a region, and hosts of a service."""
        return max(2, round(100 * (self.gauges.spread / _FULL_SPREAD) ** 1.5))

    @property
    def instances(self) -> int:
        """Of a job."""
        return max(2, round(100 * (self.gauges.spread / _FULL_SPREAD) ** 3))

    def label_runs(self) -> list[bytes]:
        """Each series' labels as they stand in a write request."""
        return self.gauges.label_runs() + [encode_labels(labels) for labels in self._labels()]

    def values(self, t_ms: int) -> F64:
        """Values of all series at one time, float64[series], in the order of `label_runs`."""
        step = STEPS - 1 - (self.end_ms - t_ms) // STEP_MS
        return np.concatenate((self.gauges.values(t_ms), self._counted(step), self._observed(step)))

    def _labels(self) -> Iterator[list[tuple[str, str]]]:
        for region, service, host in np.ndindex(REGIONS, self.side, self.side):
            yield [
                ("__name__", COUNTER), ("host", f"host{host}"), ("job", "shop"), ("region", f"region{region}"),
                ("service", f"svc{service}"),
            ]  # fmt: skip
        for job, instance, bound in np.ndindex(JOBS, self.instances, len(BOUNDS)):
            yield [
                ("__name__", BUCKET), ("instance", f"i{instance}"), ("job", f"job{job}"), ("le", BOUNDS[bound]),
            ]  # fmt: skip

    def _counted(self, step: int) -> F64:
        """Whole numbers; of one counter in ten counted from its reset on."""
        rate, reset = self._rate, self._reset
        since = np.where(step >= reset, step - reset, step + 1000)
        return np.asarray(np.floor(rate * since))

    def _observed(self, step: int) -> F64:
        return np.asarray(np.floor(self._bucket_rate * (step + 1000)).ravel())

    @cached_property
    def _rate(self) -> F64:
        return np.random.default_rng(2).uniform(0.1, 300.0, self.counters)

    @cached_property
    def _reset(self) -> F64:
        """The step from which a counter counts anew; beyond the last one where it is never reset."""
        draw = np.random.default_rng(3)
        return np.where(draw.random(self.counters) < 0.1, draw.integers(1, STEPS, self.counters), 10 * STEPS)

    @cached_property
    def _bucket_rate(self) -> F64:
        """Observations per step at or below each bound, float64[histograms, bounds]."""
        share = np.linspace(0.05, 1.0, len(BOUNDS)) ** 0.5
        return np.random.default_rng(4).uniform(1.0, 500.0, (JOBS * self.instances, 1)) * share
