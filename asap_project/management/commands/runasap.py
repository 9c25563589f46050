"""`python manage.py runasap`: everything in one process."""

import sys
from argparse import ArgumentParser
from typing import Any, NoReturn

from asap_project.config.derived import data_dir
from asap_project.management.command import ConfigCommand
from asap_project.prepare import prepare
from asap_project.supervisor import listen, serve

ROLES = ("query-engine", "ingest", "scheduler", "streaming-worker")


class Command(ConfigCommand):
    help = "Run ASAP on this machine: ingest, mini-batches and the HTTP API in one process."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--component", choices=ROLES, help="one role of a cluster (mode: cluster)")

    def handle(self, *args: Any, **given: Any) -> None:
        config = self.loaded.config
        if config.mode == "cluster":
            _refuse("mode: cluster: the roles of a cluster are not built yet; set mode: single-node")
        if given["component"]:
            _refuse(
                f"--component {given['component']}: roles belong to a cluster; set mode: cluster, "
                "or leave the flag out to run everything in one process"
            )
        listener = listen(config)
        prepare(data_dir(config))
        serve(listener, config.security.tls)


def _refuse(line: str) -> NoReturn:
    print(f"asap: {line}", file=sys.stderr)
    raise SystemExit(2)
