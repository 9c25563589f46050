"""A built-in source for looking around: `sensor_reading` in eight shapes.

The series are 8 patterns x cardinality^3 of region, service and host. A value is a pure function of seed,
series and time, so two runs with one seed agree and no state is kept.
"""

import logging
import threading
from dataclasses import replace

import numpy as np

from ingest.sources.base import Pace, Write
from ingest.writer import columns_of
from precompute.clock import Clock
from precompute.errors import Rejected
from precompute.labels import Labels, canonical_bytes
from precompute.samples import F64

PATTERNS = ("constant", "linear-up", "linear-down", "sine", "sine-noise", "step", "spiky", "exp-up")
METRIC = "sensor_reading"

_PERIOD_MS = 600_000
_SCALE = 1000.0
_STEPS = 5
_GROWTH = 5.0

_log = logging.getLogger(__name__)


class DemoSource:
    """Writes one sample of each series every `interval_ms`."""

    def __init__(self, clock: Clock, interval_ms: int, cardinality: int, seed: int = 0) -> None:
        self._pace, self._seed = Pace(interval_ms, 0, clock), seed
        self._stopped = threading.Event()
        self._per_pattern = cardinality**3
        runs = [canonical_bytes(labels) for labels in series_labels(cardinality)]
        self._columns = columns_of(runs, np.zeros(len(runs), np.int64), np.zeros(len(runs)))
        draw = np.random.default_rng(seed)
        self._height = _SCALE * draw.uniform(0.5, 1.5, len(runs))
        self._phase = draw.uniform(0.0, 0.2, len(runs))

    def values(self, t_ms: int) -> F64:
        """Values of all series at one time, float64[series], pattern by pattern."""
        draw = np.random.default_rng((self._seed, t_ms))
        x = (t_ms % _PERIOD_MS / _PERIOD_MS + self._phase) % 1.0
        shape = np.empty(len(x))
        for k, pattern in enumerate(PATTERNS):
            part = slice(k * self._per_pattern, (k + 1) * self._per_pattern)
            shape[part] = _shape(pattern, x[part], draw)
        return self._height * shape

    def run(self, write: Write) -> None:
        for t_ms in self._pace.beats(self._stopped):
            times = np.full(len(self._height), t_ms, np.int64)
            try:
                write(replace(self._columns, t_ms=times, value=self.values(t_ms)))
            except Rejected as rejected:
                _log.warning("the demo's samples of %d ms were not taken: %s", t_ms, rejected)

    def stop(self) -> None:
        self._stopped.set()


def series_labels(cardinality: int) -> list[Labels]:
    """Labels of all series, pattern by pattern."""
    spread = [
        (("region", f"region{r}"), ("service", f"svc{s}")) for r in range(cardinality) for s in range(cardinality)
    ]
    return [
        (("__name__", METRIC), ("host", f"host{h}"), ("instance", f"demo-{p}"), ("job", "demo"), ("pattern", p), *place)
        for p in PATTERNS
        for place in spread
        for h in range(cardinality)
    ]


def _shape(pattern: str, x: F64, draw: np.random.Generator) -> F64:
    """The pattern between about 0 and 1 at places `x` of its period, in [0, 1)."""
    match pattern:
        case "constant":
            return np.full(len(x), 0.5)
        case "linear-up":
            return x
        case "linear-down":
            return 1.0 - x
        case "sine":
            return _sine(x)
        case "sine-noise":
            return _sine(x) + draw.normal(0.0, 0.05, len(x))
        case "step":
            return np.floor(x * _STEPS) / _STEPS
        case "spiky":
            return np.where(draw.random(len(x)) < 0.02, 1.0, 0.1)
        case "exp-up":
            return np.asarray(np.expm1(_GROWTH * x) / np.expm1(_GROWTH))
    raise ValueError(f"no pattern {pattern!r}")


def _sine(x: F64) -> F64:
    return np.asarray(0.5 + 0.4 * np.sin(2.0 * np.pi * x))
