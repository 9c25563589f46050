"""Why a query is answered as it is: /api/v1/explain, which evaluates it and tells."""

from typing import ClassVar

from django.http import HttpResponse
from rest_framework.request import Request as DrfRequest

from query import explain
from query.answers import Answer, Forwarded
from query.api import openapi
from query.api.endpoint import evaluating
from query.api.params import instant_params, range_params
from query.api.rest import FormView, succeeded
from query.api.schema import in_schema
from query.engine import Request

_NUMBER = {"type": "number"}
_ANY = {"type": "object"}
_EXPLAINED = openapi.record(
    query=openapi.TEXT, steps=openapi.COUNT, start=_NUMBER, end=_NUMBER, step=_NUMBER, tiers=openapi.TEXTS,
    bound=openapi.TEXT, seconds=_NUMBER, samples=openapi.COUNT, panes=openapi.COUNT, groups=openapi.COUNT,
    steps_from_cache=openapi.COUNT, plan={"type": ["object", "null"]},
)  # fmt: skip
_PARAMETERS = (
    openapi.QUERY, openapi.TIME, openapi.START, openapi.END, {**openapi.STEP, "required": False}, openapi.TIMEOUT,
    openapi.LOOKBACK, openapi.NOCACHE,
)  # fmt: skip


@in_schema("How a query is answered: each part's tier and cost, and why no better one.", _PARAMETERS, _EXPLAINED)
class Explain(FormView):
    """/api/v1/explain: of an instant query, or, where `start` is given, of a range query."""

    counted: ClassVar[str] = "explain"

    def get(self, request: DrfRequest) -> HttpResponse:
        """The query is evaluated, and the answer left out."""
        return succeeded(explain.described(self._asked()))

    def _asked(self) -> Answer | Forwarded:
        headers, engine = self.request.headers, self.parts.engine
        if not self.form.get("start"):
            at = instant_params(self.form)
            with evaluating(self.parts, at.timeout_ms) as turn:
                return engine.instant(at.query, at.time_ms, Request(turn.left_ms, headers, at.lookback_ms, traced=True))
        over = range_params(self.form, self.parts.max_points)
        with evaluating(self.parts, over.timeout_ms) as turn:
            how = Request(turn.left_ms, headers, over.lookback_ms, traced=True, cached=not over.nocache)
            return engine.range(over.query, over.start_ms, over.end_ms, over.step_ms, how)
