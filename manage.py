#!/usr/bin/env python
"""Django's entry point, and ASAP's: `python manage.py runasap`."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "asap_project.settings")
    execute_from_command_line(sys.argv)
