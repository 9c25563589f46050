"""What a process that answers no queries says of itself by its HTTP API: how it is, and how it was started."""

from collections.abc import Mapping
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from asap_project import VERSION
from asap_project.config import Config
from asap_project.config.showing import as_flags, as_yaml
from asap_project.health import Condition, Page, page

STARTING = Page(503, "text/plain; charset=utf-8", b"starting\n")
_HEALTH = frozenset({"/-/healthy", "/-/ready", "/metrics"})
_STATUS = "/api/v1/status/"


def own_page(condition: Condition | None, request: HttpRequest) -> HttpResponse | None:
    """The answer to a GET of one of these pages; None where there is no such page. No condition: it is starting."""
    found = _page(condition, request.path_info)
    if found is None:
        return None
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    return HttpResponse(found.body, status=found.status, content_type=found.media_type)


def _page(condition: Condition | None, path: str) -> Page | None:
    if path in _HEALTH:
        return page(condition, path) if condition is not None else STARTING
    data = _status(settings.ASAP.config, path.removeprefix(_STATUS)) if path.startswith(_STATUS) else None
    return Page(200, "application/json", orjson.dumps({"status": "success", "data": data})) if data else None


def _status(config: Config, name: str) -> Mapping[str, Any] | None:
    """Of Prometheus' status endpoints those that need no head."""
    if name == "buildinfo":
        return {"asap": VERSION}
    if name == "config":
        return {"yaml": as_yaml(config)}
    return as_flags(config) if name == "flags" else None
