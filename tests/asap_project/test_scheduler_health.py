"""How the scheduler says that it sends."""

import re
import sys
from pathlib import Path

import pytest
from celery.signals import after_task_publish
from prometheus_client import CollectorRegistry

from asap_project.scheduler_health import SILENT_WINDOWS, Sent
from precompute.clock import ManualClock
from tests.running import ROOT, free_port, poll_until, program
from tests.servers import postgresql_server, redis_server


def test_it_is_healthy_while_it_sends() -> None:
    clock = ManualClock(1_000_000)
    sent = Sent(15_000, clock)
    clock.advance(SILENT_WINDOWS * 15_000)
    assert sent.why_silent() is None, "the start counts"
    clock.advance(1_000)
    assert sent.why_silent() == "nothing was sent for 61 s"
    sent.note()
    assert sent.why_silent() is None


def test_what_is_published_is_counted() -> None:
    clock, registry = ManualClock(1_000_000), CollectorRegistry()
    sent = Sent(15_000, clock)
    registry.register(sent)
    after_task_publish.connect(sent.note)
    after_task_publish.send(sender="precompute.tasks.place", headers={}, body=(), exchange="", routing_key="asap")
    after_task_publish.disconnect(sent.note)
    assert registry.get_sample_value("asap_scheduler_sent_total") == 1
    assert registry.get_sample_value("asap_scheduler_last_sent_seconds") == 1000


@pytest.mark.e2e
@pytest.mark.parametrize("words", [["manage.py", "runasap", "--component", "scheduler"], ["celery", "beat"]])
def test_a_scheduler_answers_however_it_was_started(tmp_path: Path, words: list[str]) -> None:
    port = free_port()
    with redis_server() as broker, postgresql_server() as database:
        env = {
            "PYTHONPATH": str(ROOT), "ASAP_MODE": "cluster", "ASAP_REDIS_LOG_URLS": '["redis://127.0.0.1:1/0"]',
            "ASAP_REDIS_BROKER_URL": broker.url, "ASAP_DATABASE_URL": database.url(),
            "ASAP_CLUSTER_HEALTH_PORT": str(port), "ASAP_ENGINE_MINIBATCH_WINDOW_SIZE": "1s",
        }  # fmt: skip
        program_of = {"manage.py": [str(ROOT / "manage.py")], "celery": ["-m", "celery", "-A", "asap_project"]}
        command = [sys.executable, *program_of[words[0]], *words[1:]]
        with program(command, f"http://127.0.0.1:{port}", tmp_path, env=env) as scheduler:
            counted = re.compile(rb"asap_scheduler_sent_total [1-9]")
            poll_until(lambda: counted.search(scheduler.get("/metrics").body), 20, "a task is sent")
            assert scheduler.get("/-/healthy").status == 200
            assert scheduler.stop(10) == 0
