"""Celery's tasks: kicks, never data. One that is lost, late or doubled changes no result."""

from typing import cast

from celery import shared_task
from django.apps import apps

from precompute.apps import PrecomputeConfig


@shared_task(ignore_result=True)
def tick() -> None:
    """Let this process' engine summarise what is sealed and dirty."""
    core = cast(PrecomputeConfig, apps.get_app_config("precompute"))
    core.engine.run(core.sink)
