"""Where answers are asked for. The last path takes what no other one below /api/v1/ does."""

from django.urls import path
from drf_spectacular.views import SpectacularJSONAPIView

from query.api import federation, language, lists, pages, rules, status, views
from query.api.explaining import Explain
from query.api.management import Aggregations, OneAggregation
from query.api.planning import PlanMade

urlpatterns = [
    path("api/v1/query", views.query),
    path("api/v1/query_range", views.query_range),
    path("api/v1/labels", lists.Labels.as_view()),
    path("api/v1/label/<str:name>/values", lists.LabelValues.as_view()),
    path("api/v1/series", lists.Series.as_view()),
    path("api/v1/metadata", lists.Metadata.as_view()),
    path("api/v1/rules", rules.Rules.as_view()),
    path("api/v1/alerts", rules.Alerts.as_view()),
    path("api/v1/query_exemplars", rules.Exemplars.as_view()),
    path("api/v1/format_query", language.FormatQuery.as_view()),
    path("api/v1/parse_query", language.ParseQuery.as_view()),
    path("api/v1/status/buildinfo", status.BuildInfo.as_view()),
    path("api/v1/status/runtimeinfo", status.RuntimeInfo.as_view()),
    path("api/v1/status/config", status.ConfigInUse.as_view()),
    path("api/v1/status/flags", status.Flags.as_view()),
    path("api/v1/status/tsdb", status.Tsdb.as_view()),
    path("api/v1/status/walreplay", status.Replay.as_view()),
    path("api/v1/openapi.json", SpectacularJSONAPIView.as_view()),
    path("api/v1/explain", Explain.as_view()),
    path("api/v1/aggregations", Aggregations.as_view()),
    path("api/v1/aggregations/<str:aggregation_id>", OneAggregation.as_view()),
    path("api/v1/plan", PlanMade.as_view()),
    path("federate", federation.Federate.as_view()),
    path("-/healthy", pages.healthy),
    path("-/ready", pages.ready),
    path("metrics", pages.metrics),
    path("", pages.index),
    path("api/v1/<path:path>", rules.Other.as_view()),
]
