"""The management API: what is kept. Served by DRF; what Prometheus' API asks is in `views`."""

from typing import Any, cast

from django.apps import apps
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from precompute.aggregations import Aggregation
from precompute.apps import PrecomputeConfig
from precompute.engines.minibatch import MiniBatchEngine
from precompute.evaluate.expr import duration_text


class Aggregations(APIView):  # type: ignore[misc]  # DRF has no annotations
    """/api/v1/aggregations"""

    def get(self, request: Request) -> Response:
        """Every aggregation, with how many panes it has and the bytes that they take where they are stored."""
        engine = cast(PrecomputeConfig, apps.get_app_config("precompute")).engine
        if engine is None:
            return Response({"status": "error", "errorType": "unavailable", "error": "starting"}, status=503)
        return Response({"status": "success", "data": [described(a, engine) for a in engine.aggregations]})


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
