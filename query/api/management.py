"""The management API: what is kept, and how that is changed while all runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request

from precompute.definitions import Kept
from precompute.errors import KeptByConfig, NotKept
from precompute.evaluate.expr import duration_text
from precompute.in_force import PlanInForce
from precompute.stores.base import StoreError
from query.api import openapi
from query.api.rest import ApiView, json_of, succeeded
from query.errors import BadParameter, Conflict, NotFound, NotReady
from query.usage import Usage, Used

_FLAG: openapi.Schema = {"type": "boolean"}
_WIDTH: openapi.Schema = {"type": "string", "example": "15s"}
_AGGREGATION = openapi.record(
    id=openapi.TEXT, expr=openapi.TEXT, accumulators=openapi.TEXTS, width=openapi.TEXT, reach=openapi.TEXT,
    lookback=openapi.TEXT, retention=openapi.TEXT, origin={"type": "string", "enum": ["config", "api", "planner"]},
    pinned=_FLAG, in_service=_FLAG, panes=openapi.COUNT, groups=openapi.COUNT, bytes=openapi.COUNT, hits=openapi.COUNT,
    last_used={"type": ["number", "null"]}, queries=openapi.TEXTS,
)  # fmt: skip
_AGGREGATION["properties"] |= {"by": openapi.TEXTS, "without": openapi.TEXTS}

_NEW: openapi.Schema = {
    "type": "object", "required": ["expr", "accumulators"], "additionalProperties": False,
    "properties": {
        "expr": {"type": "string", "example": "rate(http_requests_total[5m])"}, "by": openapi.TEXTS,
        "without": openapi.TEXTS, "series": _FLAG, "accumulators": openapi.TEXTS, "width": _WIDTH, "retention": _WIDTH,
        "accuracy_sla": {"type": "number"}, "pinned": _FLAG,
    },
}  # fmt: skip
_PIN = {**openapi.record(pinned=_FLAG), "additionalProperties": False}

_ONE = openapi.success(_AGGREGATION)
_MISSING = {"404": openapi.failed("No such aggregation is kept.")}
_FIXED = {"409": openapi.failed("It is in the config, and is changed there.")}
_ID = openapi.in_path("aggregation_id", "The aggregation's id.")


@contextmanager
def _told() -> Iterator[None]:
    """The core's errors as those of the API."""
    try:
        yield
    except NotKept as error:
        raise NotFound(str(error)) from error
    except KeptByConfig as error:
        raise Conflict(str(error)) from error
    except StoreError as error:
        raise NotReady(str(error)) from error


@extend_schema_view(
    get=extend_schema(
        operation=openapi.operation(
            "aggregations", "What is kept.", (),
            {"200": openapi.answered("All of it.", openapi.success(openapi.listed(_AGGREGATION))), **openapi.ERRORS},
        )
    ),
    post=extend_schema(
        operation=openapi.operation(
            "create_aggregation", "Keep something more; what is there of it already is made anew, with this retention.",
            (), {"201": openapi.answered("It is kept.", _ONE), **_FIXED, **openapi.ERRORS},
        ) | {"requestBody": openapi.json_body(_NEW)}
    ),
)  # fmt: skip
class Aggregations(ApiView):
    """/api/v1/aggregations"""

    counted: ClassVar[str] = "aggregations"
    while_starting: ClassVar[bool] = True
    http_method_names: ClassVar[list[str]] = ["get", "post"]

    def get(self, request: Request) -> HttpResponse:
        """Every aggregation, the oldest first."""
        plan, usage = self.parts.plan, self.parts.usage
        with _told():
            return succeeded([described(kept, plan, usage) for kept in plan.kept])

    def post(self, request: Request) -> HttpResponse:
        """Keep one more."""
        if reason := self.parts.ready():
            raise NotReady(reason)
        asked = json_of(request)
        pinned = _flag(asked.pop("pinned", True))
        with _told():
            kept = self.parts.plan.create(self.parts.aggregation(asked), pinned)
            answer = succeeded(described(kept, self.parts.plan, self.parts.usage))
        answer.status_code = 201
        return answer


@extend_schema_view(
    get=extend_schema(
        operation=openapi.operation(
            "aggregation", "One aggregation.", (_ID,),
            {"200": openapi.answered("It.", _ONE), **_MISSING, **openapi.ERRORS},
        )
    ),
    patch=extend_schema(
        operation=openapi.operation(
            "pin_aggregation", "Pin it, so that no planner lets go of it, or unpin it.", (_ID,),
            {"200": openapi.answered("It, as it is now.", _ONE), **_MISSING, **_FIXED, **openapi.ERRORS},
        ) | {"requestBody": openapi.json_body(_PIN)}
    ),
    delete=extend_schema(
        operation=openapi.operation(
            "delete_aggregation", "Keep it no longer.", (_ID,),
            {"204": {"description": "It is kept no longer."}, **_MISSING, **_FIXED, **openapi.ERRORS},
        )
    ),
)  # fmt: skip
class OneAggregation(ApiView):
    """/api/v1/aggregations/ID"""

    counted: ClassVar[str] = "aggregation"
    http_method_names: ClassVar[list[str]] = ["get", "patch", "delete"]

    def get(self, request: Request, aggregation_id: str) -> HttpResponse:
        with _told():
            return self._described(self.parts.plan.find(aggregation_id))

    def patch(self, request: Request, aggregation_id: str) -> HttpResponse:
        """Pin or unpin it."""
        asked = json_of(request)
        if asked.keys() != {"pinned"}:
            raise BadParameter("", 'the body should be {"pinned": true} or {"pinned": false}')
        with _told():
            return self._described(self.parts.plan.pin(aggregation_id, _flag(asked["pinned"])))

    def delete(self, request: Request, aggregation_id: str) -> HttpResponse:
        with _told():
            self.parts.plan.delete(aggregation_id)
        return HttpResponse(status=204)

    def _described(self, kept: Kept) -> HttpResponse:
        return succeeded(described(kept, self.parts.plan, self.parts.usage))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise BadParameter("pinned", "should be true or false")
    return value


def described(kept: Kept, plan: PlanInForce, usage: Usage) -> dict[str, Any]:
    """One aggregation as JSON. Groups are those of its newest pane; bytes what its panes take where they are stored."""
    aggregation, engine = kept.aggregation, plan.engine
    newest_ms = engine.newest_ms(aggregation)
    newest = None if newest_ms is None else engine.store.get(aggregation.id, newest_ms - 1, newest_ms)
    return {
        "id": aggregation.id,
        "expr": str(aggregation.expr),
        "without" if aggregation.without else "by": list(aggregation.labels),
        "accumulators": list(aggregation.accumulators),
        "width": duration_text(aggregation.width_ms),
        "reach": duration_text(aggregation.reach_ms),
        "lookback": duration_text(aggregation.lookback_ms),
        "retention": duration_text(aggregation.retention_ms),
        "origin": kept.origin,
        "pinned": kept.pinned,
        "in_service": not kept.suspended,
        "panes": len(engine.ends(aggregation)),
        "groups": newest.rows if newest is not None else 0,
        "bytes": engine.store.size_bytes(aggregation.id),
        **_used(usage.of(aggregation.id)),
    }


def _used(used: Used) -> dict[str, Any]:
    """Times are seconds."""
    last_s = None if used.last_ms is None else used.last_ms / 1000
    return {"hits": used.hits, "last_used": last_s, "queries": list(used.examples)}
