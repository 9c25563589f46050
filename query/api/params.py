"""Parameters of a request, read as Prometheus' API reads them (web/api/v1)."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from precompute.errors import BadExpression
from precompute.evaluate.expr import Expr, Matcher
from query.errors import BadParameter
from query.promql.parse import SELECTS_ALL, parse, parse_selector
from query.series import ALWAYS

_LATEST_S = 1 << 43
"""Times beyond are refused: with them no sum of times and ranges leaves int64."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_NO_MATCHER = "match[] must contain at least one non-empty matcher"
_MOST_RANKED = 10_000
_MOST_SELECTORS = 1000
_SWITCH = frozenset(("1", "t", "true", "0", "f", "false"))
_LONGEST_S = ((1 << 63) - 1) / 1e9
_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
_UNITS_MS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1000, 1)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_FOREVER = {"-292273086-05-16T16:47:06Z": ALWAYS[0], "292277025-08-18T07:12:54.999999999Z": ALWAYS[1]}
"""What Prometheus' clients write for "since ever" and "for ever"."""


class Form:
    """The parameters of one request: a form's values before those of the URL, as in Go's ParseForm."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def get(self, name: str) -> str:
        """The first value, "" without one."""
        return next(iter(self._values.get(name, ())), "")

    def all(self, name: str) -> Sequence[str]:
        return self._values.get(name, ())

    def as_sent(self) -> Mapping[str, Sequence[str]]:
        return self._values


@dataclass(frozen=True)
class InstantParams:
    """lookback_ms: None for that of the config. stats: what it asks of how the answer was made; "": nothing."""

    query: str
    time_ms: int | None
    timeout_ms: int | None
    limit: int
    lookback_ms: int | None = None
    stats: str = ""


@dataclass(frozen=True)
class RangeParams:
    """lookback_ms and stats as of an instant query."""

    query: str
    start_ms: int
    end_ms: int
    step_ms: int
    timeout_ms: int | None
    limit: int
    lookback_ms: int | None = None
    stats: str = ""
    nocache: bool = False
    """Whether every step is to be evaluated anew."""


@dataclass(frozen=True)
class CatalogueParams:
    """Of labels, label values and series. limit 0: none."""

    matchers: tuple[tuple[Matcher, ...], ...]
    start_ms: int
    end_ms: int
    limit: int


def instant_params(form: Form) -> InstantParams:
    """Of /query. Raises BadParameter."""
    limit = limit_of(form)
    time = form.get("time")
    time_ms = _optional_time(form, "time", 0) if time else None
    timeout_ms = _timeout_ms(form)
    return InstantParams(form.get("query"), time_ms, timeout_ms, limit, _lookback_ms(form), form.get("stats"))


def range_params(form: Form, max_points: int) -> RangeParams:
    """Of /query_range; at most `max_points` steps after the first. Raises BadParameter."""
    limit = limit_of(form)
    start_ms, end_ms = (_named(name, time_ms, form.get(name)) for name in ("start", "end"))
    if end_ms < start_ms:
        raise BadParameter("end", "end timestamp must not be before start time")
    step_ms = _named("step", duration_ms, form.get("step"))
    if step_ms <= 0:
        raise BadParameter(
            "step", "zero or negative query resolution step widths are not accepted. Try a positive integer"
        )
    if (end_ms - start_ms) // step_ms > max_points:
        raise BadParameter(
            "",
            f"exceeded maximum resolution of {max_points:,} points per timeseries. "
            "Try decreasing the query resolution (?step=XX)",
        )
    timeout_ms = _timeout_ms(form)
    return RangeParams(
        form.get("query"), start_ms, end_ms, step_ms, timeout_ms, limit, _lookback_ms(form), form.get("stats"),
        _flag(form, "nocache"),
    )  # fmt: skip


def catalogue_params(form: Form, needs_matchers: bool = False) -> CatalogueParams:
    """Of the label endpoints and of series, which needs matchers. Raises BadParameter."""
    if needs_matchers and not form.all("match[]"):
        raise BadParameter("", "no match[] parameter provided")
    limit = limit_of(form)
    start_ms = _optional_time(form, "start", ALWAYS[0])
    end_ms = _optional_time(form, "end", ALWAYS[1])
    return CatalogueParams(matchers_of(form, "match[]" if needs_matchers else ""), start_ms, end_ms, limit)


def check_exemplars(form: Form) -> Expr:
    """Of /query_exemplars: the query. Raises BadParameter."""
    start_ms, end_ms = _optional_time(form, "start", ALWAYS[0]), _optional_time(form, "end", ALWAYS[1])
    if end_ms < start_ms:
        raise BadParameter("", "end timestamp must not be before start timestamp")
    return parse(form.get("query"))


def check_rules(form: Form) -> None:
    """Of /rules. Raises BadParameter, as a server with rules does."""
    matchers_of(form)
    if (kind := form.get("type").lower()) not in ("", "alert", "record"):
        raise BadParameter("type", f'not supported value "{kind}"')
    if (switch := form.get("exclude_alerts").lower()) not in ("", *_SWITCH):
        reason = f'error converting exclude_alerts: strconv.ParseBool: parsing "{switch}": invalid syntax'
        raise BadParameter("exclude_alerts", reason)
    limit = form.get("group_limit")
    if form.get("group_next_token") and not limit:
        reason = "group_limit needs to be present in order to paginate over the groups"
        raise BadParameter("group_next_token", reason)
    if limit and not _INTEGER.fullmatch(limit):
        reason = f'group_limit needs to be a valid number: strconv.ParseInt: parsing "{limit}": invalid syntax'
        raise BadParameter("group_limit", reason)
    if limit and int(limit) <= 0:
        raise BadParameter("group_limit", "group_limit needs to be greater than 0")


def matchers_of(form: Form, name: str = "") -> tuple[tuple[Matcher, ...], ...]:
    """The selectors of `match[]`, each once. Raises BadParameter, which names the parameter `name`."""
    texts = dict.fromkeys(form.all("match[]"))
    if len(texts) > _MOST_SELECTORS:
        raise BadParameter(name, f"{len(texts)} different match[] are given; the limit is {_MOST_SELECTORS}")
    try:
        return tuple(dict.fromkeys(map(parse_selector, texts)))
    except BadExpression as error:
        text = str(error)
        raise BadParameter(name, _NO_MATCHER if text == SELECTS_ALL else text) from error


def limit_of(form: Form) -> int:
    """The most that is listed; 0 is no limit."""
    text = form.get("limit")
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        raise BadParameter("limit", f'strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise BadParameter("limit", "limit must be non-negative")
    return int(text)


def count_of(form: Form, name: str) -> int | None:
    """A limit of the metadata, whose rules are its own: None without one, or with a negative one."""
    text = form.get(name)
    if text and not _INTEGER.fullmatch(text):
        raise BadParameter("", f"{name} must be a number")
    return int(text) if text and int(text) >= 0 else None


def most_of(form: Form) -> int:
    """Of /status/tsdb: how many of each kind."""
    text = form.get("limit") or "10"
    if not _INTEGER.fullmatch(text) or int(text) < 1:
        raise BadParameter("", "limit must be a positive number")
    if int(text) > _MOST_RANKED:
        raise BadParameter("", f"limit must not exceed {_MOST_RANKED}")
    return int(text)


def time_ms(text: str) -> int:
    """Float seconds, rounded to the millisecond, or RFC 3339. Raises ValueError with Prometheus' text."""
    seconds = _float(text)
    if seconds is not None and abs(seconds) < _LATEST_S:
        whole = math.trunc(seconds)
        return whole * 1000 + _rounded((seconds - whole) * 1000)
    parts = _RFC3339.fullmatch(text)
    moment_ms = _moment_ms(parts) if parts else None
    if moment_ms is None:
        raise ValueError(f'cannot parse "{text}" to a valid timestamp')
    return moment_ms


