"""Where answers are asked for. The last path takes what no other one below /api/v1/ does."""

from django.urls import path

from query.api import pages, views
from query.api.management import Aggregations

urlpatterns = [
    path("api/v1/query", views.query),
    path("api/v1/query_range", views.query_range),
    path("api/v1/labels", views.labels),
    path("api/v1/label/<str:name>/values", views.label_values),
    path("api/v1/series", views.series),
    path("api/v1/metadata", views.metadata),
    path("api/v1/status/buildinfo", views.buildinfo),
    path("api/v1/aggregations", Aggregations.as_view()),
    path("-/healthy", pages.healthy),
    path("-/ready", pages.ready),
    path("metrics", pages.metrics),
    path("", pages.index),
    path("api/v1/<path:path>", views.other),
]
