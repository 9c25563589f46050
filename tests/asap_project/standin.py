"""A core of a few lines under the real supervisor: settings, urls and wiring for tests of starting and stopping.

Run as a program it serves what `runasap` serves, with this in place of the core. It prints what it is asked to do;
STANDIN in the environment chooses how it behaves. The roles of a cluster without an HTTP API wait for SIGTERM.
"""

import os
import signal
import sys
import threading
import types
from typing import Any

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.urls import path
from prometheus_client import CollectorRegistry

BEHAVIOUR = os.environ.get("STANDIN", "")


class Running:
    """Says what it is asked; `slow-shutdown` takes a second to commit, `refuse` never starts."""

    def stop_accepting(self) -> None:
        print("standin: refuses writes", flush=True)

    def shutdown(self) -> None:
        if BEHAVIOUR == "slow-shutdown":
            threading.Event().wait(1.0)
        print("standin: committed and closed", flush=True)

    def ready(self) -> bool:
        return True


def start(config: Any) -> Running:
    if BEHAVIOUR == "refuse":
        from precompute.errors import InstallMismatch

        raise InstallMismatch("engine.minibatch.shards is 16 here and was 8 at install")
    return Running()


def start_http(config: Any, roles: frozenset[str]) -> Running:
    """In place of a cluster's wiring: a process without queries says that it has no samples."""
    from asap_project.health import Condition

    own: Any = apps.get_app_config("asap_project")
    own.condition = Condition(lambda: None, lambda: None, CollectorRegistry())
    return start(config)


def run_worker(config: Any) -> int:
    """`refuse-worker` cannot start with the config, `deaf-worker` does not end when it is asked to."""
    if BEHAVIOUR == "refuse-worker":
        return 2
    return wait_for_the_end("worker", config, deaf=BEHAVIOUR == "deaf-worker")


def run_scheduler(config: Any) -> int:
    return wait_for_the_end("scheduler", config)


def wait_for_the_end(role: str, config: Any, deaf: bool = False) -> int:
    from django.conf import settings

    from asap_project.health import Condition, serve_health

    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: None if deaf else told.set())
    health = serve_health(config.cluster, Condition(lambda: None, lambda: str(os.getpid()), CollectorRegistry()))
    told.wait()
    print(f"standin: {role} {config.cluster.worker_name} ended", flush=True)
    if health is not None:
        health.stop()
    return int(settings.ASAP.config is not config)


def ready(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(os.getpid()))


def slow(request: HttpRequest) -> HttpResponse:
    print("standin: slow", flush=True)
    threading.Event().wait(float(request.GET["s"]))
    return HttpResponse("done")


def write(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(len(request.body)))


def crash(request: HttpRequest) -> HttpResponse:
    os._exit(7)


urlpatterns = [
    path("-/ready", ready),
    path("slow", slow),
    path("api/v1/write", write),
    path("api/v1/query", ready),
    path("crash", crash),
]


def main() -> None:
    """`runasap` with the stand-in's wiring and urls."""
    from asap_project import celery_roles, cli, worker

    if BEHAVIOUR == "slow-shutdown":
        worker.DRAIN_S = 1.0  # what follows has more time until the process is ended
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.asap_project.standin_settings"
    wiring = types.ModuleType("asap_project.wiring")
    wiring.start = start  # type: ignore[attr-defined]
    cluster = types.ModuleType("asap_project.cluster_wiring")
    cluster.start_http = start_http  # type: ignore[attr-defined]
    sys.modules["asap_project.cluster_wiring"] = cluster
    celery_roles.run_worker, celery_roles.run_scheduler = run_worker, run_scheduler
    urls = types.ModuleType("asap_project.urls")
    urls.urlpatterns = urlpatterns  # type: ignore[attr-defined]
    sys.modules.update({"asap_project.wiring": wiring, "asap_project.urls": urls})
    sys.argv[0] = "asap"
    cli.main()


if __name__ == "__main__":
    main()
