"""The kernels' decorator, and where compiled kernels are kept.

numba keeps a kernel until its own file changes; a change in another file, whose kernel it calls, goes unnoticed and
old code runs. So compiled kernels are kept in one folder for each state of all kernels' sources.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("precompute", "ingest", "query")


def _sources_hash() -> str:
    """Hash of every source that holds a kernel, and of numba's version."""
    hashed = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            text = path.read_bytes()
            if b"from precompute.kernels import" in text or path.parent == Path(__file__).parent:
                hashed.update(path.relative_to(_ROOT).as_posix().encode() + text)
    return hashed.hexdigest()


def _cache_home() -> Path:
    """Beside the code, or, where that is read-only, in the user's cache folder."""
    if os.access(_ROOT, os.W_OK):
        return _ROOT / ".kernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asap" / "kernels"


CACHE = _cache_home() / _sources_hash()

_numba: Any = numba
"""What of it is used here is not in its annotations."""

_numba.config.CACHE_DIR = str(CACHE)


def forget_old_kernels() -> None:
    """Remove what was compiled from other states of the sources."""
    for folder in CACHE.parent.glob("*"):
        if folder != CACHE:
            shutil.rmtree(folder, ignore_errors=True)


def kernel(function: Callable[..., Any]) -> Any:
    """Compiled on first use, kept on disk, and free of the GIL."""
    return _numba.njit(nogil=True, cache=True)(function)


def bare(function: Callable[..., Any]) -> Any:
    """A kernel that allocates nothing, so that its arrays need no reference counts.

    Counting is an atomic step per array and call: in a helper that is called once a sample it costs more than the work.
    """
    return _numba.njit(nogil=True, cache=True, _nrt=False)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A kernel that is written into those that call it, for the innermost steps."""
    return _numba.njit(nogil=True, cache=True, inline="always")(function)
