"""The Django app; the project's wiring puts the running parts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:  # commands that take no samples start without the kernels
    from ingest.remote_write import RemoteWrite


class IngestConfig(AppConfig):
    """`remote_write` is None until the node has started."""

    name = "ingest"
    remote_write: RemoteWrite | None = None
