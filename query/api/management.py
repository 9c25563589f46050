"""The management API: what is kept."""

from typing import Any, ClassVar, cast

from django.apps import apps
from django.http import HttpResponse
from rest_framework.request import Request

from precompute.aggregations import Aggregation
from precompute.apps import PrecomputeConfig
from precompute.engines.minibatch import MiniBatchEngine
from precompute.evaluate.expr import duration_text
from query.api import openapi
from query.api.rest import ApiView, succeeded
from query.api.schema import in_schema
from query.errors import NotReady

_AGGREGATION = openapi.record(
    id=openapi.TEXT, expr=openapi.TEXT, accumulators=openapi.TEXTS, width=openapi.TEXT, reach=openapi.TEXT,
    retention=openapi.TEXT, panes=openapi.COUNT, bytes=openapi.COUNT,
)  # fmt: skip
_AGGREGATION["properties"] |= {"by": openapi.TEXTS, "without": openapi.TEXTS}


@in_schema("What is kept.", (), openapi.listed(_AGGREGATION))
class Aggregations(ApiView):
    """/api/v1/aggregations"""

    counted: ClassVar[str] = "aggregations"
    while_starting: ClassVar[bool] = True

    def get(self, request: Request) -> HttpResponse:
        """Every aggregation, with how many panes it has and the bytes that they take where they are stored."""
        engine = cast(PrecomputeConfig, apps.get_app_config("precompute")).engine
        if engine is None:
            raise NotReady("starting")
        return succeeded([described(a, engine) for a in engine.aggregations])


def described(aggregation: Aggregation, engine: MiniBatchEngine) -> dict[str, Any]:
    """One aggregation as JSON."""
    return {
        "id": aggregation.id,
        "expr": str(aggregation.expr),
        "without" if aggregation.without else "by": list(aggregation.labels),
        "accumulators": list(aggregation.accumulators),
        "width": duration_text(aggregation.width_ms),
        "reach": duration_text(aggregation.reach_ms),
        "retention": duration_text(aggregation.retention_ms),
        "panes": engine.books[aggregation.id].panes(),
        "bytes": engine.store.size_bytes(aggregation.id),
    }
