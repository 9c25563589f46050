"""Every Python process that has this folder on its PYTHONPATH is measured, from its first line to its last.

For the programs that tests/shapes starts; they know nothing of it.
"""

import sys
import threading
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import coverage
from django.core.handlers.wsgi import WSGIHandler

WARM = "asap_project.warm"
"""Every process begins by walking through the code of both modes, for the sake of its kernels."""


class Apart(MetaPathFinder):
    """Notes what warming up runs under another name, for it says nothing of what a mode needs."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != WARM:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None and spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            module.warm = _apart(module.warm)  # type: ignore[attr-defined]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _apart(warm: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        noted = coverage.Coverage.current()
        assert noted is not None
        noted.switch_context("warming up")
        warm()
        noted.switch_context("")

    return call


def _traced(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Requests are answered in threads that the HTTP server makes outside Python, which no one else begins to trace."""

    def call(*args: Any) -> Any:
        if sys.gettrace() is None:
            sys.settrace(threading.gettrace())
        return answer(*args)

    return call


sys.meta_path.insert(0, Apart())
WSGIHandler.__call__ = _traced(WSGIHandler.__call__)  # type: ignore[method-assign]
coverage.process_startup()
