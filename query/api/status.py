"""What this server is, how it was started, and what it holds: /api/v1/status/…"""

from typing import ClassVar

from django.http import HttpResponse
from rest_framework.request import Request

from query.api import openapi
from query.api.params import most_of
from query.api.rest import ApiView, succeeded
from query.api.schema import in_schema

PROMETHEUS_VERSION = "3.5.0"
"""The API's version: data sources choose what they ask by it."""

_BUILD = ("revision", "branch", "buildUser", "buildDate", "goVersion")
_MOMENT: openapi.Schema = {"type": "string", "format": "date-time"}
_RUNTIME = openapi.record(
    startTime=_MOMENT, CWD=openapi.TEXT, hostname=openapi.TEXT, serverTime=_MOMENT, lastConfigTime=_MOMENT,
    reloadConfigSuccess={"type": "boolean"}, timeSeriesCount=openapi.COUNT, corruptionCount=openapi.COUNT,
    goroutineCount=openapi.COUNT, GOMAXPROCS=openapi.COUNT, GOMEMLIMIT=openapi.COUNT, GOGC=openapi.TEXT,
    GODEBUG=openapi.TEXT, storageRetention=openapi.TEXT,
)  # fmt: skip
_RANKING = openapi.listed(openapi.record(name=openapi.TEXT, value=openapi.COUNT))
_HEAD = openapi.record(
    headStats=openapi.record(
        numSeries=openapi.COUNT, numLabelPairs=openapi.COUNT, chunkCount=openapi.COUNT, minTime=openapi.WHOLE,
        maxTime=openapi.WHOLE,
    ),
    seriesCountByMetricName=_RANKING, labelValueCountByLabelName=_RANKING, memoryInBytesByLabelName=_RANKING,
    seriesCountByLabelValuePair=_RANKING,
)  # fmt: skip
_MOST = openapi.parameter(
    "limit", "How many of each are listed; 10 if absent.", {"type": "integer", "minimum": 1, "maximum": 10_000}
)


@in_schema(
    "Versions: of the API, and our own.",
    (),
    openapi.record(version=openapi.TEXT, asap=openapi.TEXT, **dict.fromkeys(_BUILD, openapi.TEXT)),
)
class BuildInfo(ApiView):
    """/api/v1/status/buildinfo"""

    counted: ClassVar[str] = "buildinfo"

    def get(self, request: Request) -> HttpResponse:
        return succeeded({"version": PROMETHEUS_VERSION, **dict.fromkeys(_BUILD, ""), "asap": self.parts.version})


@in_schema("How the process is.", (), _RUNTIME)
class RuntimeInfo(ApiView):
    """/api/v1/status/runtimeinfo"""

    counted: ClassVar[str] = "runtimeinfo"

    def get(self, request: Request) -> HttpResponse:
        return succeeded(self.parts.status.runtime())


@in_schema("The config in use, as YAML.", (), openapi.record(yaml=openapi.TEXT))
class ConfigInUse(ApiView):
    """/api/v1/status/config"""

    counted: ClassVar[str] = "config"

    def get(self, request: Request) -> HttpResponse:
        return succeeded({"yaml": self.parts.status.setup.config})


@in_schema("Every option's value, by its flag.", (), openapi.LABELS)
class Flags(ApiView):
    """/api/v1/status/flags"""

    counted: ClassVar[str] = "flags"

    def get(self, request: Request) -> HttpResponse:
        return succeeded(self.parts.status.setup.flags)


@in_schema("The head, and what has the most series in it.", (_MOST,), _HEAD)
class Tsdb(ApiView):
    """/api/v1/status/tsdb"""

    counted: ClassVar[str] = "tsdb"

    def get(self, request: Request) -> HttpResponse:
        most = most_of(self.form)
        with self.parts.slots.taken(self.parts.timeout_ms):
            return succeeded(self.parts.status.head(most))


@in_schema(
    "How far the sample log has been read back.",
    (),
    openapi.record(min=openapi.COUNT, max=openapi.COUNT, current=openapi.COUNT),
)
class Replay(ApiView):
    """/api/v1/status/walreplay"""

    counted: ClassVar[str] = "walreplay"
    while_starting: ClassVar[bool] = True

    def get(self, request: Request) -> HttpResponse:
        return succeeded(self.parts.status.replay())
