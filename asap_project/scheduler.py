"""Celery's beat on the windows' grid, without a memory."""

from datetime import UTC, datetime, timedelta
from typing import Any

from celery.beat import Scheduler
from celery.schedules import BaseSchedule, schedstate

from ingest.sources.base import Pace
from precompute.clock import Clock, SystemClock


class Grid(BaseSchedule):
    """Due at `offset + k * interval` since the epoch; a time that was missed is not made up for."""

    def __init__(self, interval_ms: int, offset_ms: int, clock: Clock | None = None) -> None:
        super().__init__(nowfun=self._now)
        self.interval_ms, self.offset_ms, self._clock = interval_ms, offset_ms, clock or SystemClock()
        self._pace = Pace(interval_ms, offset_ms, self._clock)

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Whether a due time has passed since then, and the seconds until the next.

        A last run that lies ahead says that the clock was set back; then it is due, whatever the grid.
        """
        now_ms, last_ms = self._clock.now_ms(), int(last_run_at.timestamp() * 1000)
        is_due = last_ms > now_ms or self._pace.next_due_ms(last_ms) <= now_ms
        return schedstate(is_due, (self._pace.next_due_ms(now_ms) - now_ms) / 1000)

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        is_due, next_s = self.is_due(last_run_at)
        return timedelta(seconds=0 if is_due else next_s)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and (self.interval_ms, self.offset_ms) == (other.interval_ms, other.offset_ms)

    __hash__ = None  # type: ignore[assignment]


class GridScheduler(Scheduler):
    """Celery's, which works out at each pass what comes next.

    Its own heap keeps times of day: after the clock was set back by an hour it would wait for an hour.
    """

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send one task that is due; the seconds until the next pass."""
        self._heap = None
        seconds: float = super().tick(*args, **kwargs)
        return seconds
