"""The scheduler's times lie on the windows' grid, and a clock that jumps does not silence it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from celery import Celery

from asap_project.scheduler import Grid, GridScheduler
from precompute.clock import ManualClock

WINDOW_MS, OFFSET_MS = 15_000, 16_500
NOON_MS = 1_800_014_400_000


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def due(now_ms: int, last_ms: int) -> tuple[bool, float]:
    is_due, next_s = Grid(WINDOW_MS, OFFSET_MS, ManualClock(now_ms)).is_due(at(last_ms))
    return is_due, round(next_s, 3)


# width 15, offset 16.5:   :00  1.5        16.5        31.5
#                                x-----------x-----------x
@pytest.mark.parametrize(
    ("now_s", "last_s", "answer"),
    [
        (10, 2, (False, 6.5)),
        (16.5, 2, (True, 15)),
        (20, 2, (True, 11.5)),
        (20, 16.6, (False, 11.5)),
        (100, 2, (True, 6.5)),
    ],
)
def test_due_times_lie_on_the_grid_and_missed_ones_are_not_made_up_for(
    now_s: float, last_s: float, answer: tuple[bool, float]
) -> None:
    assert due(NOON_MS + int(1000 * now_s), NOON_MS + int(1000 * last_s)) == answer


def test_after_a_clock_was_set_back_it_is_due_at_once() -> None:
    now_ms = NOON_MS + 20_000
    assert due(now_ms, now_ms + 3_600_000) == (True, 11.5)


class Sent(GridScheduler):
    """Notes what it would send."""

    def __init__(self, clock: ManualClock, **given: Any) -> None:
        self.sent: list[int] = []
        self.clock = clock
        super().__init__(**given)

    @property
    def producer(self) -> None:
        return None

    def apply_async(self, entry: Any, producer: Any = None, advance: bool = True, **given: Any) -> None:
        self.sent.append(self.clock.now_ms())


def test_the_scheduler_goes_on_although_its_clock_was_set_back() -> None:
    clock = ManualClock(NOON_MS)
    app = Celery("of_a_test", set_as_current=False)
    app.conf.beat_schedule = {"place": {"task": "place", "schedule": Grid(WINDOW_MS, OFFSET_MS, clock)}}
    scheduler = Sent(clock, app=app)

    def pass_seconds(count: int) -> None:
        for _ in range(count):
            clock.advance(1000)
            scheduler.tick()

    pass_seconds(60)
    assert len(scheduler.sent) == 4
    clock.advance(-3_600_000)
    pass_seconds(60)
    assert len(scheduler.sent) == 4 + 1 + 4
