"""Parts of dates, in UTC, of values that are seconds since the epoch; of the evaluation's time without an argument."""

from collections.abc import Callable, Mapping

import numpy as np

from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import Call
from precompute.evaluate.functions.arguments import vector
from precompute.evaluate.functions.results import one_row
from precompute.evaluate.names import drop_names
from precompute.evaluate.values import Value
from precompute.samples import F64, I64

_DAY_S = 86_400
_BEYOND_S = 1 << 63
"""What NaN and all that no int64 can hold count as: Go's conversion on amd64, seen as a date."""


def _part(of: Callable[[I64, I64], I64]) -> Rule:
    """The rule of one part, given days since the epoch and the second of the day, int64 of any shape."""

    def rule(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
        if not node.args:
            return one_row(of(*_days(at.times / 1000)).astype(np.float64))
        argument = vector(node.args[0], at, evaluate)
        return drop_names(argument.with_values(of(*_days(argument.values)).astype(np.float64)), at)

    return rule


def _days(seconds: F64) -> tuple[I64, I64]:
    """Days since the epoch and seconds of the day; fractions of a second are cut off towards zero."""
    held = np.abs(seconds) < _BEYOND_S
    whole = np.where(held, np.trunc(seconds), 0).astype(np.int64)
    days, second = np.divmod(whole, _DAY_S)
    return np.where(held, days, _BEYOND_S // _DAY_S), np.where(held, second, _BEYOND_S % _DAY_S)


def _months(days: I64) -> I64:
    """Months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _first_day(months: I64) -> I64:
    """The day a month begins with."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _days_in_month(days: I64, _: I64) -> I64:
    months = _months(days)
    return _first_day(months + 1) - _first_day(months)


RULES: Mapping[str, Rule] = {
    "minute": _part(lambda _, second: second // 60 % 60),
    "hour": _part(lambda _, second: second // 3600),
    "day_of_week": _part(lambda days, _: (days + 4) % 7),
    "day_of_month": _part(lambda days, _: days - _first_day(_months(days)) + 1),
    "day_of_year": _part(lambda days, _: days - _first_day(_months(days) // 12 * 12) + 1),
    "days_in_month": _part(_days_in_month),
    "month": _part(lambda days, _: _months(days) % 12 + 1),
    "year": _part(lambda days, _: _months(days) // 12 + 1970),
}
