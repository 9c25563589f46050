"""The Celery app. On a single node tasks run where they are called; there is no broker and no worker."""

import os
import sys
from typing import Any

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "asap_project.settings")

REFUSAL = (
    "asap: mode = single-node: everything runs inside `python manage.py runasap`, so there is nothing for {role} "
    "to do; start that instead, and no Celery process"
)


class App(Celery):
    """Celery, which starts no process of its own for a single node."""

    @property
    def Worker(self) -> Any:
        """The streaming worker; for a single node exit code 2 and the remedy: nobody would send it a task."""
        _refuse_single_node("a Celery worker")
        return super().Worker

    @property
    def Beat(self) -> Any:
        """The scheduler; for a single node exit code 2 and the remedy: its ticks would reach nobody."""
        _refuse_single_node("Celery beat")
        return super().Beat


def _refuse_single_node(role: str) -> None:
    if settings.ASAP.config.mode == "single-node":
        print(REFUSAL.format(role=role), file=sys.stderr)
        raise SystemExit(2)


app = App("asap_project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
