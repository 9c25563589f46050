"""Time comes in from here and from nowhere else."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the core reads time; tests hand in one that they move themselves."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch, UTC."""

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start, for deadlines and durations."""

    def cpu_s(self) -> float:
        """Seconds that the process's threads have computed, all together."""

    def boot_ms(self) -> int:
        """Milliseconds since boot, suspended time included; checks the wall clock."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def cpu_s(self) -> float:
        return time.process_time()

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved; every reading agrees with the others."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms, self._idle_ms = now_ms, 0

    def advance(self, ms: int, idle: bool = False) -> None:
        """idle: nothing is computed meanwhile, as by a process that is stopped."""
        self._now_ms += ms
        self._idle_ms += ms * idle

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def cpu_s(self) -> float:
        return (self._now_ms - self._idle_ms) / 1000

    def boot_ms(self) -> int:
        return self._now_ms
