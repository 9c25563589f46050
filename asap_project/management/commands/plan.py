"""`python manage.py plan --workload FILE…`: what would be kept for the queries in these files. Changes nothing."""

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import CommandError

from asap_project.config.units import duration_ms
from asap_project.management.command import ConfigCommand


def _range(text: str) -> int:
    try:
        return duration_ms(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


class Command(ConfigCommand):
    help = "Plan what to keep for the queries in files, and print each decision with its reason. Changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--workload", metavar="FILE", nargs="+", type=Path, required=True,
            help="JSON lines with expr, a query log, a Grafana dashboard (JSON), rules or ASAPQuery's config (YAML)",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print counts and decisions as JSON")
        parser.add_argument(
            "--range", metavar="DURATION", type=_range, default="5m",
            help="what ranges of 5m, which collections have for $__rate_interval, are read as",
        )  # fmt: skip
        parser.add_argument(
            "--measure", metavar="URL",
            help="an ASAP or a Prometheus that counts series and groups; without it all that can be proved is kept, "
            "and reach and budget have no limit",
        )  # fmt: skip

    def handle(self, *args: Any, **given: Any) -> None:
        # here: they bring the kernels, which --help does without
        from asap_project.planning import plan_files
        from query.workloads.base import WorkloadError
        from query.workloads.report import as_data, lines

        try:
            found, notes = plan_files(self.loaded.config, given["workload"], given["range"], given["measure"] or "")
        except WorkloadError as error:
            raise CommandError(str(error), returncode=2) from None
        max_reach_ms = self.loaded.config.engine.minibatch.max_reach
        if given["json"]:
            data = as_data(found, max_reach_ms) | {"notes": notes}
            self.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())
            return
        for line in (*lines(found, max_reach_ms), *notes):
            self.stdout.write(line)
