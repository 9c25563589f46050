"""Numbers of one thing, as /metrics shows them: declared once as (name, meaning, how it is read)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

T = TypeVar("T")

Declared = Sequence[tuple[str, str, Callable[[T], float]]]


class Numbers(Collector, Generic[T]):
    """Read when they are scraped."""

    def __init__(self, of: T, gauges: Declared[T] = (), counters: Declared[T] = ()) -> None:
        self._of, self._gauges, self._counters = of, gauges, counters

    def collect(self) -> Iterator[Metric]:
        for name, meaning, read in self._gauges:
            yield GaugeMetricFamily(name, meaning, value=read(self._of))
        for name, meaning, read in self._counters:
            yield CounterMetricFamily(name, meaning, value=read(self._of))
