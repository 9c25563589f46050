"""The Celery app. On a single node tasks run where they are called; there is no broker and no worker."""

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, setup_logging
from django.conf import settings

from asap_project.celery_roles import refuse_single_node

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "asap_project.settings")


class App(Celery):
    """Celery, which starts no process of its own for a single node."""

    @property
    def Worker(self) -> Any:
        """The streaming worker; for a single node exit code 2 and the remedy: nobody would send it a task."""
        refuse_single_node(settings.ASAP.config, "a Celery worker")
        return self.subclass_with_self("asap_project.celery_worker:StreamingWorker", name="Worker")

    @property
    def Beat(self) -> Any:
        """The scheduler; for a single node exit code 2 and the remedy: its ticks would reach nobody."""
        refuse_single_node(settings.ASAP.config, "Celery beat")
        return super().Beat


@setup_logging.connect
def _leave_logging_alone(**_: Any) -> None:
    """Django has set it up by LOGGING; Celery leaves it to whoever listens to this signal."""


@beat_init.connect
def _serve_health(**_: Any) -> None:
    """The scheduler's, however it was started."""
    from asap_project.scheduler_health import serve_scheduler_health

    serve_scheduler_health(settings.ASAP.config)


app = App("asap_project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
