"""Django's settings: facts that follow from the config."""

import secrets
import sys

from asap_project import openapi
from asap_project.celery_settings import celery_settings
from asap_project.config.derived import data_dir, is_guarded
from asap_project.database import database
from asap_project.process import load_or_exit

ASAP = load_or_exit(sys.argv)
"""The loaded config and its provenance; the one place where the process reads it."""

DATA_DIR = data_dir(ASAP.config)

DEBUG = False
SECRET_KEY = secrets.token_urlsafe(32)  # nothing is signed and nobody logs in; Django wants one
ALLOWED_HOSTS = ["*"]  # a data source may use any name
ROOT_URLCONF = "asap_project.urls"
WSGI_APPLICATION = "asap_project.wsgi.application"
APPEND_SLASH = False
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
DATA_UPLOAD_MAX_MEMORY_SIZE = None  # ingest has its own bound, ingest.max_body
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = ["precompute", "query", "ingest", "asap_project", "rest_framework"]
MIDDLEWARE: list[str] = [
    "asap_project.middleware.content_length",
    "query.api.transport.packed",
    "query.api.transport.cross_origin",
]
if is_guarded(ASAP.config):
    MIDDLEWARE.append("asap_project.middleware.guarded")
if ASAP.config.mode == "cluster":
    MIDDLEWARE.append("asap_project.middleware.by_role")
PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher"]
TEMPLATES: list[dict[str, object]] = []

DATABASES = {"default": database(ASAP.config)}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = openapi.SETTINGS

vars().update(celery_settings(ASAP.config))

STREAMING_WORKER = "asap_project.worker_wiring.streaming_worker"
"""What builds a worker's shards: (config, its name) -> precompute.cluster.kicks.Kicks. May raise PrecomputeError."""

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "filters": {"unforeseen": {"()": "asap_project.logs.Unforeseen"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django.request": {"level": "ERROR", "filters": ["unforeseen"]},
        "celery": {"level": "WARNING"},  # nor is each tick that went well
    },
}
