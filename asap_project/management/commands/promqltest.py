"""`python manage.py promqltest FILE…`: scripts in the format of Prometheus' language tests."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Run PromQL test scripts: a line per file, failed evaluations below it, and at last the sums."
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--unsupported", action="store_true", help="only list what is unsupported: file, feature, lines"
        )
        parser.add_argument("file", nargs="+", type=Path, help="a script (*.test)")

    def handle(self, *args: Any, **given: Any) -> None:
        from query.promqltest.report import Sums, report, unsupported

        if given["unsupported"]:
            for path in given["file"]:
                self.stdout.writelines(f"{line}\n" for line in unsupported(path))
            return
        sums = Sums()
        for path in given["file"]:
            for line in report(path, sums):
                self.stdout.write(line)
        self.stdout.write(sums.text())
        if sums.failed:
            raise SystemExit(1)
