"""Every Python process that has this folder on its PYTHONPATH is measured, from its first line to its last.

For the programs that tests/shapes starts; they know nothing of it.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any

import coverage
from django.core.handlers.wsgi import WSGIHandler

coverage.process_startup()


def _traced(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Requests are answered in threads that the HTTP server makes outside Python, which no one else begins to trace."""

    def call(*args: Any) -> Any:
        if sys.gettrace() is None:
            sys.settrace(threading.gettrace())
        return answer(*args)

    return call


WSGIHandler.__call__ = _traced(WSGIHandler.__call__)  # type: ignore[method-assign]
