"""Lists of what there is: label names, label values, series, descriptions; ours, and the upstream's with them."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from django.http import HttpResponse
from rest_framework.request import Request

from query.answers import Forwarded
from query.api import catalogue, openapi
from query.api.endpoint import listing, passed_on
from query.api.params import CatalogueParams, Form, catalogue_params, count_of
from query.api.rest import ApiView, FormView, succeeded
from query.api.schema import in_schema
from query.apps import QueryParts
from query.errors import BadParameter

_ESCAPED = re.compile(r"__|_([0-9A-Fa-f]{1,6})_|[A-Za-z0-9:]")
_WITHIN = (openapi.START, openapi.END, openapi.LIMIT)
_FAMILY = openapi.record(type=openapi.TEXT, help=openapi.TEXT, unit=openapi.TEXT)


@in_schema("Names of labels.", (openapi.MATCH, *_WITHIN), openapi.TEXTS)
class Labels(FormView):
    """/api/v1/labels"""

    counted: ClassVar[str] = "labels"

    def get(self, request: Request) -> HttpResponse:
        asked = catalogue_params(self.form)
        theirs = _theirs(self.parts, "labels", request, self.form, [])
        if isinstance(theirs, Forwarded):
            return passed_on(self.parts, theirs)
        with listing(self.parts) as check:
            ours = self.parts.series.names(*_where(asked), check)
        return succeeded(*catalogue.texts(ours, theirs, asked.limit))


@in_schema(
    "Values of a label.", (openapi.in_path("name", "The label's name."), openapi.MATCH, *_WITHIN), openapi.TEXTS
)
class LabelValues(ApiView):
    """/api/v1/label/<name>/values"""

    counted: ClassVar[str] = "label_values"

    def get(self, request: Request, name: str) -> HttpResponse:
        label, asked = unescaped(name), catalogue_params(self.form)
        theirs = _theirs(self.parts, f"label/{quote(name, safe='')}/values", request, self.form, [])
        if isinstance(theirs, Forwarded):
            return passed_on(self.parts, theirs)
        with listing(self.parts) as check:
            ours = self.parts.series.values(label, *_where(asked), check)
        return succeeded(*catalogue.texts(ours, theirs, asked.limit))


@in_schema("Label sets of series.", (openapi.MATCH_NEEDED, *_WITHIN), openapi.listed(openapi.LABELS))
class Series(FormView):
    """/api/v1/series"""

    counted: ClassVar[str] = "series"

    def get(self, request: Request) -> HttpResponse:
        asked = catalogue_params(self.form, needs_matchers=True)
        theirs = _theirs(self.parts, "series", request, self.form, [])
        if isinstance(theirs, Forwarded):
            return passed_on(self.parts, theirs)
        with listing(self.parts) as check:
            ours = self.parts.series.series(*_where(asked), check)
        return succeeded(*catalogue.label_sets(ours, theirs, asked.limit))


@in_schema(
    "What senders say about metrics, by metric family.",
    (
        openapi.parameter("metric", "One metric family; all if absent."),
        openapi.parameter("limit", "The most families that are listed.", openapi.WHOLE),
        openapi.parameter("limit_per_metric", "The most descriptions of each.", openapi.WHOLE),
    ),
    {"type": "object", "additionalProperties": openapi.listed(_FAMILY)},
)
class Metadata(ApiView):
    """/api/v1/metadata"""

    counted: ClassVar[str] = "metadata"

    def get(self, request: Request) -> HttpResponse:
        limits = count_of(self.form, "limit"), count_of(self.form, "limit_per_metric")
        theirs = _theirs(self.parts, "metadata", request, self.form, {})
        if isinstance(theirs, Forwarded):
            return passed_on(self.parts, theirs)
        known = self.parts.series.metadata(self.form.get("metric"))
        ours = {name: [dataclasses.asdict(one) for one in described] for name, described in known.items()}
        return succeeded(catalogue.families(ours, theirs, *limits), theirs.warnings)


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


def _where(asked: CatalogueParams) -> tuple[Any, int, int]:
    return asked.matchers, asked.start_ms, asked.end_ms


def _theirs(
    parts: QueryParts, path: str, request: Request, form: Form, nothing: Any
) -> catalogue.Theirs | Forwarded:
    headers: Mapping[str, str] = request.headers
    asked = catalogue.Asked(path, form.as_sent(), headers, parts.timeout_ms)
    return catalogue.ask(parts.upstream, asked, nothing)
