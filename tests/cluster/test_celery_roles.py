"""Celery's worker and scheduler, started without a flag: shards are shared out, taken over, and given back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.kicked import SHARDS, Kicked, kicked
from tests.running import poll_until

pytestmark = pytest.mark.e2e
ALL = set(range(SHARDS))


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Kicked]:
    with kicked(tmp_path) as running:
        yield running


def test_workers_share_the_shards_and_take_over_from_one_that_dies(whole: Kicked) -> None:
    whole.scheduler()
    whole.worker("a")
    whole.await_ticks("a", ALL)
    b = whole.worker("b")
    poll_until(lambda: sorted(whole.holders()) == ["a", "a", "b", "b"], 30, "b has got its share")
    assert {outcome for name, _, outcome in whole.ticks() if name == "a"} >= {"ticked", "released"}
    b.process.kill()
    b.process.wait()
    whole.await_ticks("a", ALL)


def test_at_sigterm_a_worker_finishes_its_batch_gives_its_shards_back_and_exits_0(whole: Kicked) -> None:
    whole.scheduler()
    a = whole.worker("a", "slow")
    poll_until(lambda: "a" in whole.holders(), 30, "a ticks")
    whole.forget()
    began_s = time.monotonic()
    assert a.stop(30) == 0
    assert time.monotonic() - began_s < 20
    assert whole.holders() == [""] * SHARDS
    assert len(whole.ticks()) in (1, 2), "one may have ended before the signal came"
    assert whole.log.cli("hkeys", "{crew}said") == ""


def test_a_worker_stops_while_its_broker_is_away(whole: Kicked) -> None:
    whole.scheduler()
    a = whole.worker("a")
    whole.await_ticks("a", ALL)
    whole.broker.kill()
    poll_until(lambda: "Cannot connect" in a.log(), 30, "a misses its broker")
    assert a.stop() == 0
    assert whole.holders() == [""] * SHARDS


def test_a_worker_that_cannot_start_says_why_and_exits_2(whole: Kicked) -> None:
    with pytest.raises(AssertionError, match="ended with 2"):
        whole.worker("a", "refused")
    assert "asap: engine.minibatch.shards is 4 here and was 8 at install" in whole.programs[0].log()


def test_final_panes_are_stored_now_and_then(whole: Kicked) -> None:
    whole.scheduler()
    whole.worker("a")
    poll_until(lambda: int(whole.log.cli("llen", "stores")) >= 2, 30, "stored twice")


def test_a_worker_is_called_as_the_config_says_that_it_is_given(whole: Kicked) -> None:
    whole.scheduler()
    neighbour = whole.neighbour("a-1")
    whole.await_ticks("a-1", ALL)
    assert neighbour.stop() == 0


def test_the_scheduler_is_healthy_while_its_broker_takes_messages_and_exits_0_at_sigterm(whole: Kicked) -> None:
    scheduler = whole.scheduler()
    poll_until(lambda: scheduler.is_ready("/-/ready"), 30, "the scheduler is ready")
    poll_until(lambda: b'messages_sent_total{task="place"}' in scheduler.get("/metrics").body, 30, "something is sent")
    assert scheduler.get("/-/healthy").status == 200
    whole.broker.kill()
    poll_until(lambda: scheduler.get("/-/healthy").status == 503, 30, "it says that nothing is taken")
    assert scheduler.stop() == 0
    assert [path.name for path in scheduler.folder.iterdir()] == ["output.log"]
