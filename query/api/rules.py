"""What only rules and exemplars would fill: the upstream's answers, or the empty ones of a server that has none."""

from typing import ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from precompute.evaluate.expr import selectors
from query.api import openapi
from query.api.endpoint import passed_on
from query.api.params import Form, check_exemplars, check_rules
from query.api.rest import ApiView, FormView, succeeded
from query.api.schema import in_schema, in_schema_as
from query.errors import NotFound

_ANY: openapi.Schema = {"type": "object"}
_EXEMPLARS = {
    "200": openapi.answered("The exemplars, by series.", openapi.success(openapi.listed(_ANY))),
    "204": {"description": "The query has no selector."},
    **openapi.ERRORS,
}


class _FromUpstream(ApiView):
    """Asks the upstream under its own path; without one answers what `empty` says."""

    def get(self, request: Request) -> HttpResponse:
        upstream = self.parts.upstream
        if upstream is None:
            return self.empty(self.form)
        path, form = self.counted, self.form.as_sent()
        return passed_on(self.parts, upstream.get(path, form, request.headers, self.parts.timeout_ms))

    def empty(self, form: Form) -> HttpResponse:
        """The answer of a Prometheus that has none."""
        raise NotImplementedError


@in_schema(
    "Groups of rules: the upstream's.",
    (
        openapi.parameter("type", "alert or record; both if absent.", {"type": "string", "enum": ["alert", "record"]}),
        openapi.parameter("rule_name[]", "Only rules of these names.", openapi.TEXTS),
        openapi.parameter("rule_group[]", "Only groups of these names.", openapi.TEXTS),
        openapi.parameter("file[]", "Only groups of these files.", openapi.TEXTS),
        openapi.parameter("exclude_alerts", "Leave active alerts out.", {"type": "boolean"}),
        openapi.parameter("group_limit", "The most groups of one answer.", {"type": "integer", "minimum": 1}),
        openapi.parameter("group_next_token", "Where an answer before this one stopped."),
        openapi.MATCH,
    ),
    openapi.record(groups=openapi.listed(_ANY)),
)
class Rules(_FromUpstream):
    """/api/v1/rules"""

    counted: ClassVar[str] = "rules"

    def empty(self, form: Form) -> HttpResponse:
        check_rules(form)
        return succeeded({"groups": []})


@in_schema("Active alerts: the upstream's.", (), openapi.record(alerts=openapi.listed(_ANY)))
class Alerts(_FromUpstream):
    """/api/v1/alerts"""

    counted: ClassVar[str] = "alerts"

    def empty(self, form: Form) -> HttpResponse:
        return succeeded({"alerts": []})


@in_schema_as(
    "Exemplars of the series that a query reads: the upstream's.",
    (openapi.QUERY, openapi.START, openapi.END),
    _EXEMPLARS,
)
class Exemplars(_FromUpstream, FormView):
    """/api/v1/query_exemplars"""

    counted: ClassVar[str] = "query_exemplars"

    def empty(self, form: Form) -> HttpResponse:
        return succeeded([]) if selectors(check_exemplars(form)) else _nothing()


def _nothing() -> HttpResponse:
    """No content, so of no type, which Django would name all the same."""
    response = HttpResponse(status=204)
    del response.headers["Content-Type"]
    return response


@extend_schema(exclude=True)
class Other(FormView):
    """Whatever else lies below /api/v1/."""

    counted: ClassVar[str] = "other"

    def get(self, request: Request, path: str) -> HttpResponse:
        raise NotFound(f"there is no /api/v1/{path} here")
