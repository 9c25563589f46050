"""Which permission each request needs."""

import pytest
from django.urls import URLPattern, get_resolver

from asap_project.security.permissions import OPEN, needed


@pytest.mark.parametrize(
    ("method", "path", "permission"),
    [
        ("POST", "/api/v1/write", "write"),
        ("GET", "/api/v1/write", "write"),
        ("POST", "/receive", "write"),
        ("GET", "/api/v1/query", "read"),
        ("POST", "/api/v1/query", "read"),
        ("POST", "/api/v1/query_range", "read"),
        ("POST", "/api/v1/series", "read"),
        ("POST", "/api/v1/labels", "read"),
        ("GET", "/api/v1/label/job/values", "read"),
        ("GET", "/api/v1/aggregations", "read"),
        ("HEAD", "/api/v1/aggregations", "read"),
        ("POST", "/api/v1/aggregations", "manage"),
        ("DELETE", "/api/v1/aggregations/x", "manage"),
        ("PATCH", "/api/v1/aggregations/x", "manage"),
        ("GET", "/api/v1/status/config", "manage"),
        ("GET", "/api/v1/status/buildinfo", "read"),
        ("GET", "/metrics", "read"),
        ("GET", "/", "read"),
        ("GET", "/-/healthy", None),
        ("GET", "/-/ready", None),
    ],
)
def test_it_works(method: str, path: str, permission: str | None) -> None:
    assert needed(method, path) == permission


@pytest.mark.parametrize("path", ["/api/v1/write/", "//api/v1/write", "/API/V1/WRITE", "/-/healthy/", "/nowhere", ""])
def test_a_change_of_something_unknown_needs_the_most(path: str) -> None:
    assert needed("POST", path) == "manage"


def test_whatever_ingest_serves_is_a_write() -> None:
    served = [p for p in get_resolver("ingest.urls").url_patterns if isinstance(p, URLPattern)]
    assert served
    for pattern in served:
        assert needed("POST", f"/{pattern.pattern}") == "write"


def test_only_health_and_readiness_are_open() -> None:
    assert set(OPEN) == {"/-/healthy", "/-/ready"}
