"""Every path that is served."""

from django.urls import include, path

urlpatterns = [
    path("", include("ingest.urls")),
    path("", include("query.urls")),  # last: it answers every unknown path of the API
]
handler500 = "query.api.views.internal_error"
