"""What every view of the query API has in common: method, readiness, errors, counting."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from django.apps import apps
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.views.decorators.csrf import csrf_exempt

from precompute.errors import BadExpression, QueryError
from precompute.evaluate.limits import Budget, Limits
from precompute.selection import Check
from query.answers import Forwarded
from query.api import encode
from query.api.params import Form
from query.apps import QueryConfig, QueryParts
from query.errors import BadParameter, NotReady, answer_for

MAX_FORM_BYTES = 1 << 20
JSON = "application/json"

Handler = Callable[..., HttpResponse]


def endpoint(name: str, *methods: str) -> Callable[[Handler], Callable[..., HttpResponse]]:
    """Makes a view of `handler(parts, request, form, **path)`.

    The view answers other methods with 405, is counted under `name`, and turns QueryErrors into Prometheus' errors.
    """

    def decorate(handler: Handler) -> Callable[..., HttpResponse]:
        @csrf_exempt
        @functools.wraps(handler)
        def view(request: HttpRequest, **path: Any) -> HttpResponse:
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            parts = parts_of()
            if parts is None:
                return error_response(NotReady("starting"))
            began_s = parts.clock.monotonic_s()
            response = _answered(parts, handler, request, path)
            parts.metrics.requests.labels(name, str(response.status_code)).inc()
            parts.metrics.seconds.labels(name).observe(parts.clock.monotonic_s() - began_s)
            return response

        return view

    return decorate


def parts_of() -> QueryParts | None:
    """What wiring has put in place; None before."""
    return cast(QueryConfig, apps.get_app_config("query")).parts


def _answered(parts: QueryParts, handler: Handler, request: HttpRequest, path: dict[str, Any]) -> HttpResponse:
    try:
        if reason := parts.ready():
            raise NotReady(reason)
        return handler(parts, request, form_of(request), **path)
    except QueryError as error:
        return error_response(error)


def form_of(request: HttpRequest) -> Form:
    """The parameters of URL and form. Raises BadParameter for a form that cannot be read."""
    values: dict[str, list[str]] = {}
    try:
        if request.method == "POST":
            _check_size(request)
            values = {name: list(request.POST.getlist(name)) for name in request.POST}
        for name in request.GET:
            values.setdefault(name, []).extend(request.GET.getlist(name))
    except (SuspiciousOperation, UnreadablePostError, MultiPartParserError, ValueError) as error:
        raise BadParameter("", f"error parsing form values: {error}") from error
    return Form(values)


def _check_size(request: HttpRequest) -> None:
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if not announced.isdecimal() or int(announced) > MAX_FORM_BYTES:
        raise BadParameter("", f"error parsing form values: the form may have up to {MAX_FORM_BYTES} bytes")


def error_response(error: QueryError) -> HttpResponse:
    """Prometheus' error, with its status."""
    status, kind = answer_for(error)
    return HttpResponse(encode.failure(kind, str(error)), status=status, content_type=JSON)


@dataclass(frozen=True)
class Turn:
    """A query's turn: what is left of its time, and how long it waited for its place."""

    left_ms: int
    waited_s: float


@contextmanager
def evaluating(parts: QueryParts, timeout_ms: int | None) -> Iterator[Turn]:
    """Waits for the query's turn, and has it inside the block."""
    timeout_ms = min(timeout_ms or parts.timeout_ms, parts.timeout_ms)
    began_s = parts.clock.monotonic_s()
    with parts.slots.taken(timeout_ms):
        waited_s = parts.clock.monotonic_s() - began_s
        try:
            yield Turn(max(1, timeout_ms - int(waited_s * 1000)), waited_s)
        except BadExpression as error:
            raise BadParameter("query", str(error)) from error


@contextmanager
def listing(parts: QueryParts) -> Iterator[Check]:
    """Has a query's place inside the block, once one is free; what it gives raises TimedOut when its time is over."""
    budget = Budget(Limits(), parts.clock, parts.timeout_ms)
    with parts.slots.taken(parts.timeout_ms):
        yield budget.check_time


def passed_on(parts: QueryParts, answer: Forwarded) -> HttpResponse:
    """An upstream's answer as it came."""
    parts.metrics.tiers.labels("upstream").inc()
    # a folded header of theirs must not become two of ours
    content_type = " ".join(answer.content_type.split()) or JSON
    response = HttpResponse(answer.body, status=answer.status, content_type=content_type)
    response.headers["X-ASAP-Tier"] = "upstream"
    return response
