"""Every path that is served."""

from django.urls import include, path

urlpatterns = [path("", include("ingest.urls")), path("", include("query.urls"))]
