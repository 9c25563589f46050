"""Django's view of this package."""

from django.apps import AppConfig


class AsapProjectConfig(AppConfig):
    name = "asap_project"

    def ready(self) -> None:
        """Tasks called anywhere in this process belong to our Celery app, not to Celery's own default."""
        from asap_project import celery

        celery.app.set_default()
