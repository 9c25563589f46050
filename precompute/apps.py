"""The Django application of the core: it holds the running engine and its sink, once wiring has made them."""

from typing import Any

from django.apps import AppConfig


class PrecomputeConfig(AppConfig):
    name = "precompute"
    default_auto_field = "django.db.models.BigAutoField"
    engine: Any = None
    sink: Any = None
    """Set by wiring when the process has an engine; views and tasks reach it through the app registry."""
