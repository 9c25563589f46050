"""What the OpenAPI schema is made of: parameters, answers, and operations out of both.

Pure data in OpenAPI's own words, so that the views that are plain ones are described like those of DRF.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

FORM = "application/x-www-form-urlencoded"

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
LABELS: Schema = {"type": "object", "additionalProperties": TEXT}


def record(**properties: Schema) -> Schema:
    """An object that has all of these."""
    return {"type": "object", "required": list(properties), "properties": properties}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def parameter(name: str, meaning: str, schema: Schema | None = None, required: bool = False) -> Schema:
    """A parameter of the URL, or of the form where an operation takes one."""
    schema = schema or TEXT
    return {"name": name, "in": "query", "required": required, "description": meaning, "schema": schema}


def in_path(name: str, meaning: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "description": meaning, "schema": TEXT}


_MOMENT = {"type": "string", "example": "2026-01-02T03:04:05Z"}
_LENGTH = {"type": "string", "example": "15s"}

QUERY = parameter("query", "The PromQL expression.", {"type": "string", "example": "up"}, required=True)
TIME = parameter("time", "When it is evaluated: seconds since the epoch or RFC 3339; now if absent.", _MOMENT)
START = parameter("start", "Where the interval begins: seconds since the epoch or RFC 3339.", _MOMENT)
END = parameter("end", "Where the interval ends, itself included.", _MOMENT)
STEP = parameter("step", "Time between two steps: seconds, or a duration such as 15s.", _LENGTH, required=True)
TIMEOUT = parameter("timeout", "How long the evaluation may take; query_engine.timeout at most.", _LENGTH)
LOOKBACK = parameter("lookback_delta", "How far instant selectors look back, in this query.", _LENGTH)
STATS = parameter("stats", "true or all: how the answer was made, and what it cost.")
NOCACHE = parameter("nocache", "1: evaluate every step anew.", {"type": "string", "enum": ["0", "1"]})
LIMIT = parameter("limit", "The most that is listed; 0 is no limit.", COUNT)
MATCH = parameter("match[]", "A series selector; of several, a series has to fulfil one.", TEXTS)
MATCH_NEEDED = {**MATCH, "required": True}

ERROR = record(status={"const": "error"}, errorType=TEXT, error=TEXT)
ERROR_TYPES = ("bad_data", "execution", "timeout", "unavailable", "not_found", "internal")
ERROR["properties"]["errorType"] = {"type": "string", "enum": list(ERROR_TYPES)}

COMPONENTS: Schema = {"schemas": {"Error": ERROR}}


def success(data: Schema) -> Schema:
    """Prometheus' envelope around `data`."""
    envelope = record(status={"const": "success"}, data=data)
    envelope["properties"] |= {"warnings": TEXTS, "infos": TEXTS}
    return envelope


def answered(meaning: str, schema: Schema, media_type: str = "application/json") -> Schema:
    return {"description": meaning, "content": {media_type: {"schema": schema}}}


def failed(meaning: str) -> Schema:
    """Prometheus' error."""
    return answered(meaning, {"$ref": "#/components/schemas/Error"})


ERRORS: Schema = {
    "400": failed("A parameter is wrong."),
    "422": failed("The query cannot be evaluated."),
    "503": failed("Nothing can be answered yet, or not in time, or the upstream does not answer."),
}


def operation(
    name: str, summary: str, parameters: Sequence[Schema], responses: Mapping[str, Schema], form: bool = False
) -> Schema:
    """One method of one path; with `form` the parameters, but those of the path, come as a form."""
    made: Schema = {"operationId": name, "summary": summary, "responses": dict(responses)}
    asked = list(parameters)
    if form:
        fields = [p for p in asked if p["in"] == "query"]
        asked = [p for p in asked if p["in"] == "path"]
        body: Schema = {"type": "object", "properties": {p["name"]: p["schema"] for p in fields}}
        if needed := [p["name"] for p in fields if p["required"]]:
            body["required"] = needed
        made["requestBody"] = {"required": bool(needed), "content": {FORM: {"schema": body}}}
    return {**made, "parameters": asked} if asked else made


def json_body(schema: Schema) -> Schema:
    """Of an operation that takes JSON."""
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def path_item(name: str, summary: str, parameters: Sequence[Schema], responses: Mapping[str, Schema]) -> Schema:
    """A path that answers GET, and POST with a form."""
    return {
        "get": operation(name, summary, parameters, responses),
        "post": operation(f"{name}_form", summary, parameters, responses, form=True),
    }


_VALUE = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
"""A time and the value at it, which is a text."""
_VECTOR = record(resultType={"const": "vector"}, result=listed(record(metric=LABELS, value=_VALUE)))
_MATRIX = record(resultType={"const": "matrix"}, result=listed(record(metric=LABELS, values=listed(_VALUE))))
_SINGLE = record(resultType={"enum": ["scalar", "string"]}, result=_VALUE)
_HOW: Schema = {
    "headers": {
        "X-ASAP-Tier": {"description": "Who answered: summary, head, upstream.", "schema": TEXT},
        "X-ASAP-Bound": {"description": "How exact the answer is.", "schema": TEXT},
    }
}
_INSTANT = {"200": answered("The value.", success({"oneOf": [_VECTOR, _MATRIX, _SINGLE]})) | _HOW, **ERRORS}
_RANGE = {"200": answered("A matrix.", success(_MATRIX)) | _HOW, **ERRORS}
_OPTIONS = (TIMEOUT, LIMIT, LOOKBACK, STATS)
_RANGE_PARAMETERS = (QUERY, {**START, "required": True}, {**END, "required": True}, STEP, *_OPTIONS, NOCACHE)

HOT_PATHS: Schema = {
    "/api/v1/query": path_item("query", "A query at one time.", (QUERY, TIME, *_OPTIONS), _INSTANT),
    "/api/v1/query_range": path_item("query_range", "A query at many times.", _RANGE_PARAMETERS, _RANGE),
}
"""The paths of queries, whose views are plain ones."""
