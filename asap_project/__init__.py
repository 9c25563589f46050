"""Wiring only: the settings, the unified config, the Celery app, the roles, the urls and `runasap`."""

from typing import Any

VERSION = "0.1.0"


def __getattr__(name: str) -> Any:
    """`asap_project.celery_app`, imported when somebody asks for it and not before."""
    if name != "celery_app":
        raise AttributeError(name)
    from asap_project.celery import app

    return app
