"""`python manage.py runasap`: everything in one process, a role of a cluster, or all its roles side by side."""

import sys
from argparse import ArgumentParser
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from django.conf import settings

from asap_project.config import Config, Loaded
from asap_project.config.derived import data_dir
from asap_project.config.schema import Replicas3
from asap_project.management.command import ConfigCommand
from asap_project.prepare import prepare
from asap_project.roles import HTTP_ROLES, ROLES, SCHEDULER, STREAMING_WORKER, roles_of, run_background
from asap_project.side_by_side import Role, keep
from asap_project.supervisor import listen, serve
from precompute.clock import SystemClock


class Command(ConfigCommand):
    help = "Run ASAP on this machine: ingest, mini-batches and the HTTP API in one process, or roles of a cluster."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--component",
            metavar="ROLE",
            help=f"one role of a cluster (mode: cluster): {', '.join(ROLES)}, or ingest,query-engine in one process; "
            "without it all of them, side by side",
        )

    def handle(self, *args: Any, **given: Any) -> None:
        config, component = self.loaded.config, given["component"]
        if config.mode == "cluster":
            _run_roles(config, _asked(component)) if component else _run_all(self.loaded)
        elif component:
            _refuse(
                f"--component {component}: roles belong to a cluster; set mode: cluster, "
                "or leave the flag out to run everything in one process"
            )
        else:
            _serve(config, frozenset())


def _asked(component: str) -> frozenset[str]:
    try:
        return roles_of(component)
    except ValueError as error:
        _refuse(f"--component {component}: {error}")


def _run_roles(config: Config, roles: frozenset[str]) -> None:
    if roles <= HTTP_ROLES:
        _serve(config, roles)
    else:
        (role,) = roles
        prepare(data_dir(config), may_be_away=True)
        run_background(config, role)


def _serve(config: Config, roles: frozenset[str]) -> None:
    listener = listen(config)
    prepare(data_dir(config), may_be_away=bool(roles))
    serve(listener, config.security.tls, roles)


def _run_all(loaded: Loaded) -> NoReturn:
    """Ingest and queries in one process, so many workers, and a scheduler."""
    config = loaded.config
    _warn_of_one_query_engine(config.cluster.query_engine)
    listener = listen(config)
    prepare(data_dir(config), may_be_away=True)
    http = Role("ingest and query-engine", partial(serve, listener, config.security.tls, HTTP_ROLES), stops_first=True)
    workers = config.cluster.streaming_workers.replicas
    names = [(f"{STREAMING_WORKER} {at}", STREAMING_WORKER) for at in range(1, workers + 1)]
    others = [
        Role(name, partial(_run_neighbour, loaded, at, role))
        for at, (name, role) in enumerate([*names, (SCHEDULER, SCHEDULER)])
    ]
    raise SystemExit(keep([http, *others], SystemClock()))


def _warn_of_one_query_engine(asked: Replicas3) -> None:
    if "replicas" in asked.model_fields_set and asked.replicas > 1:
        line = f"cluster.query_engine.replicas is {asked.replicas}, but all roles side by side have one query engine"
        print(f"asap: warning: {line}; start others with --component query-engine", file=sys.stderr)


def _run_neighbour(loaded: Loaded, at: int, role: str) -> None:
    """In a process of its own, whose config is this one: Celery's classes find it in the settings."""
    settings.ASAP = replace(loaded, config=_neighbour(loaded.config, at))
    run_background(settings.ASAP.config, role)


def _neighbour(config: Config, at: int) -> Config:
    """The config of the `at`-th process without an HTTP API: a port and a name of its own."""
    own = config.cluster
    ports = [port for port in range(own.health_port, own.health_port + at + 2) if port != config.query_engine.http_port]
    name = f"{own.worker_name}-{at + 1}" if own.worker_name else ""
    changed = {"health_port": ports[at] if own.health_port else 0, "worker_name": name}
    return config.model_copy(update={"cluster": own.model_copy(update=changed)})


def _refuse(line: str) -> NoReturn:
    print(f"asap: {line}", file=sys.stderr)
    raise SystemExit(2)
