"""Which permission a request needs.

write    whatever `ingest` serves
manage   what changes something, or shows the config
read     the rest: queries, which may be POSTs, pages, our own metrics
none     health and readiness, which a load balancer asks without credentials
"""

from django.urls import Resolver404, URLResolver
from django.urls.resolvers import RegexPattern

from asap_project.config.clients import Permission

OPEN = frozenset({"/-/healthy", "/-/ready"})

ASKED_BY_POST = frozenset(
    f"/api/v1/{name}"
    for name in (
        "query", "query_range", "query_exemplars", "series", "labels", "explain", "format_query", "parse_query",
    )
)  # fmt: skip
"""What a POST only asks: forms have room for long expressions."""

SHOWS_CONFIG = frozenset({"/api/v1/status/config", "/api/v1/status/flags"})

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_INGEST = URLResolver(RegexPattern(r"^/"), "ingest.urls")


def needed(method: str, path: str) -> Permission | None:
    """The permission for a request; None where none is needed. What is not known needs the most."""
    if path in OPEN:
        return None
    if is_write(path):
        return "write"
    if path in SHOWS_CONFIG:
        return "manage"
    return "read" if method in _SAFE or path in ASKED_BY_POST else "manage"


def is_write(path: str) -> bool:
    """Whether `ingest` serves this path."""
    try:
        _INGEST.resolve(path)
    except Resolver404:
        return False
    return True
