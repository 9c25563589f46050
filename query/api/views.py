"""Queries, the hot part of Prometheus' API, as plain views: read the parameters, ask, write the answer."""

from django.http import HttpRequest, HttpResponse

from query import explain
from query.answers import Answer, Forwarded
from query.api import encode
from query.api.endpoint import JSON, Turn, endpoint, evaluating, passed_on
from query.api.noting import noted
from query.api.params import Form, InstantParams, RangeParams, instant_params, range_params
from query.apps import QueryParts
from query.engine import Request


@endpoint("query", "GET", "POST")
def query(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/query"""
    asked = instant_params(form)
    with noted(parts, request, asked) as note, evaluating(parts, asked.timeout_ms) as turn:
        how = Request(turn.left_ms, request.headers, asked.lookback_ms, asked.limit, asked.stats == "all")
        made = parts.engine.instant(asked.query, asked.time_ms, how)
        note(made)
        return _written(parts, made, asked, turn)


@endpoint("query_range", "GET", "POST")
def query_range(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/query_range"""
    asked = range_params(form, parts.max_points)
    with noted(parts, request, asked) as note, evaluating(parts, asked.timeout_ms) as turn:
        how = Request(
            turn.left_ms, request.headers, asked.lookback_ms, asked.limit, asked.stats == "all", not asked.nocache
        )
        made = parts.engine.range(asked.query, asked.start_ms, asked.end_ms, asked.step_ms, how)
        note(made)
        return _written(parts, made, asked, turn)


def internal_error(request: HttpRequest) -> HttpResponse:
    """For a defect of ours; what it was is in the log."""
    text = encode.failure("internal", "an unexpected error; the log has more")
    return HttpResponse(text, status=500, content_type=JSON)


def _written(
    parts: QueryParts, made: Answer | Forwarded, asked: InstantParams | RangeParams, turn: Turn
) -> HttpResponse:
    if isinstance(made, Forwarded):
        return passed_on(parts, made)
    for tier in made.tiers:
        parts.metrics.tiers.labels(tier).inc()
    stats = explain.stats(made, turn.waited_s, asked.stats == "all") if asked.stats else None
    response = HttpResponse(encode.answer(made, asked.limit, stats), content_type=JSON)
    response.headers["X-ASAP-Tier"] = ", ".join(made.tiers)
    response.headers["X-ASAP-Bound"] = made.bound
    return response
