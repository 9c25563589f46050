"""What is measured on: `sensor_reading` in seven shapes, a function of series, time and seed alone.

Shared by all systems of a run. It knows nothing of the code that is measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tests.ingest.wire import encode_labels

F64 = npt.NDArray[np.float64]

METRIC = "sensor_reading"
PATTERNS = ("constant", "linear-up", "linear-down", "sine", "sine-noise", "step", "spiky")
STEP_MS = 15_000
STEPS = 240
"""One hour."""

_PERIOD_MS = 600_000
_HEIGHT = 1000.0


@dataclass(frozen=True)
class Dataset:
    """7 patterns × spread³ (region, service, host) series, `STEPS` samples each, the last at `end_ms`."""

    spread: int
    end_ms: int
    seed: int = 1

    @property
    def per_pattern(self) -> int:
        return self.spread**3

    @property
    def series(self) -> int:
        return len(PATTERNS) * self.per_pattern

    @property
    def samples(self) -> int:
        return self.series * STEPS

    @property
    def times_ms(self) -> list[int]:
        """Times of the samples, ascending; the same for all series."""
        return [self.end_ms - STEP_MS * (STEPS - 1 - k) for k in range(STEPS)]

    def label_runs(self) -> list[bytes]:
        """Each series' labels as they stand in a write request, pattern by pattern."""
        return [encode_labels(labels) for labels in self._labels()]

    def values(self, t_ms: int) -> F64:
        """Values of all series at one time, float64[series], in the order of `label_runs`."""
        draw = np.random.default_rng((self.seed, t_ms))
        x = (t_ms % _PERIOD_MS / _PERIOD_MS + self._phase) % 1.0
        parts = [_shape(pattern, part, draw) for pattern, part in zip(PATTERNS, x, strict=True)]
        return np.concatenate(parts) * self._height

    def by_pattern(self, t_ms: int) -> dict[str, F64]:
        """The values at one time, per pattern."""
        return dict(zip(PATTERNS, self.values(t_ms).reshape(len(PATTERNS), -1), strict=True))

    @cached_property
    def _height(self) -> F64:
        return _HEIGHT * np.random.default_rng(self.seed).uniform(0.5, 1.5, self.series)

    @cached_property
    def _phase(self) -> F64:
        return np.random.default_rng((self.seed, 0)).uniform(0.0, 0.2, (len(PATTERNS), self.per_pattern))

    def _labels(self) -> Iterator[list[tuple[str, str]]]:
        for pattern in PATTERNS:
            for place in range(self.per_pattern):
                region, service, host = np.unravel_index(place, (self.spread,) * 3)
                yield [
                    ("__name__", METRIC), ("host", f"host{host}"), ("instance", f"fake-exporter-{pattern}"),
                    ("job", "fake-exporter"), ("pattern", pattern), ("region", f"region{region}"),
                    ("service", f"svc{service}"),
                ]  # fmt: skip


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
            return np.asarray(np.floor(x * 5) / 5)
        case "spiky":
            return np.where(draw.random(len(x)) < 0.02, 1.0, 0.1)
    raise ValueError(f"no pattern {pattern!r}")


def _sine(x: F64) -> F64:
    return np.asarray(0.5 + 0.4 * np.sin(2.0 * np.pi * x))
