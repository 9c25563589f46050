"""The Django application of the core: it holds what runs in this process, once wiring has made it."""

from typing import Any

from django.apps import AppConfig


class PrecomputeConfig(AppConfig):
    """Views and tasks reach these through the app registry."""

    name = "precompute"
    default_auto_field = "django.db.models.BigAutoField"
    engine: Any = None
    sink: Any = None
    """With `engine`, a single node's."""
    kicks: Any = None
    workers: Any = None
    """With `kicks`, a cluster's worker's (cluster/kicks.py)."""
