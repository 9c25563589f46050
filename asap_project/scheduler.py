"""Celery's beat on the windows' grid, without a memory."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.beat import Scheduler
from celery.schedules import BaseSchedule, schedstate
from django.conf import settings
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from asap_project.health import Condition, serve_health
from ingest.sources.base import Pace
from precompute.clock import Clock, SystemClock

_UNHEALTHY_WINDOWS = 4


class Grid(BaseSchedule):
    """Due at `offset + k * interval` since the epoch; a time that was missed is not made up for."""

    def __init__(self, interval_ms: int, offset_ms: int, clock: Clock | None = None) -> None:
        super().__init__(nowfun=self._now)
        self.interval_ms, self.offset_ms, self._clock = interval_ms, offset_ms, clock or SystemClock()
        self._pace = Pace(interval_ms, offset_ms, self._clock)

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Whether a due time has passed since then, and the seconds until the next.

        A last run that lies ahead says that the clock was set back; then it is due, whatever the grid.
        """
        now_ms, last_ms = self._clock.now_ms(), int(last_run_at.timestamp() * 1000)
        is_due = last_ms > now_ms or self._pace.next_due_ms(last_ms) <= now_ms
        return schedstate(is_due, (self._pace.next_due_ms(now_ms) - now_ms) / 1000)

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        is_due, next_s = self.is_due(last_run_at)
        return timedelta(seconds=0 if is_due else next_s)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and (self.interval_ms, self.offset_ms) == (other.interval_ms, other.offset_ms)

    __hash__ = None  # type: ignore[assignment]


class GridScheduler(Scheduler):
    """Celery's, which works out at each pass what comes next.

    Its own heap keeps times of day: after the clock was set back by an hour it would wait for an hour.
    """

    passed_s = sent_s = 0.0
    """By the monotonic clock: its last pass, and when it last sent something."""

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        sent = super().apply_async(*args, **kwargs)
        self.sent_s = SystemClock().monotonic_s()
        return sent

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send one task that is due; the seconds until the next pass."""
        self._heap = None
        self.passed_s = SystemClock().monotonic_s()
        seconds: float = super().tick(*args, **kwargs)
        return seconds


SCHEDULER_GAUGES: tuple[tuple[str, str, Callable[[GridScheduler], float]], ...] = (
    ("asap_scheduler_pass_age_seconds", "How long ago the scheduler last looked for what is due.",
     lambda s: SystemClock().monotonic_s() - s.passed_s),
    ("asap_scheduler_sent_age_seconds", "How long ago the scheduler last sent a kick that the broker took.",
     lambda s: SystemClock().monotonic_s() - s.sent_s),
)  # fmt: skip


class SchedulerCollector(Collector):
    """What the scheduler does."""

    def __init__(self, scheduler: GridScheduler) -> None:
        self._scheduler = scheduler

    def collect(self) -> Iterator[Metric]:
        for name, meaning, read in SCHEDULER_GAUGES:
            yield GaugeMetricFamily(name, meaning, value=read(self._scheduler))


def condition_of(scheduler: GridScheduler, window_ms: int) -> Condition:
    """Healthy while kicks are sent; ready once the first was."""

    def unhealthy() -> str | None:
        late_s = SystemClock().monotonic_s() - scheduler.sent_s
        return f"nothing was sent for {late_s:.0f} s" if late_s > _UNHEALTHY_WINDOWS * window_ms / 1000 else None

    registry = CollectorRegistry()
    registry.register(SchedulerCollector(scheduler))
    registry.register(ProcessCollector(registry=None))
    return Condition(unhealthy, lambda: None if scheduler.passed_s else "starting", registry)


def show_condition(sender: Any, **_: Any) -> None:
    """On Celery's signal that the scheduler begins: serve its health."""
    config = settings.ASAP.config
    sender.scheduler.sent_s = SystemClock().monotonic_s()
    serve_health(config.cluster, condition_of(sender.scheduler, config.engine.minibatch.window_size))
