"""What the planner decided, and why."""

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request

from precompute.planner.report import as_data
from query.api import openapi
from query.api.rest import ApiView, succeeded
from query.replanner import Replanner

_DECISION: openapi.Schema = {"type": "object", "required": ["requirements", "per_hour", "example"]}
_PLAN = openapi.record(
    enabled={"type": "boolean"}, seen=openapi.COUNT, repeated=openapi.COUNT, waiting=openapi.COUNT,
    plan=openapi.listed(_DECISION), refused=openapi.listed(_DECISION),
)  # fmt: skip


@extend_schema_view(
    get=extend_schema(
        operation=openapi.operation(
            "plan", "What the planner keeps of what queries ask for, and what not, and why.", (),
            {"200": openapi.answered("Its last plan.", openapi.success(_PLAN)), **openapi.ERRORS},
        )
    ),
)  # fmt: skip
class PlanMade(ApiView):
    """/api/v1/plan"""

    counted: ClassVar[str] = "plan"
    http_method_names: ClassVar[list[str]] = ["get"]

    def get(self, request: Request) -> HttpResponse:
        """The decisions of the last plan."""
        return succeeded(_told(self.parts.replanner))


def _told(replanner: Replanner | None) -> dict[str, Any]:
    """seen, repeated: parts of queries met lately, and again and again. waiting: those of them without series here."""
    if replanner is None:
        return {"enabled": False, "seen": 0, "repeated": 0, "waiting": 0, "plan": [], "refused": []}
    seen, repeated = replanner.tracker.counts()
    counts = {"enabled": True, "seen": seen, "repeated": repeated, "waiting": replanner.waiting}
    return {**counts, **as_data(replanner.made)}
