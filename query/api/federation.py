"""The newest samples of chosen series, for another Prometheus to scrape."""

from typing import ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request

from precompute.errors import QueryError
from query.api import openapi
from query.api.endpoint import listing
from query.api.exposition import exposition
from query.api.params import matchers_of
from query.api.rest import ApiView
from query.errors import answer_for

_TYPES = {
    False: "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
    True: "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
}
_PLAIN = "text/plain; charset=utf-8"
_REFUSED = openapi.answered("Why not, in a line.", openapi.TEXT, "text/plain")
_RESPONSES = {
    "200": openapi.answered("A line per series, by metric.", openapi.TEXT, "text/plain"),
    **dict.fromkeys(("400", "422", "503"), _REFUSED),
}
_OPERATION = openapi.operation("federate", "The newest samples of series.", (openapi.MATCH,), _RESPONSES)


@extend_schema_view(get=extend_schema(operation=_OPERATION))
class Federate(ApiView):
    """/federate; its errors are plain lines, as those of Prometheus are."""

    counted: ClassVar[str] = "federate"

    def get(self, request: Request) -> HttpResponse:
        parts, sets = self.parts, matchers_of(self.form)
        utf8_names = "escaping=allow-utf-8" in request.headers.get("Accept", "").replace(" ", "")
        with listing(parts) as check:
            newest = parts.series.newest(sets, parts.clock.now_ms(), parts.lookback_ms, parts.max_samples, check)
            return HttpResponse(exposition(newest, utf8_names), content_type=_TYPES[utf8_names])

    def handle_exception(self, exc: Exception) -> HttpResponse:
        if isinstance(exc, QueryError):
            return HttpResponse(f"{exc}\n", status=answer_for(exc)[0], content_type=_PLAIN)
        return super().handle_exception(exc)
