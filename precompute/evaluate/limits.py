"""What one query may use: samples, memory and time, checked before and while it runs."""

from dataclasses import dataclass

from precompute.clock import Clock
from precompute.errors import LimitExceeded, TimedOut

_CELL_BYTES = 9
_TEXT_BYTES = 150
"""A Python string, its bytes in a symbol table and the table's columns, beside the characters."""


@dataclass(frozen=True)
class Limits:
    """Bounds of every query.

    max_samples         values read of selectors, all of them together
    max_matrix_bytes    one matrix of series × steps; an evaluation has a few of them at a time
    """

    max_samples: int = 50_000_000
    max_matrix_bytes: int = 512 << 20


class Budget:
    """One query's share of the limits."""

    def __init__(self, limits: Limits, clock: Clock, timeout_ms: int, of_work: bool = False) -> None:
        """of_work: the time counts only as far as the process computes. For what is kept: that it was stopped or had
        no core for a while must not decide what summaries hold."""
        self._limits, self._clock, self._of_work = limits, clock, of_work
        self._timeout_s = timeout_ms / 1000
        self._began_s, self._began_cpu_s = clock.monotonic_s(), clock.cpu_s()
        self.samples_read, self.panes_read, self.groups_merged = 0, 0, 0
        self._text_bytes = 0

    def cells(self, rows: int, steps: int) -> None:
        """Before a matrix of rows × steps is allocated. Raises LimitExceeded."""
        self.check_time()
        if rows * steps * _CELL_BYTES > self._limits.max_matrix_bytes:
            raise LimitExceeded(
                f"query would build a matrix of {rows} series × {steps} steps, more than "
                f"{self._limits.max_matrix_bytes} bytes; narrow the selector or take a larger step"
            )

    def text(self, length: int) -> None:
        """Before a label's text of `length` characters is made. Raises LimitExceeded."""
        self.check_time()
        self._text_bytes += _TEXT_BYTES + length
        if self._text_bytes > self._limits.max_matrix_bytes:
            raise LimitExceeded(f"query would make label values of more than {self._limits.max_matrix_bytes} bytes")

    def samples(self, count: int) -> None:
        """After `count` samples were loaded. Raises LimitExceeded with Prometheus' text."""
        self.samples_read += count
        if self.samples_read > self._limits.max_samples:
            raise LimitExceeded("query processing would load too many samples into memory in query execution")

    def merged(self, panes: int, groups: int) -> None:
        """After groups of so many panes, all together, were read from summaries and merged."""
        self.panes_read += panes
        self.groups_merged += groups

    def check_time(self) -> None:
        """Raises TimedOut once the deadline has passed."""
        if self._left_s() < 0:
            raise TimedOut(f"query timed out in query execution after {self._timeout_s:g}s")

    def left_ms(self) -> int:
        """Milliseconds until the deadline, at least 0."""
        return max(0, int(self._left_s() * 1000))

    def _left_s(self) -> float:
        past_s = self._clock.monotonic_s() - self._began_s
        if self._of_work:
            past_s = min(past_s, self._clock.cpu_s() - self._began_cpu_s)
        return self._timeout_s - past_s
