"""The Prometheus HTTP API: read the parameters, ask, write the answer."""

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import orjson
from django.http import HttpRequest, HttpResponse

from precompute.errors import BadExpression
from query.answers import Answer, Forwarded
from query.api import catalogue, encode
from query.api.endpoint import JSON, endpoint, passed_on
from query.api.params import Form, catalogue_params, instant_params, limit_of, range_params
from query.apps import QueryParts
from query.engine import Request
from query.errors import BadParameter, NotFound

PROMETHEUS_VERSION = "3.5.0"
"""The API's version: data sources choose what they ask by it."""

FORWARDED = ("query_exemplars", "rules", "alerts")
"""Endpoints that data sources ask and only an upstream can answer."""

_ESCAPED = re.compile(r"__|_([0-9A-Fa-f]{1,6})_|[A-Za-z0-9:]")


@endpoint("query", "GET", "POST")
def query(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/query"""
    asked = instant_params(form)
    with _evaluating(parts, asked.timeout_ms) as left_ms:
        made = parts.engine.instant(asked.query, asked.time_ms, Request(left_ms, request.headers, limit=asked.limit))
        return _written(parts, made, asked.limit)


@endpoint("query_range", "GET", "POST")
def query_range(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/query_range"""
    asked = range_params(form, parts.max_points)
    with _evaluating(parts, asked.timeout_ms) as left_ms:
        made = parts.engine.range(
            asked.query,
            asked.start_ms,
            asked.end_ms,
            asked.step_ms,
            Request(left_ms, request.headers, limit=asked.limit),
        )
        return _written(parts, made, asked.limit)


@endpoint("labels", "GET", "POST")
def labels(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/labels"""
    asked = catalogue_params(form)
    theirs = _theirs(parts, "labels", request, form, [])
    if isinstance(theirs, Forwarded):
        return passed_on(parts, theirs)
    ours = parts.series.names(asked.matchers, asked.start_ms, asked.end_ms)
    return _listed(*catalogue.texts(ours, theirs, asked.limit))


@endpoint("label_values", "GET")
def label_values(parts: QueryParts, request: HttpRequest, form: Form, name: str) -> HttpResponse:
    """/api/v1/label/<name>/values"""
    asked = catalogue_params(form)
    theirs = _theirs(parts, f"label/{quote(name, safe='')}/values", request, form, [])
    if isinstance(theirs, Forwarded):
        return passed_on(parts, theirs)
    ours = parts.series.values(unescaped(name), asked.matchers, asked.start_ms, asked.end_ms)
    return _listed(*catalogue.texts(ours, theirs, asked.limit))


@endpoint("series", "GET", "POST")
def series(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/series"""
    asked = catalogue_params(form, needs_matchers=True)
    theirs = _theirs(parts, "series", request, form, [])
    if isinstance(theirs, Forwarded):
        return passed_on(parts, theirs)
    ours = parts.series.series(asked.matchers, asked.start_ms, asked.end_ms)
    return _listed(*catalogue.label_sets(ours, theirs, asked.limit))


@endpoint("metadata", "GET")
def metadata(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/metadata"""
    limits = limit_of(form), limit_of(form, "limit_per_metric")
    theirs = _theirs(parts, "metadata", request, form, {})
    if isinstance(theirs, Forwarded):
        return passed_on(parts, theirs)
    known = parts.series.metadata(form.get("metric"))
    ours = {name: [dataclasses.asdict(one) for one in described] for name, described in known.items()}
    return _listed(catalogue.families(ours, theirs, *limits), theirs.warnings)


@endpoint("buildinfo", "GET")
def buildinfo(parts: QueryParts, request: HttpRequest, form: Form) -> HttpResponse:
    """/api/v1/status/buildinfo"""
    empty = dict.fromkeys(("revision", "branch", "buildUser", "buildDate", "goVersion"), "")
    return _listed({"version": PROMETHEUS_VERSION, **empty, "asap": parts.version}, ())


@endpoint("other", "GET", "POST")
def other(parts: QueryParts, request: HttpRequest, form: Form, path: str) -> HttpResponse:
    """Whatever else lies below /api/v1/."""
    if path in FORWARDED and parts.upstream is not None:
        return passed_on(parts, parts.upstream.get(path, form.as_sent(), request.headers, parts.timeout_ms))
    raise NotFound(f"there is no /api/v1/{path} here")


def internal_error(request: HttpRequest) -> HttpResponse:
    """For a defect of ours; what it was is in the log."""
    text = encode.failure("internal", "an unexpected error; the log has more")
    return HttpResponse(text, status=500, content_type=JSON)


def unescaped(name: str) -> str:
    """A label name in the path, which may be written as U__…: `__` is an underscore, `_2e_` the character U+002E.

    Raises BadParameter for no name.
    """
    if not name.startswith("U__"):
        return name
    out, at, text = [], 0, name[3:]
    while at < len(text):
        found = _ESCAPED.match(text, at)
        if found is None or (found[1] and not _is_character(int(found[1], 16))):
            return name
        out.append(chr(int(found[1], 16)) if found[1] else "_" if found[0] == "__" else found[0])
        at = found.end()
    if not out:
        raise BadParameter("", 'invalid label name: ""')
    return "".join(out)


def _is_character(code: int) -> bool:
    return code < 0xD800 or 0xE000 <= code < 0x110000


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


def _theirs(
    parts: QueryParts, path: str, request: HttpRequest, form: Form, nothing: Any
) -> catalogue.Theirs | Forwarded:
    asked = catalogue.Asked(path, form.as_sent(), request.headers, parts.timeout_ms)
    return catalogue.ask(parts.upstream, asked, nothing)


def _listed(data: Any, warnings: tuple[str, ...]) -> HttpResponse:
    return HttpResponse(encode.success(orjson.dumps(data), warnings), content_type=JSON)
