"""Pace and the demo source."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.base import Pace
from ingest.sources.demo import METRIC, PATTERNS, DemoSource, series_labels
from ingest.writer import Outcome, SeriesColumns
from precompute.clock import ManualClock
from precompute.labels import canonical_bytes

T = 1_764_500_000_000


@given(st.integers(0, 10**13), st.integers(1, 100_000), st.integers(0, 2**32))
def test_due_times_lie_on_the_shifted_grid_and_come_next(now_ms: int, interval_ms: int, offset_ms: int) -> None:
    due_ms = Pace(interval_ms, offset_ms, ManualClock()).next_due_ms(now_ms)
    assert now_ms < due_ms <= now_ms + interval_ms
    assert (due_ms - offset_ms) % interval_ms == 0


def beats(clock: ManualClock, moves_ms: list[int]) -> list[int]:
    """Due times of a Pace of 10 ms, offset 3, while each beat moves the clock."""
    stopped, seen = threading.Event(), []
    for due_ms in Pace(10, 3, clock).beats(stopped):
        seen.append(due_ms)
        if len(seen) > len(moves_ms):
            stopped.set()
        else:
            clock.advance(moves_ms[len(seen) - 1])
    return seen


def test_a_missed_time_is_not_made_up_for() -> None:
    assert beats(ManualClock(3), [22, 10]) == [13, 33, 43]


def test_a_clock_that_is_set_back_does_not_make_a_time_come_twice() -> None:
    assert beats(ManualClock(13), [-5, 20]) == [23, 33, 43]


def test_a_pace_that_is_stopped_before_it_begins_has_no_beat() -> None:
    stopped = threading.Event()
    stopped.set()
    assert list(Pace(10, 0, ManualClock()).beats(stopped)) == []


class Sink:
    """Collects what a source writes, and stops it after the first write."""

    def __init__(self, source: DemoSource) -> None:
        self._source = source
        self.columns: list[SeriesColumns] = []

    def __call__(self, columns: SeriesColumns) -> Outcome:
        self.columns.append(columns)
        self._source.stop()
        return Outcome(len(columns.t_ms), 0, {}, "")


def demo(seed: int = 0) -> DemoSource:
    return DemoSource(ManualClock(T - 1), interval_ms=5, cardinality=2, seed=seed)


def test_the_demo_writes_a_sample_of_each_series() -> None:
    source = demo()
    sink = Sink(source)
    source.run(sink)
    (columns,) = sink.columns
    assert len(columns.label_start) == len(PATTERNS) * 2**3
    assert set(columns.t_ms.tolist()) == {T}
    assert columns.value.tolist() == source.values(T).tolist()
    assert bytes(columns.buf) == b"".join(map(canonical_bytes, series_labels(2)))


def test_the_demos_labels_are_those_of_sensor_reading_and_all_differ() -> None:
    labels = series_labels(3)
    assert len(set(labels)) == len(labels) == len(PATTERNS) * 27
    names = ["__name__", "host", "instance", "job", "pattern", "region", "service"]
    assert all([name for name, _ in one] == names and one[0][1] == METRIC for one in labels)


def test_the_demo_is_a_pure_function_of_seed_and_time() -> None:
    assert demo().values(T).tolist() == demo().values(T).tolist()
    assert demo().values(T).tolist() != demo(seed=1).values(T).tolist()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_has_its_shape(pattern: str) -> None:
    source = demo()
    first = PATTERNS.index(pattern) * 8
    values = np.array([source.values(T + k * 1000)[first] for k in range(600)])
    ups, downs = (np.diff(values) > 0).mean(), (np.diff(values) < 0).mean()
    assert np.isfinite(values).all()
    assert {
        "constant": ups == downs == 0,
        "linear-up": ups > 0.99 and np.ptp(np.diff(values)[np.diff(values) > 0]) < 1e-6,
        "linear-down": downs > 0.99,
        "sine": 0.45 < ups < 0.55 and 0.45 < downs < 0.55,
        "sine-noise": 0.4 < ups < 0.6 and np.abs(np.diff(values)).max() > 20,
        "step": len(np.unique(values)) == 5,
        "spiky": 0.001 < (values > values.mean()).mean() < 0.1,
        "exp-up": ups > 0.99 and values.max() > 3 * np.median(values),
    }[pattern]
