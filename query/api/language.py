"""A query told back: formatted, and as a tree."""

from typing import ClassVar

import orjson
from django.http import HttpResponse
from rest_framework.request import Request

from precompute.errors import BadExpression, Unsupported
from query.api import encode, openapi
from query.api.endpoint import JSON, passed_on
from query.api.rest import FormView, succeeded
from query.api.schema import in_schema
from query.errors import BadParameter
from query.promql.pretty import pretty
from query.promql.tree import Tree, tree_of


class _Told(FormView):
    """What the parser does not know yet the upstream tells, where there is one."""

    def get(self, request: Request) -> HttpResponse:
        try:
            return self.told(tree_of(self.form.get("query")))
        except BadExpression as error:
            raise BadParameter("query", str(error)) from error
        except Unsupported:
            if (upstream := self.parts.upstream) is None:
                raise
            form, timeout_ms = self.form.as_sent(), self.parts.timeout_ms
            return passed_on(self.parts, upstream.get(self.counted, form, request.headers, timeout_ms))

    def told(self, tree: Tree) -> HttpResponse:
        """The answer."""
        raise NotImplementedError


@in_schema("The query, formatted.", (openapi.QUERY,), openapi.TEXT)
class FormatQuery(_Told):
    """/api/v1/format_query"""

    counted: ClassVar[str] = "format_query"

    def told(self, tree: Tree) -> HttpResponse:
        return succeeded(pretty(tree))


@in_schema("The query as a tree.", (openapi.QUERY,), {"type": "object", "required": ["type"]})
class ParseQuery(_Told):
    """/api/v1/parse_query"""

    counted: ClassVar[str] = "parse_query"

    def told(self, tree: Tree) -> HttpResponse:
        sorted_keys = orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)
        return HttpResponse(encode.success(sorted_keys), content_type=JSON)
