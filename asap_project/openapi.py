"""What drf-spectacular is told beside the views of DRF: the plain views, and what the API is called."""

from asap_project import VERSION
from query.api.openapi import COMPONENTS, HOT_PATHS, TEXT, Schema, answered

_PLAIN = "text/plain"


def _line(meaning: str) -> Schema:
    return answered(meaning, TEXT, _PLAIN)


def _page(name: str, meaning: str, failing: Schema | None = None, media_type: str = _PLAIN) -> Schema:
    """A path that answers GET with text."""
    responses = {"200": answered(meaning, TEXT, media_type)} | ({"503": failing} if failing else {})
    return {"get": {"operationId": name, "summary": meaning, "responses": responses}}


_WRITE: Schema = {
    "post": {
        "operationId": "write",
        "summary": "Takes samples by Prometheus' remote write, version 1.",
        "parameters": [
            {"name": "Content-Encoding", "in": "header", "required": False, "schema": {"enum": ["snappy", "zstd"]}}
        ],
        "requestBody": {
            "required": True,
            "content": {"application/x-protobuf": {"schema": {"type": "string", "format": "binary"}}},
        },
        "responses": {
            "204": {"description": "The log has all samples."},
            "400": _line("What is wrong with it; sending it again would be in vain."),
            "411": _line("A Content-Length is needed."),
            "413": _line("The body is larger than ingest.max_body."),
            "415": _line("Another content type, encoding or version is needed."),
            "503": _line("Send it again, after Retry-After seconds."),
        },
    }
}

PATHS: Schema = {
    **HOT_PATHS,
    "/api/v1/write": _WRITE,
    "/receive": {"post": {**_WRITE["post"], "operationId": "receive"}},
    "/": _page("index", "A page that says what this is.", media_type="text/html"),
    "/-/healthy": _page("healthy", "Whether the last tick is recent.", _line("Why not.")),
    "/-/ready": _page("ready", "Whether queries can be answered.", _line("Why not.")),
    "/metrics": _page("metrics", "Our own metrics.", _line("It is starting.")),
}
"""Every path whose view is a plain one."""

SETTINGS: dict[str, object] = {
    "TITLE": "ASAP",
    "DESCRIPTION": "Prometheus' HTTP API, answered out of summaries. docs/http-api.md says where it differs.",
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.0",
    "APPEND_PATHS": PATHS,
    "APPEND_COMPONENTS": COMPONENTS,
}
