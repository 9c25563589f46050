"""What goes wrong with Celery over Redis elsewhere costs a tick here at most."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from asap_project.celery_settings import celery_settings
from asap_project.config import Config
from precompute.tasks import queue_of
from tests.cluster.kicked import SHARDS, WINDOW_S, Kicked, kicked, paused
from tests.running import poll_until
from tests.servers import RedisServer

pytestmark = pytest.mark.e2e
ALL = set(range(SHARDS))


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Kicked]:
    with kicked(tmp_path) as running:
        yield running


def app_on(broker: RedisServer) -> Celery:
    """A Celery app of our settings that is not this process' own."""
    base = Config()
    redis = base.redis.model_copy(update={"broker_url": broker.url})
    settings = celery_settings(base.model_copy(update={"mode": "cluster", "redis": redis}))
    app = Celery("of_a_test", set_as_current=False, fixups=[])
    app.conf.update({name.removeprefix("CELERY_").lower(): value for name, value in settings.items()})
    return app


def test_what_a_killed_worker_had_fetched_is_lost_and_costs_a_tick(whole: Kicked) -> None:
    whole.scheduler()
    a = whole.worker("a", "slow")
    poll_until(lambda: whole.ticks(), 30, "a ticks while messages wait beside it")
    a.process.kill()
    a.process.wait()
    assert "unacked" not in whole.broker.cli("keys", "*")
    whole.worker("b")
    whole.await_ticks("b", ALL)


def test_two_schedulers_do_no_more_than_one(whole: Kicked) -> None:
    schedulers = [whole.scheduler(name) for name in ("one", "other")]
    whole.worker("a")
    whole.await_ticks("a", ALL)
    began_s = time.monotonic()
    whole.forget()
    poll_until(lambda: len(whole.ticks()) == SHARDS and min(whole.ticks().values()) >= 5, 30, "five rounds")
    most = max(whole.ticks().values())
    rounds = (time.monotonic() - began_s) / WINDOW_S
    assert most <= rounds + 2
    assert all(scheduler.process.poll() is None for scheduler in schedulers)


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_a_worker_hears_kicks_again_after_its_broker_was_away(whole: Kicked, how: str) -> None:
    whole.scheduler()
    a = whole.worker("a")
    whole.await_ticks("a", ALL)
    if how == "killed":
        whole.broker.kill()
        whole.await_ticks("a", ALL)
        whole.broker.start()
    else:
        with paused(whole.broker):
            whole.await_ticks("a", ALL)
    whole.forget()
    whole.worker("b")
    poll_until(lambda: whole.by("a", "released"), 40, "a is told to give shards to b, which only a message says")
    poll_until(lambda: sorted(whole.holders()) == ["a", "a", "b", "b"], 40, "b has got its share")
    assert a.process.poll() is None


def test_workers_tick_what_they_hold_and_store_while_no_scheduler_lives(whole: Kicked) -> None:
    scheduler = whole.scheduler()
    a = whole.worker("a")
    whole.await_ticks("a", ALL)
    scheduler.process.kill()
    for _ in range(3):
        whole.await_ticks("a", ALL)
    whole.log.cli("del", "stores")
    poll_until(lambda: whole.log.cli("llen", "stores") != "0", 30, "a stores")
    assert a.process.poll() is None


def test_a_worker_that_is_connected_and_consumes_nothing_ends(whole: Kicked) -> None:
    a = whole.worker("a", "deaf")
    assert a.process.wait(30) == 1
    assert "4 messages for this worker were taken, and none has come; this worker ends" in a.log()


def test_a_tick_that_never_ends_does_not_keep_a_worker_from_ending(whole: Kicked) -> None:
    whole.scheduler()
    a = whole.worker("a", "stuck")
    poll_until(lambda: "a" in whole.holders(), 30, "the tick runs")
    began_s = time.monotonic()
    assert a.stop(30) == 1
    assert time.monotonic() - began_s < 20


def test_messages_for_a_worker_that_does_not_come_back_do_not_stay(whole: Kicked) -> None:
    app_on(whole.broker).send_task("precompute.tasks.knock", queue=queue_of("gone"))
    assert 0 < int(whole.broker.cli("pttl", "w.gone")) <= 600_000
    assert whole.broker.cli("keys", "*") == "w.gone"


def test_no_message_expires_by_anybodys_clock(whole: Kicked) -> None:
    whole.scheduler()
    poll_until(lambda: int(whole.broker.cli("llen", "asap")) > 5, 30, "messages wait")
    waiting = [json.loads(line)["headers"] for line in whole.broker.cli("lrange", "asap", "0", "-1").splitlines()]
    assert {headers["task"] for headers in waiting} == {"precompute.tasks.place", "precompute.tasks.store"}
    assert {headers["expires"] for headers in waiting} == {None}


def test_a_call_to_the_broker_waits_for_seconds_and_is_not_repeated_in_silence(redis: RedisServer) -> None:
    with app_on(redis).connection_for_write() as connection:
        client = connection.default_channel.client
        made = client.connection_pool.connection_kwargs
        assert (made["socket_timeout"], made["socket_connect_timeout"], made["retry_on_timeout"]) == (5, 2, False)
        assert client.connection_pool.get_connection().retry.get_retries() == 0


def test_a_message_to_a_broker_that_does_not_answer_is_given_up(whole: Kicked) -> None:
    app = app_on(whole.broker)
    app.send_task("any")
    began_s = time.monotonic()
    with paused(whole.broker), pytest.raises(OperationalError):
        app.send_task("any", retry=False)
    assert time.monotonic() - began_s < 30