def duration_ms(text: str) -> int:
    """Float seconds or a duration such as 1h30m; below a millisecond is cut off. Raises ValueError as `time_ms`."""
    seconds = _float(text)
    if seconds is not None and not math.isnan(seconds):
        if abs(seconds) > _LONGEST_S:
            raise ValueError(f'cannot parse "{text}" to a valid duration. It overflows int64')
        # nanoseconds first, as Prometheus: 0.29 s are 290 ms, though 0.29 * 1000 is less
        return int(seconds * 1e9) // 1_000_000 if seconds >= 0 else -1
    parts = _DURATION.fullmatch(text)
    if text == "0" or (text and parts):
        ms = sum(int(count or 0) * unit for count, unit in zip(parts.groups(), _UNITS_MS, strict=True)) if parts else 0
        if ms <= _LONGEST_S * 1000:
            return ms
    raise ValueError(f'cannot parse "{text}" to a valid duration')


def _float(text: str) -> float | None:
    if "_" in text or text != text.strip() or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _rounded(value: float) -> int:
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _moment_ms(parts: re.Match[str]) -> int | None:
    year, month, day, hour, minute, second = (int(parts[k]) for k in range(1, 7))
    away = timedelta(hours=int(parts[9] or 0), minutes=int(parts[10] or 0))
    try:
        zone = timezone(-away if parts[8] == "-" else away)
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError:
        return None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1) + int((parts[7] or "").ljust(3, "0")[:3])


def _named(name: str, read: Callable[[str], int], text: str) -> int:
    try:
        return read(text)
    except ValueError as error:
        raise BadParameter(name, str(error)) from error


def _optional_time(form: Form, name: str, default_ms: int) -> int:
    text = form.get(name)
    if not text:
        return default_ms
    if text in _FOREVER:
        return _FOREVER[text]
    try:
        return time_ms(text)
    except ValueError as error:
        raise BadParameter(name, f"invalid time value for '{name}': {error}") from error


def _timeout_ms(form: Form) -> int | None:
    text = form.get("timeout")
    return max(1, _named("timeout", duration_ms, text)) if text else None


def _flag(form: Form, name: str) -> bool:
    """As VictoriaMetrics reads its own `nocache`: whatever does not say no (lib/httputil)."""
    return form.get(name).lower() not in ("", "0", "f", "false", "no")


def _lookback_ms(form: Form) -> int | None:
    text = form.get("lookback_delta")
    try:
        ms = duration_ms(text) if text else 0
    except ValueError as error:
        raise BadParameter("", f"error parsing lookback delta duration: {error}") from error
    # as in Prometheus, where nothing or less means the one of the config
    return ms if ms > 0 else None
