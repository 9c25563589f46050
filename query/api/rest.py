"""What the DRF views of Prometheus' API have in common: its envelope, its errors, readiness, counting.

They answer in bytes that are JSON already, whatever a client says it accepts: Prometheus does so too.
"""

from typing import Any, ClassVar

import orjson
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, UnreadablePostError
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from precompute.errors import QueryError
from query.api import encode
from query.api.endpoint import JSON, error_response, form_of, parts_of
from query.api.params import Form
from query.apps import QueryParts
from query.errors import BadParameter, NotReady

MAX_JSON_BYTES = 1 << 17


class ApiView(APIView):  # type: ignore[misc]  # DRF has no annotations
    """A view that answers GET. `counted` is its name in metrics.

    A method of it finds `parts`, what it answers from, and `form`, the request's parameters.
    """

    counted: ClassVar[str] = ""
    while_starting: ClassVar[bool] = False
    """Whether it answers before the head is rebuilt."""
    http_method_names: ClassVar[list[str]] = ["get"]

    parts: QueryParts
    form: Form

    def dispatch(self, request: HttpRequest, *args: Any, **path: Any) -> HttpResponse:
        """Answers, counts, and takes the time."""
        parts = parts_of()
        if parts is None:
            return error_response(NotReady("starting"))
        self.parts, began_s = parts, parts.clock.monotonic_s()
        response: HttpResponse = super().dispatch(request, *args, **path)
        parts.metrics.requests.labels(self.counted, str(response.status_code)).inc()
        parts.metrics.seconds.labels(self.counted).observe(parts.clock.monotonic_s() - began_s)
        return response

    def initial(self, request: Request, *args: Any, **path: Any) -> None:
        """Before the method is called. Raises NotReady and BadParameter."""
        super().initial(request, *args, **path)
        if request.method not in self.allowed_methods:
            raise MethodNotAllowed(request.method)
        if not self.while_starting and (reason := self.parts.ready()):
            raise NotReady(reason)
        self.form = form_of(request._request)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """The one renderer that there is."""
        renderer = self.get_renderers()[0]
        return renderer, renderer.media_type

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Errors as Prometheus writes them; a defect is raised on."""
        if isinstance(exc, QueryError):
            return error_response(exc)
        if isinstance(exc, MethodNotAllowed):
            return HttpResponseNotAllowed(self.allowed_methods)
        raise exc


def json_of(request: Request) -> dict[str, Any]:
    """The JSON object that a request brings. Raises BadParameter.

    Another content type is refused: a page of any site may send a form, but not this.
    """
    plain: HttpRequest = request._request
    announced = plain.META.get("CONTENT_LENGTH") or "0"
    if not announced.isdecimal() or int(announced) > MAX_JSON_BYTES:
        raise BadParameter("", f"the body may have up to {MAX_JSON_BYTES} bytes")
    if plain.content_type != JSON:
        raise BadParameter("", f"the body should be JSON, with Content-Type: {JSON}")
    try:
        read = orjson.loads(plain.body)
    except (ValueError, UnreadablePostError) as error:
        raise BadParameter("", f"the body is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise BadParameter("", "the body should be a JSON object")
    return read


class FormView(ApiView):
    """A view that answers POST with a form as it answers GET."""

    http_method_names: ClassVar[list[str]] = ["get", "post"]

    def post(self, request: Request, **path: Any) -> HttpResponse:
        response: HttpResponse = self.get(request, **path)
        return response


def succeeded(data: Any, warnings: tuple[str, ...] = ()) -> HttpResponse:
    """Prometheus' envelope around what orjson can write."""
    return HttpResponse(encode.success(orjson.dumps(data), warnings), content_type=JSON)
