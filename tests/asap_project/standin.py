"""A core of a few lines under the real supervisor: settings, urls and wiring for tests of starting and stopping.

Run as a program it serves what `runasap` serves, with this in place of the core. It prints what it is asked to do;
STANDIN in the environment chooses how it behaves.
"""

import os
import sys
import threading
import types
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path

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


urlpatterns = [path("-/ready", ready), path("slow", slow), path("api/v1/write", write), path("crash", crash)]


def main() -> None:
    """`runasap` with the stand-in's wiring and urls."""
    from asap_project import cli

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.asap_project.standin_settings"
    wiring = types.ModuleType("asap_project.wiring")
    wiring.start = start  # type: ignore[attr-defined]
    urls = types.ModuleType("asap_project.urls")
    urls.urlpatterns = urlpatterns  # type: ignore[attr-defined]
    sys.modules.update({"asap_project.wiring": wiring, "asap_project.urls": urls})
    sys.argv[0] = "asap"
    cli.main()


if __name__ == "__main__":
    main()
