"""The console script `asap`: the same as `python manage.py runasap`."""

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "asap_project.settings")
    execute_from_command_line([sys.argv[0], "runasap", *sys.argv[1:]])
