"""Selectors read once for many expressions: what is known to be asked for is read together, and kept until it was."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from precompute.evaluate.expr import Call, Expr, Number, Range, Selector, Subquery, children
from precompute.evaluate.head_source import HeadSource, Look
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Matrix, Vector
from precompute.kernels.selectors import RANGE_FUNCTIONS
from precompute.samples import F64, I64

MOST_CELLS = 1 << 23
"""Series × times that are kept beside what is asked for: 75 MB."""

_NEWEST = "newest"
"""Stands for a function where a selector is read as an instant vector; the range is the lookback."""
_EVALUATED = frozenset(("predict_linear", "double_exponential_smoothing"))
"""Functions whose parameters are not known before they are evaluated."""

Reading = tuple[Selector, Look]


def readings(expr: Expr, times: I64, lookback_ms: int) -> Iterator[Reading]:
    """What evaluating the expression at these times will read, as far as it can be told.

    Left out is what stands in a subquery, whose steps are its own, or has an `@`.
    """
    if isinstance(expr, Selector) and expr.at is None:
        yield expr, _look(_NEWEST, lookback_ms, times - expr.offset_ms)
    elif isinstance(expr, Call):
        yield from _of_ranges(expr, times)
    if not isinstance(expr, (Range, Subquery)):
        for child in children(expr):
            yield from readings(child, times, lookback_ms)


def _of_ranges(call: Call, times: I64) -> Iterator[Reading]:
    function = "present_over_time" if call.function == "absent_over_time" else call.function
    if function not in RANGE_FUNCTIONS or function in _EVALUATED:
        return
    first, ranged = call.args[0], call.args[-1]
    known = first is ranged or isinstance(first, Number)
    if known and isinstance(ranged, Range) and ranged.selector.at is None:
        phi = first.value if isinstance(first, Number) else 0.0
        yield ranged.selector, _look(function, ranged.range_ms, times - ranged.selector.offset_ms, phi)


def _look(function: str, range_ms: int, times: I64, phi: float = 0.0) -> Look:
    parameters = np.zeros((2, len(times)))
    parameters[0] = phi
    return Look(function, range_ms, times, parameters)


class SharedSource:
    """A Source that reads as the one behind it does, to the bit; used by one thread.

    expected: the readings to come, each as often as it comes. Range functions of one selector are read in one visit to
    its series. What was not expected is read alone.
    """

    def __init__(self, source: HeadSource, expected: Iterable[Reading]) -> None:
        self._source, self._left = source, Counter(expected)
        self._looks: dict[Selector, list[Look]] = {}
        for selector, look in self._left:
            self._looks.setdefault(selector, []).append(look)
        self._held: dict[Reading, Vector] = {}

    def spread(self, work: Callable[[int, int], None], count: int) -> None:
        """As the source behind."""
        self._source.spread(work, count)

    def series(self, selector: Selector, budget: Budget) -> int:
        """As the source behind."""
        return self._source.series(selector, budget)

    def sample_times(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        """As the source behind."""
        return self._source.sample_times(selector, times, lookback_ms, budget)

    def samples(self, selector: Selector, range_ms: int, time_ms: int, budget: Budget) -> Matrix:
        """As the source behind."""
        return self._source.samples(selector, range_ms, time_ms, budget)

    def instant(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        """As the source behind, read at most once for all that expect it."""
        reading = selector, _look(_NEWEST, lookback_ms, times)
        if reading not in self._held:
            self._held[reading] = self._source.instant(selector, times, lookback_ms, budget)
        return self._taken(reading)

    def range(
        self, function: str, selector: Selector, range_ms: int, times: I64, parameters: F64, budget: Budget
    ) -> Vector:
        """As the source behind, read with all else that is expected of the selector."""
        asked = Look(function, range_ms, times, parameters)
        if (selector, asked) not in self._held:
            looks = [asked, *self._beside(selector, asked, budget)]
            for look, vector in zip(looks, self._source.ranges(selector, looks, budget), strict=True):
                self._held[selector, look] = vector
        return self._taken((selector, asked))

    def _beside(self, selector: Selector, asked: Look, budget: Budget) -> Iterator[Look]:
        """What else is expected of the selector and not read, as far as there is room; nothing for what was not."""
        if not self._left[selector, asked]:
            return
        rows = self._source.series(selector, budget)
        room = MOST_CELLS - rows * len(asked.times) - sum(held.values.size for held in self._held.values())
        for look in self._looks[selector]:
            reading = selector, look
            if look.function == _NEWEST or look == asked or not self._left[reading] or reading in self._held:
                continue
            room -= rows * len(look.times)
            if room < 0:
                return
            yield look

    def _taken(self, reading: Reading) -> Vector:
        """What is held, until its last asker has it."""
        self._left[reading] -= 1
        return self._held[reading] if self._left[reading] > 0 else self._held.pop(reading)
