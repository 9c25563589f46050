"""Parts of dates."""

import calendar
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.precompute.evaluate.functions.asked import rows

FIRST_S, LAST_S = -62_135_596_800, 253_402_300_799
PARTS = ("minute", "hour", "day_of_week", "day_of_month", "day_of_year", "days_in_month", "month", "year")


def parts(value: float) -> list[float | None]:
    return [rows({"x": [value]}, f"{part}(x)", 0)[""][0] for part in PARTS]


def right(second: int) -> list[float | None]:
    t = datetime.fromtimestamp(second, UTC)
    length = calendar.monthrange(t.year, t.month)[1]
    return [t.minute, t.hour, t.isoweekday() % 7, t.day, t.timetuple().tm_yday, length, t.month, t.year]


@given(st.integers(FIRST_S, LAST_S))
def test_any_second_is_what_the_calendar_says(second: int) -> None:
    assert parts(second) == right(second)


@pytest.mark.parametrize("day", ["1900-02-28", "2000-02-29", "2023-12-31", "2024-02-29", "1969-12-31"])
def test_days_around_leap_years(day: str) -> None:
    second = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
    assert parts(second) == right(second)


def test_fractions_are_cut_off_towards_zero() -> None:
    assert parts(59.9) == right(59) and parts(-0.5) == right(0)


def test_what_no_integer_holds_is_the_last_of_them_plus_one() -> None:
    for value in (math.nan, math.inf, -math.inf, 1e300):
        assert parts(value) == [30, 15, 0, 4, 339, 31, 12, 292277026596]


def test_without_an_argument_the_evaluations_time_counts() -> None:
    assert rows({}, "minute()", 0, 90, 3660) == {"": [0, 1, 1]}
    assert rows({}, "year()", 0) == {"": [1970]}
