"""The OpenAPI schema, held against the running program: every path is in it, and answers as it says."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import schemathesis
from django.urls import URLPattern, URLResolver, get_resolver
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.running import Program

pytestmark = pytest.mark.e2e

CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance, unsupported_method,
]  # fmt: skip
RANGE = {"start": "2026-01-02T03:04:05Z", "end": "2026-01-02T03:05:05Z", "step": "15s"}
ANSWERED: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("/api/v1/query", {"query": text}) for text in ("up", "up[1m]", "1", '"s"', "sum by (job) (up)", "none")),
    ("/api/v1/query", {"query": "up", "limit": "1", "stats": "all", "lookback_delta": "1m", "timeout": "5s"}),
    ("/api/v1/query_range", {"query": "vector(1)", **RANGE}),
    ("/api/v1/labels", {"match[]": ["up", "none"], "limit": "1"}),
    ("/api/v1/series", {"match[]": ["up"], "start": "0"}),
    ("/api/v1/metadata", {"limit": "2"}),
    ("/api/v1/format_query", {"query": "sum(up)by(job)"}),
    ("/api/v1/parse_query", {"query": "rate(up[5m]) > bool 1"}),
    ("/api/v1/query_exemplars", {"query": "up"}),
    ("/api/v1/rules", {"type": "alert"}),
    ("/api/v1/status/tsdb", {"limit": "5"}),
    ("/federate", {"match[]": ["up"]}),
)
"""Requests that are answered, as random ones seldom are."""
KEPT = {"expr": "up", "by": ["job"], "accumulators": ["sum"]}


@schemathesis.serializer("application/x-protobuf")  # type: ignore[untyped-decorator]
def as_it_is(context: Any, body: Any) -> Any:
    """Bytes, and whatever stands for bytes that are none."""
    return body if isinstance(body, bytes) else repr(body).encode()


def test_every_path_is_described_and_answers_as_it_says(
    asap_process: Callable[..., AbstractContextManager[Program]],
) -> None:
    with asap_process({"ingest": {"self_scrape": True}, "aggregations": [KEPT]}) as asap:
        raw = asap.get("/api/v1/openapi.json").json()
        described = {path.lstrip("/").replace("{", "<str:").replace("}", ">") for path in raw["paths"]}
        assert described == set(routes(get_resolver("asap_project.urls"))) - {"api/v1/<path:path>"}
        schema = schemathesis.openapi.from_dict(raw)
        schema.config.update(base_url=asap.url)
        operations = [found.ok() for found in schema.get_all_operations()]
        assert {("/api/v1/query", "get"), ("/api/v1/query", "post"), ("/api/v1/write", "post")} <= {
            (operation.path, operation.method) for operation in operations
        }
        for operation in operations:
            conforms(operation, GenerationMode.POSITIVE, 15)
            if operation.query or operation.body:
                conforms(operation, GenerationMode.NEGATIVE, 10)
        for path, parameters in ANSWERED:
            for method in sorted(raw["paths"][path]):
                answers(schema[path][method], parameters)
        assert "Traceback" not in asap.log()


def routes(resolver: URLResolver, before: str = "") -> Iterator[str]:
    """Every route below a resolver."""
    for pattern in resolver.url_patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route
        else:
            yield from routes(pattern, route)


def conforms(operation: Any, mode: GenerationMode, examples: int) -> None:
    """A few requests with right parameters, or with wrong ones, where an operation can have such."""

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def asked(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    asked()


def answers(operation: Any, parameters: dict[str, Any]) -> None:
    """A request that must be answered, in the URL or as a form."""
    if operation.method == "post":
        case = operation.Case(body=parameters, media_type="application/x-www-form-urlencoded")
    else:
        case = operation.Case(query=parameters)
    assert case.call_and_validate(checks=CHECKS).status_code == 200
