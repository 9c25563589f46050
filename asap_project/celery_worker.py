"""The streaming worker: Celery's, with the shards it summarises and a watchdog beside it.

    start    build the shards (settings.STREAMING_WORKER), beat, look; then pool and consumer
    SIGTERM  fetch nothing more, finish the batch in hand, release the leases, exit 0, all within END_S
"""

import logging
import os
import socket
import sys
import threading
import warnings
from typing import Any, cast

from celery import bootsteps
from celery.apps.worker import Worker
from celery.exceptions import SecurityWarning
from celery.signals import worker_shutting_down
from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string
from kombu.entity import Exchange
from kombu.exceptions import KombuError

from asap_project.config import Config
from asap_project.worker import END_S, EXPLAINED, MISCONFIGURED
from precompute import tasks
from precompute.apps import PrecomputeConfig
from precompute.cluster.kicks import Kicks
from precompute.cluster.watchdog import Watchdog
from precompute.errors import BadExpression, InstallMismatch, PrecomputeError, UnfitServer

logger = logging.getLogger(__name__)

# Celery warns root of what it unpickles; here messages are JSON alone
warnings.filterwarnings("ignore", category=SecurityWarning)


def worker_name(config: Config) -> str:
    """The name that tells this worker from all others: no two live processes of one host have the same."""
    return config.cluster.worker_name or f"{socket.gethostname()}-{os.getpid()}"


class StreamingWorker(Worker):
    """Celery's worker, right without any flag: its queues, no chatter between workers, no banner."""

    def __init__(
        self, app: Any = None, hostname: str | None = None, config: Config | None = None, **options: Any
    ) -> None:
        """config: this process' own, where several were started from one file; else the settings'."""
        self.config = config or settings.ASAP.config
        self.asap_name = worker_name(self.config)
        silent = dict.fromkeys(("without_gossip", "without_mingle", "without_heartbeat", "quiet"), True)
        super().__init__(app, hostname, **{**options, **silent})

    def setup_queues(self, include: Any, exclude: Any = None) -> None:
        """What any worker may do, and what only this one may."""
        super().setup_queues(include, exclude)
        own = self.app.amqp.queues.select_add(tasks.queue_of(self.asap_name))
        own.exchange = Exchange("")  # type: ignore[no-untyped-call]  # Celery has put its default in

    def on_init_blueprint(self) -> None:
        super().on_init_blueprint()
        self.app.steps["worker"].add(Summarising)


class Summarising(bootsteps.StartStopStep):
    """The shards; they are there before the first message is fetched."""

    def __init__(self, worker: StreamingWorker, **options: Any) -> None:
        super().__init__(worker, **options)
        self._kicks: Kicks | None = None
        self._watchdog: Watchdog | None = None

    def start(self, worker: StreamingWorker) -> None:
        """Exits with a line where the config or what is there does not allow it."""
        kicks = self._kicks = _built(worker.config, worker.asap_name)
        core = cast(PrecomputeConfig, apps.get_app_config("precompute"))
        core.kicks, core.workers = kicks, kicks.workers
        self._watchdog = Watchdog(kicks, lambda: _knock(worker.asap_name), self._end)
        self._watchdog.start()
        worker_shutting_down.connect(_end_in_time)
        logger.info("worker %s is started", worker.asap_name)

    def close(self, worker: StreamingWorker) -> None:
        """Nothing is fetched any more; the pool waits for ticks that run, which end with their batch."""
        if self._watchdog is not None:
            self._watchdog.stop()
        kicks, self._kicks = self._kicks, None
        if kicks is not None:
            kicks.shutdown()
            logger.info("stopped")

    stop = terminate = close

    def _end(self, reason: str) -> None:
        """From the watchdog: end the process, orderly if it can be, and soon. Its supervisor starts it anew."""
        logger.critical("%s; this worker ends, to be started anew", reason)
        _end_in_time()
        if self._kicks is not None:
            self._kicks.shutdown()
        os._exit(1)


def _built(config: Config, name: str) -> Kicks:
    try:
        return cast(Kicks, import_string(settings.STREAMING_WORKER)(config, name))
    except PrecomputeError as error:
        print(f"asap: {error}", file=sys.stderr)
        of_config = isinstance(error, (BadExpression, InstallMismatch, UnfitServer))
        raise SystemExit(MISCONFIGURED if of_config else EXPLAINED) from error


def _knock(name: str) -> bool:
    try:
        tasks.knock.apply_async(queue=tasks.queue_of(name), retry=False)
    except (KombuError, OSError):
        return False
    return True


def _end_in_time(**_: Any) -> None:
    """Come what may; leases expire by themselves and nothing acknowledged is lost by that."""
    last = threading.Timer(END_S, os._exit, [1])
    last.daemon = True
    last.start()
