"""Queries, the hot part of Prometheus' API, as plain views: read the parameters, ask, write the answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest, HttpResponse

from precompute.errors import BadExpression
from query.answers import Answer, Forwarded
from query.api import encode
from query.api.endpoint import JSON, endpoint, passed_on
from query.api.noting import noted
from query.api.params import Form, instant_params, range_params
from query.apps import QueryParts
from query.engine import Request
from query.errors import BadParameter


@endpoint("query", "GET", "POST")
def query(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/query"""
    asked = instant_params(form)
    with noted(parts, request, asked) as note, _evaluating(parts, asked.timeout_ms) as left_ms:
        how = Request(left_ms, request.headers, asked.lookback_ms, asked.limit)
        made = parts.engine.instant(asked.query, asked.time_ms, how)
        note(made)
        return _written(parts, made, asked.limit)


@endpoint("query_range", "GET", "POST")
def query_range(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/query_range"""
    asked = range_params(form, parts.max_points)
    with noted(parts, request, asked) as note, _evaluating(parts, asked.timeout_ms) as left_ms:
        how = Request(left_ms, request.headers, asked.lookback_ms, asked.limit)
        made = parts.engine.range(asked.query, asked.start_ms, asked.end_ms, asked.step_ms, how)
        note(made)
        return _written(parts, made, asked.limit)


def internal_error(request: HttpRequest) -> HttpResponse:
    """For a defect of ours; what it was is in the log."""
    text = encode.failure("internal", "an unexpected error; the log has more")
    return HttpResponse(text, status=500, content_type=JSON)


@contextmanager
def _evaluating(parts: QueryParts, timeout_ms: int | None) -> Iterator[int]:
    """Waits for its turn; what is left of the query's time."""
    timeout_ms = min(timeout_ms or parts.timeout_ms, parts.timeout_ms)
    began_s = parts.clock.monotonic_s()
    with parts.slots.taken(timeout_ms):
        try:
            yield max(1, timeout_ms - int((parts.clock.monotonic_s() - began_s) * 1000))
        except BadExpression as error:
            raise BadParameter("query", str(error)) from error


def _written(parts: QueryParts, made: Answer | Forwarded, limit: int) -> HttpResponse:
    if isinstance(made, Forwarded):
        return passed_on(parts, made)
    for tier in made.tiers:
        parts.metrics.tiers.labels(tier).inc()
    response = HttpResponse(encode.answer(made, limit), content_type=JSON)
    response.headers["X-ASAP-Tier"] = ", ".join(made.tiers)
    response.headers["X-ASAP-Bound"] = made.bound
    return response
