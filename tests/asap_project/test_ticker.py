"""When the timer of a single node ticks: each on its grid, and when asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from django.apps import apps

from asap_project.ticker import Ticker
from precompute.clock import SystemClock
from precompute.intake import Intake

FAR_MS = 36_000_000
"""A pane width whose next end no test waits for."""
PATIENCE_S = 60


class Ticked:
    """An engine that counts its ticks, and an intake that takes their heartbeats; `hold` keeps a tick running."""

    def __init__(self) -> None:
        self.begun, self.hold = threading.Semaphore(0), threading.Event()
        self.hold.set()
        self.failing = False

    def run(self, sink: Any) -> None:
        self.begun.release()
        assert self.hold.wait(PATIENCE_S)

    def heartbeat(self) -> None:
        if self.failing:
            raise RuntimeError("planted")

    def another(self) -> bool:
        """Waits for one more tick to begin."""
        return self.begun.acquire(timeout=PATIENCE_S)


@contextmanager
def ticking(ticked: Ticked, width_ms: int) -> Iterator[Ticker]:
    ticker = Ticker(cast(Intake, ticked), width_ms, 0, SystemClock())
    ticker.start()
    try:
        yield ticker
    finally:
        ticked.hold.set()
        ticker.stop()


@pytest.fixture
def ticked(monkeypatch: pytest.MonkeyPatch) -> Ticked:
    made = Ticked()
    monkeypatch.setattr(apps.get_app_config("precompute"), "engine", made)
    return made


def test_it_ticks_at_the_start_and_then_on_the_grid(ticked: Ticked) -> None:
    with ticking(ticked, 10):
        assert all(ticked.another() for _ in range(5))


def test_a_tick_that_is_asked_for_does_not_wait_for_the_grid(ticked: Ticked) -> None:
    with ticking(ticked, FAR_MS) as ticker:
        assert ticked.another()
        for _ in range(3):
            ticker.kick()
            assert ticked.another()


def test_one_that_is_asked_for_during_a_tick_comes_after_it(ticked: Ticked) -> None:
    ticked.hold.clear()
    with ticking(ticked, FAR_MS) as ticker:
        assert ticked.another()
        ticker.kick()
        ticker.kick()
        assert not ticked.begun.acquire(blocking=False)
        ticked.hold.set()
        assert ticked.another()


def test_a_failure_is_followed_by_the_next_tick(ticked: Ticked, caplog: pytest.LogCaptureFixture) -> None:
    ticked.failing = True
    with ticking(ticked, 10):
        assert all(ticked.another() for _ in range(3))
    assert "the heartbeat failed; it is tried again" in caplog.text


def test_no_tick_begins_after_a_stop(ticked: Ticked) -> None:
    with ticking(ticked, FAR_MS) as ticker:
        assert ticked.another()
    ticker.kick()
    assert not ticked.begun.acquire(blocking=False)
