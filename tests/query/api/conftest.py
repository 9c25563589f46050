"""A node behind the views of the query API, alone and with an upstream."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.test import Client

from tests.query.answering import Server, serving
from tests.query.api.asking import fill
from tests.query.served import Served, served


@pytest.fixture
def client() -> Client:
    return Client(enforce_csrf_checks=True)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with served(tmp_path) as node:
        fill(node)
        monkeypatch.setattr(apps.get_app_config("query"), "parts", node.parts)
        yield node


@pytest.fixture
def behind() -> Iterator[Server]:
    """What stands upstream."""
    with serving() as server:
        yield server


@pytest.fixture
def proxy(tmp_path: Path, behind: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A node with an upstream."""
    with served(tmp_path, prometheus_server=behind.url) as node:
        fill(node)
        monkeypatch.setattr(apps.get_app_config("query"), "parts", node.parts)
        yield node
        assert node.parts.upstream is not None
        node.parts.upstream.close()
