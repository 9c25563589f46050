"""The HTTP border of remote write: 204 when the log has all samples, else a status that the sender acts on.

A Prometheus sends 5xx answers again and drops a batch on 4xx, so 503 means "later" and 400 "never".
"""

from typing import cast

from django.apps import apps
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt

from ingest.apps import IngestConfig
from ingest.errors import BadBody, IngestError, TooLarge, UnsupportedType
from ingest.remote_write import RemoteWrite
from precompute.errors import Rejected

STATUS: dict[type[IngestError], int] = {BadBody: 400, TooLarge: 413, UnsupportedType: 415}


@csrf_exempt
def write(request: HttpRequest) -> HttpResponse:
    """POST one remote-write request."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    remote_write = cast(IngestConfig, apps.get_app_config("ingest")).remote_write
    if remote_write is None:
        return _later("starting", 1)
    response = _answer(remote_write, request)
    remote_write.metrics.requests.labels(str(response.status_code)).inc()
    return response


def _answer(remote_write: RemoteWrite, request: HttpRequest) -> HttpResponse:
    announced = request.META.get("CONTENT_LENGTH") or ""
    if not announced:
        return _refusal(411, "a Content-Length is needed")
    try:
        body = _read(request, announced, remote_write.max_body_bytes)
        headers = request.headers
        outcome = remote_write.write(body, headers.get("Content-Type", ""), headers.get("Content-Encoding", ""))
    except Rejected as rejected:
        return _later(str(rejected), rejected.retry_after_s)
    except IngestError as error:
        return _refusal(STATUS[type(error)], str(error))
    return _refusal(400, outcome.text()) if outcome.refused else HttpResponse(status=204)


def _read(request: HttpRequest, announced: str, max_bytes: int) -> bytes:
    """The body, whose announced length is checked before any of it is read."""
    if not (announced.isascii() and announced.isdigit() and len(announced) < 20):
        raise BadBody("the Content-Length is no number")
    if int(announced) > max_bytes:
        raise TooLarge(f"the body has {announced} bytes, above ingest.max_body = {max_bytes}")
    try:
        body = request.read(int(announced))
    except UnreadablePostError as error:
        raise BadBody("the body ended early") from error
    if len(body) != int(announced):
        raise BadBody(f"the body ended early, after {len(body)} of {announced} bytes")
    return body


def _refusal(status: int, text: str) -> HttpResponse:
    return HttpResponse(text + "\n", status=status, content_type="text/plain; charset=utf-8")


def _later(text: str, retry_after_s: int) -> HttpResponse:
    response = _refusal(503, text)
    response.headers["Retry-After"] = str(retry_after_s)
    return response
