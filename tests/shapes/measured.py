"""Programs whose lines are noted while they run, under the name of the mode that they run in."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coverage import Coverage

from tests.running import ROOT

PACKAGES = ("precompute", "ingest", "query", "asap_project")
MODES = ("single node", "cluster")
COMPILED = r"^\s*@(kernel|bare|inlined|intrinsic)\b"
"""What numba compiles: its lines are never run by the interpreter, so nobody could note them."""

_HOOK = Path(__file__).parent / "hook"
_SETTINGS = """
[run]
data_file = {data}
context = {mode}
source = {source}
core = ctrace
parallel = true
concurrency =
    thread
    multiprocessing
patch = _exit
disable_warnings =
    no-data-collected
    module-not-measured
    already-imported

[report]
exclude_lines = {compiled}
"""


@contextmanager
def measured(folder: Path, mode: str) -> Iterator[None]:
    """Every Python program that starts within the block notes its lines, in `folder`; one that is killed does not."""
    settings = _settings_file(folder, mode)
    path = os.pathsep.join(filter(None, (str(_HOOK), os.environ.get("PYTHONPATH"))))
    before = dict(os.environ)
    os.environ.update(COVERAGE_PROCESS_START=str(settings), PYTHONPATH=path)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def all_lines(folder: Path) -> Coverage:
    """What was noted below `folder`, in all modes; a context is a mode."""
    found = Coverage(config_file=str(_settings_file(folder, "none")))
    found.combine([str(folder)], keep=True)
    return found


def _settings_file(folder: Path, mode: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source = "".join(f"\n    {ROOT / package}" for package in PACKAGES)
    path = folder / f"{mode.replace(' ', '-')}.ini"
    path.write_text(_SETTINGS.format(data=folder / "lines", mode=mode, source=source, compiled=COMPILED))
    return path
