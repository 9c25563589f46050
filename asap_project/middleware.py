"""What is done to every request and every answer."""

from collections.abc import Callable
from typing import cast

from django.apps import apps
from django.http import HttpRequest, HttpResponse

from asap_project.apps import AsapProjectConfig
from asap_project.own_pages import own_page
from asap_project.roles import QUERY_ENGINE, server_of
from asap_project.security.errors import Forbidden, OverLimit, Refused, Unauthorized
from asap_project.security.guard import Guard
from asap_project.security.permissions import is_write

View = Callable[[HttpRequest], HttpResponse]

STATUS: dict[type[Refused], tuple[int, str]] = {
    Unauthorized: (401, "unauthorized"),
    Forbidden: (403, "forbidden"),
    OverLimit: (429, "limit"),
}


def content_length(get_response: View) -> View:
    """Say how long an answer is, so that it need not be sent in chunks."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not response.streaming:
            response.headers.setdefault("Content-Length", str(len(response.content)))
        return response

    return middleware


def guarded(get_response: View) -> View:
    """Refuse what the guard does not admit. Who it is stands in REMOTE_USER afterwards.

    The credentials are ours: they are taken off, so that no upstream gets to see them.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        guard = cast(AsapProjectConfig, apps.get_app_config("asap_project")).guard
        assert guard is not None
        meta = request.META
        asked = (request.method or "", request.path_info, meta.get("HTTP_AUTHORIZATION", ""))
        try:
            name = guard.admit(*asked, meta.get("REMOTE_ADDR", ""))
        except Refused as refused:
            return _refusal(guard, refused, request.path_info)
        if guard.credentials:
            meta.pop("HTTP_AUTHORIZATION", None)
            meta["REMOTE_USER"] = name or ""
        return get_response(request)

    return middleware


def by_role(get_response: View) -> View:
    """Of a cluster: a path that another role serves is answered 404 with its name.

    A process that answers no queries says itself how it is.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        own = cast(AsapProjectConfig, apps.get_app_config("asap_project"))
        if QUERY_ENGINE not in own.roles and (answer := own_page(own.condition, request)) is not None:
            return answer
        role = server_of(request.path_info)
        return get_response(request) if role in own.roles else _elsewhere(request.path_info, role)

    return middleware


def _elsewhere(path: str, role: str) -> HttpResponse:
    from query.api import encode

    text = f"{path} is served by the role {role}; this process is another one"
    return HttpResponse(encode.failure("not_found", text), status=404, content_type="application/json")


def _refusal(guard: Guard, refused: Refused, path: str) -> HttpResponse:
    """Prometheus' error. A sender drops a batch on 429 and sends it again on 503."""
    from query.api import encode

    status, reason = STATUS[type(refused)]
    guard.metrics.refused.labels(reason).inc()
    status = 503 if status == 429 and is_write(path) else status
    response = HttpResponse(encode.failure(reason, str(refused)), status=status, content_type="application/json")
    if isinstance(refused, OverLimit):
        response.headers["Retry-After"] = str(refused.retry_after_s)
    if isinstance(refused, Unauthorized) and guard.credentials:
        response.headers["WWW-Authenticate"] = guard.credentials.challenge
    return response
