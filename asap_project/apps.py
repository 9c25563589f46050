"""Django's view of this package; the project's wiring puts the port's guard on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:  # commands that serve nothing start without them
    from asap_project.health import Condition
    from asap_project.security.guard import Guard


class AsapProjectConfig(AppConfig):
    """`guard` is None where the config asks for none, and before the core has started.

    Of a cluster's process: `roles` are those that it serves by HTTP, `condition` is what one that answers no queries
    says of itself.
    """

    name = "asap_project"
    guard: Guard | None = None
    roles: frozenset[str] = frozenset()
    condition: Condition | None = None

    def ready(self) -> None:
        """Tasks called anywhere in this process belong to our Celery app, not to Celery's own default."""
        from asap_project import celery

        celery.app.set_default()
