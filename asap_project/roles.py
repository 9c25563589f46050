"""The roles of a cluster: their names, what each serves, and how each is run."""

from collections.abc import Collection
from typing import cast

from django.apps import apps

from asap_project.apps import AsapProjectConfig
from asap_project.celery_roles import run_scheduler, run_worker
from asap_project.config import Config
from asap_project.security.permissions import is_write
from asap_project.worker import Running

INGEST, QUERY_ENGINE, SCHEDULER, STREAMING_WORKER = "ingest", "query-engine", "scheduler", "streaming-worker"

HTTP_ROLES = frozenset({INGEST, QUERY_ENGINE})
"""Those with an HTTP API; they may share a process."""

RUN = {STREAMING_WORKER: run_worker, SCHEDULER: run_scheduler}
"""What the others run until they are told to stop; gives the exit code."""

ROLES = (INGEST, QUERY_ENGINE, SCHEDULER, STREAMING_WORKER)


def roles_of(text: str) -> frozenset[str]:
    """The roles that a process is asked for: one, or `ingest,query-engine`. Raises ValueError with a sentence."""
    asked = frozenset(text.split(","))
    if unknown := sorted(asked.difference(ROLES)):
        raise ValueError(f"{unknown[0] or 'an empty name'} is no role; the roles are {', '.join(ROLES)}")
    if len(asked) > 1 and not asked <= HTTP_ROLES:
        raise ValueError(f"only {INGEST} and {QUERY_ENGINE} share a process; start the others apart")
    return asked


def server_of(path: str) -> str:
    """The role that serves a path of the API."""
    return INGEST if is_write(path) else QUERY_ENGINE


def start_http(config: Config, roles: Collection[str]) -> Running:
    """The core of a process with an HTTP API, running: a whole node, or these roles of a cluster.

    Raises PrecomputeError where it cannot start.
    """
    if config.mode == "single-node":
        from asap_project.wiring import start

        return start(config)
    cast(AsapProjectConfig, apps.get_app_config("asap_project")).roles = frozenset(roles)
    from asap_project.cluster_wiring import start_http as start_roles

    return start_roles(config, frozenset(roles))


def run_background(config: Config, role: str) -> None:
    """Run a role without an HTTP API until SIGTERM. Raises SystemExit when it did not end well."""
    if code := RUN[role](config):
        raise SystemExit(code)
