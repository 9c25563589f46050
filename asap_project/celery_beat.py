"""The scheduler: Celery's beat, which serves its health and its metrics."""

from functools import partial
from typing import Any

from celery.apps.beat import Beat
from celery.signals import after_task_publish
from django.conf import settings
from prometheus_client import CollectorRegistry, Counter, ProcessCollector, disable_created_metrics

from asap_project.config import Config
from asap_project.health import Condition, serve_health
from asap_project.redis_setup import look_at_broker
from precompute.clock import Clock, SystemClock

_UNHEALTHY_WINDOWS = 4


class SchedulerMetrics:
    """What the scheduler shows of itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sent = Counter(
            "asap_scheduler_messages_sent", "Messages that the scheduler's broker took, by task.", ["task"],
            registry=registry,
        )  # fmt: skip


class ServedBeat(Beat):
    """Healthy while its broker takes what is due."""

    def __init__(self, *args: Any, config: Config | None = None, **options: Any) -> None:
        """config: this process' own, where several were started from one file; else the settings'."""
        super().__init__(*args, **options)
        self._config: Config = config or settings.ASAP.config
        self._clock: Clock = SystemClock()
        self._sent_s = self._clock.monotonic_s()
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library left it unannotated
        self._registry = CollectorRegistry()
        self._metrics = SchedulerMetrics(self._registry)

    def start_scheduler(self) -> None:
        """Returns at SIGTERM."""
        look_at_broker(self._config.redis.broker_url)
        after_task_publish.connect(self._note_sent)
        ProcessCollector(registry=self._registry)
        window_s = self._config.engine.minibatch.window_size / 1000
        condition = Condition(partial(self._why_unhealthy, _UNHEALTHY_WINDOWS * window_s), lambda: None, self._registry)
        serve_health(self._config.cluster, condition)
        super().start_scheduler()

    def _note_sent(self, sender: str, **_: Any) -> None:
        self._sent_s = self._clock.monotonic_s()
        self._metrics.sent.labels(sender.rpartition(".")[2]).inc()

    def _why_unhealthy(self, longest_s: float) -> str | None:
        silent_s = self._clock.monotonic_s() - self._sent_s
        return f"the broker took the last message {silent_s:.0f} s ago" if silent_s > longest_s else None
