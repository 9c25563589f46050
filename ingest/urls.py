"""Where samples are pushed to."""

from django.urls import path

from ingest.views import write

urlpatterns = [
    path("api/v1/write", write, name="remote-write"),
    path("receive", write, name="receive"),
]
