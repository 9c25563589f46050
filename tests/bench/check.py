"""Whether the systems' answers are right: each is held against the exact quantiles of the generated values."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from tests.bench.data import STEP_MS, Dataset
from tests.bench.measure import Points

PHI = 0.99
SUMMARY_BOUND = 0.01
EXACT_BOUND = 1e-9


@dataclass(frozen=True)
class Deviation:
    """The largest distance of an answer from the exact value, as a share of the larger magnitude of the two
    neighbouring order statistics, and what it may be."""

    largest: float
    bound: float
    points: int
    expected_points: int

    @property
    def is_right(self) -> bool:
        return self.points == self.expected_points and self.largest <= self.bound


class Truth:
    """The exact quantiles of a dataset."""

    def __init__(self, data: Dataset) -> None:
        self._data = data
        self._at = cache(self._quantiles)

    def deviation(self, points: Points, tier: str, steps: int) -> Deviation:
        """Of an answer that should hold every pattern at `steps` times."""
        largest = max((self._distance(*key, value) for key, value in points.items()), default=0.0)
        bound = SUMMARY_BOUND if tier == "summary" else EXACT_BOUND
        return Deviation(largest, bound, len(points), steps * len(self._at(self._data.end_ms)))

    def _distance(self, pattern: str, t_ms: int, value: float) -> float:
        exact, scale = self._at(t_ms // STEP_MS * STEP_MS)[pattern]
        return abs(value - exact) / scale if scale else abs(value - exact)

    def _quantiles(self, t_ms: int) -> dict[str, tuple[float, float]]:
        """Per pattern PromQL's quantile and the larger magnitude of its two neighbours."""
        found = {}
        for pattern, values in self._data.by_pattern(t_ms).items():
            rank = PHI * (len(values) - 1)
            low, high = int(rank), min(int(rank) + 1, len(values) - 1)
            near = np.partition(values, (low, high))
            share = rank - low
            exact = near[low] * (1 - share) + near[high] * share
            found[pattern] = float(exact), float(max(abs(near[low]), abs(near[high])))
        return found
