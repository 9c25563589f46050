"""The config of this process, read from its arguments, its environment and its folder."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from asap_project.config import ConfigError, Loaded, load

OUR_PROGRAMS = frozenset({"manage.py", "asap"})
"""Programs whose flags are options; those of pytest or celery are not."""


def load_or_exit(argv: Sequence[str]) -> Loaded:
    """The config, warnings printed; or one line on stderr and exit code 2."""
    flags = argv[1:] if argv and Path(argv[0]).name in OUR_PROGRAMS else []
    try:
        loaded = load(flags, os.environ, Path.cwd())
    except ConfigError as error:
        print(f"asap: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    for warning in loaded.warnings:
        print(f"asap: warning: {warning}", file=sys.stderr)
    return loaded
