"""How the scheduler is: healthy while it sends ticks, by what Celery says that it has published."""

from collections.abc import Callable
from typing import Any

from celery.signals import after_task_publish
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from asap_project.config import Config
from asap_project.health import Condition, serve_health
from precompute.clock import Clock, SystemClock

SILENT_WINDOWS = 4
"""Windows without a message after which the scheduler is not healthy."""

SCHEDULER_GAUGES: tuple[tuple[str, str, Callable[["Sent"], float]], ...] = (
    ("asap_scheduler_last_sent_seconds", "When the scheduler last sent a task.", lambda s: s.last_ms / 1000),
)
SCHEDULER_COUNTERS: tuple[tuple[str, str, Callable[["Sent"], float]], ...] = (
    ("asap_scheduler_sent", "Tasks that the scheduler has sent.", lambda s: s.count),
)


class Sent(Collector):
    """What this process has sent to the broker; the start counts as the first."""

    def __init__(self, window_ms: int, clock: Clock) -> None:
        self._window_ms, self._clock = window_ms, clock
        self.count: int = 0
        self.last_ms: int = clock.now_ms()

    def note(self, **_: Any) -> None:
        """A task has been sent."""
        self.count, self.last_ms = self.count + 1, self._clock.now_ms()

    def why_silent(self) -> str | None:
        """None while something was sent lately."""
        late_ms = self._clock.now_ms() - self.last_ms
        return f"nothing was sent for {late_ms / 1000:.0f} s" if late_ms > SILENT_WINDOWS * self._window_ms else None

    def collect(self) -> list[Metric]:
        gauges: list[Metric] = [GaugeMetricFamily(name, text, value=of(self)) for name, text, of in SCHEDULER_GAUGES]
        return gauges + [CounterMetricFamily(name, text, value=of(self)) for name, text, of in SCHEDULER_COUNTERS]


def serve_scheduler_health(config: Config) -> None:
    """From now on, until the process ends. Exits with 1 and a line where it cannot listen."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library left it unannotated
    sent, registry = Sent(config.engine.minibatch.window_size, SystemClock()), CollectorRegistry()
    after_task_publish.connect(sent.note, weak=False)
    for collector in (sent, ProcessCollector(registry=None)):
        registry.register(collector)
    serve_health(config.cluster, Condition(sent.why_silent, lambda: None, registry))
