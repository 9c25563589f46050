"""Settings of hypothesis, and fixtures of the tests that start whole programs."""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import running

# how long an example takes is the machine's matter, and a first one may compile kernels; CI judges a change, not a draw
settings.register_profile("asap", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("asap")


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Call it for a port that nobody listens on."""
    return running.free_port


@pytest.fixture
def asap_process(tmp_path: Path) -> Callable[..., AbstractContextManager[running.Program]]:
    """`with asap_process({…config…}) as asap:` runs the whole program in the test's folder.

    A second one in the same test is a restart on the same data; `folder="b"` makes it another node.
    """

    def start(
        config: Mapping[str, Any] | None = None, folder: str = "asap", env: Mapping[str, str] | None = None
    ) -> AbstractContextManager[running.Program]:
        return running.asap(tmp_path / folder, config, env)

    return start


@pytest.fixture(scope="session")
def prometheus_binary() -> str:
    """Path of a prometheus binary."""
    return _binary("prometheus", "prometheus")


@pytest.fixture(scope="session")
def promtool_binary() -> str:
    """Path of a promtool binary."""
    return _binary("promtool", "prometheus")


@pytest.fixture(scope="session")
def victoria_metrics_binary() -> str:
    """Path of a victoria-metrics binary."""
    return _binary("victoria-metrics", "victoria-metrics")


def _binary(name: str, package: str) -> str:
    path = shutil.which(name)
    if path:
        return path
    sentence = f"needs the program {name} (Debian package {package})"
    if os.environ.get("CI") == "1":
        pytest.fail(sentence)
    pytest.skip(sentence)
