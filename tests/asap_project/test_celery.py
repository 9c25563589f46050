"""Tasks of a single node run where they are called, in whatever thread that is."""

import logging
import threading

import pytest
from celery import shared_task

ran_in: list[str] = []


@shared_task  # type: ignore[untyped-decorator]
def note_thread() -> None:
    ran_in.append(threading.current_thread().name)


def test_a_task_runs_in_the_thread_that_calls_it_and_asks_no_broker(caplog: pytest.LogCaptureFixture) -> None:
    calling = threading.Thread(target=note_thread.delay, name="ticker")
    with caplog.at_level(logging.WARNING):
        calling.start()
        calling.join()
    assert ran_in == ["ticker"]
    assert caplog.records == []


def test_the_app_is_found_where_celery_looks() -> None:
    import asap_project

    assert asap_project.celery_app.main == "asap_project"
    assert note_thread.app is asap_project.celery_app
