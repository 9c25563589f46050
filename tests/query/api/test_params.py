"""Parameters are read as Prometheus reads them, and refused with its words."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.evaluate.expr import Matcher
from precompute.labels import METRIC_NAME
from query.api.params import (
    Form,
    catalogue_params,
    check_rules,
    count_of,
    duration_ms,
    instant_params,
    limit_of,
    most_of,
    range_params,
    time_ms,
)
from query.errors import BadParameter
from query.series import ALWAYS

RANGE = {"query": "up", "start": "0", "end": "60", "step": "15"}


def form(**values: str | list[str]) -> Form:
    return Form({name: [text] if isinstance(text, str) else text for name, text in values.items()})


def test_it_works() -> None:
    asked = range_params(form(**{**RANGE, "timeout": "30s", "limit": "5"}), 11_000)
    assert (asked.query, asked.start_ms, asked.end_ms, asked.step_ms) == ("up", 0, 60_000, 15_000)
    assert (asked.timeout_ms, asked.limit) == (30_000, 5)
    assert not asked.nocache


@pytest.mark.parametrize(("text", "meant"), [("1", True), ("true", True), ("0", False), ("False", False), ("", False)])
def test_nocache_is_whatever_does_not_say_no(text: str, meant: bool) -> None:
    assert range_params(form(**{**RANGE, "nocache": text}), 11_000).nocache == meant


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1435781430.781", 1_435_781_430_781),
        ("1435781430.7814", 1_435_781_430_781),
        ("1435781430.7816", 1_435_781_430_782),
        ("-1.5", -1_500),
        ("1e9", 1_000_000_000_000),
        ("2015-07-01T20:10:30.781Z", 1_435_781_430_781),
        ("2015-07-01T20:10:51Z", 1_435_781_451_000),
        ("2015-07-01T22:10:51+02:00", 1_435_781_451_000),
        ("2015-07-01T20:10:51.123456789-00:30", 1_435_783_251_123),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_a_time_is_float_seconds_or_rfc_3339(text: str, ms: int) -> None:
    assert time_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "NaN",
        "Inf",
        "-inf",
        "1e300",
        "1_000",
        " 1",
        "2015-07-01",
        "2015-07-01 20:10:51",
        "2015-13-01T20:10:51Z",
        "2015-07-01T20:10:51",
        "2015-07-01T20:10:51+99:00",
        "0x10",
        "٣",
        "٣015-07-01T20:10:51Z",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="to a valid timestamp"):
        time_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("15", 15_000),
        ("0.29", 290),
        ("1e-3", 1),
        ("0", 0),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("1y2w", 32_745_600_000),
        ("0s", 0),
    ],
)
def test_a_duration_is_float_seconds_or_units(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "m", "1.5h", "5m1h", "-5m", "NaN", "1e300", "Inf", "999y", "1_0", "5 m", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="to a valid duration"):
        duration_ms(text)


@given(st.text(max_size=30) | st.floats().map(str) | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"))
def test_no_text_leaves_the_range_of_times(text: str) -> None:
    for read in (time_ms, duration_ms):
        try:
            assert abs(read(text)) < 1 << 54
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"start": "x"}, 'invalid parameter "start": cannot parse "x" to a valid timestamp'),
        ({"end": ""}, 'invalid parameter "end": cannot parse "" to a valid timestamp'),
        ({"end": "-1"}, 'invalid parameter "end": end timestamp must not be before start time'),
        ({"step": "x"}, 'invalid parameter "step": cannot parse "x" to a valid duration'),
        ({"step": "1e300"}, 'invalid parameter "step": cannot parse "1e300" to a valid duration. It overflows int64'),
        ({"timeout": "x"}, 'invalid parameter "timeout": cannot parse "x" to a valid duration'),
        ({"limit": "x"}, 'invalid parameter "limit": strconv.Atoi: parsing "x": invalid syntax'),
        ({"limit": "-1"}, 'invalid parameter "limit": limit must be non-negative'),
        (
            {"end": "11001", "step": "1"},
            "exceeded maximum resolution of 11,000 points per timeseries. "
            "Try decreasing the query resolution (?step=XX)",
        ),
        (
            {"lookback_delta": "x"},
            'error parsing lookback delta duration: cannot parse "x" to a valid duration',
        ),
    ],
)
def test_a_wrong_range_parameter_is_named(changed: dict[str, str], message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        range_params(form(**{**RANGE, **changed}), 11_000)
    assert str(refused.value) == message


@pytest.mark.parametrize("step", ["0", "-1", "-0.5", "0s", "0.0004", "-1e300"])
def test_a_step_below_a_millisecond_is_refused(step: str) -> None:
    with pytest.raises(BadParameter, match="step"):
        range_params(form(**{**RANGE, "step": step}), 11_000)


def test_eleven_thousand_steps_after_the_first_are_allowed() -> None:
    assert range_params(form(**{**RANGE, "end": "11000", "step": "1"}), 11_000).end_ms == 11_000_000


def test_a_wrong_instant_time_is_named_twice_as_in_prometheus() -> None:
    with pytest.raises(BadParameter) as refused:
        instant_params(form(query="up", time="foo"))
    expected = 'invalid parameter "time": invalid time value for \'time\': cannot parse "foo" to a valid timestamp'
    assert str(refused.value) == expected


def test_an_instant_query_without_a_time_is_one_for_now() -> None:
    assert instant_params(form(query="up")).time_ms is None


def test_a_timeout_of_nothing_is_the_shortest_one() -> None:
    assert instant_params(form(query="up", timeout="0")).timeout_ms == 1


def test_the_first_of_several_values_counts() -> None:
    assert instant_params(form(query=["up", "down"])).query == "up"


def test_match_is_repeated_and_times_default_to_always() -> None:
    asked = catalogue_params(form(**{"match[]": ["up", '{job="a"}']}))
    assert asked.matchers == ((Matcher(METRIC_NAME, "=", "up"),), (Matcher("job", "=", "a"),))
    assert (asked.start_ms, asked.end_ms) == ALWAYS


def test_clients_write_forever_in_full() -> None:
    asked = catalogue_params(form(start="-292273086-05-16T16:47:06Z", end="292277025-08-18T07:12:54.999999999Z"))
    assert (asked.start_ms, asked.end_ms) == ALWAYS


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no match[] parameter provided"),
        (["rate(up[5m])"], 'invalid parameter "match[]": parse error: expected a series selector'),
        (["{}"], 'invalid parameter "match[]": match[] must contain at least one non-empty matcher'),
    ],
)
def test_series_needs_selectors(texts: list[str], message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        catalogue_params(form(**{"match[]": texts}), needs_matchers=True)
    assert str(refused.value) == message


def test_equal_selectors_count_once_and_different_ones_are_bounded() -> None:
    texts = [f"m{i}" for i in range(1000)]
    assert len(catalogue_params(form(**{"match[]": ["m", 'm{k=""}', "m"] * 5000})).matchers) == 2
    assert len(catalogue_params(form(**{"match[]": texts})).matchers) == 1000
    with pytest.raises(BadParameter, match=r"1001 different match\[\] are given; the limit is 1000"):
        catalogue_params(form(**{"match[]": [*texts, "m"]}))


@pytest.mark.parametrize(("text", "limit"), [("", 0), ("0", 0), ("7", 7), ("+7", 7)])
def test_a_limit_is_a_count(text: str, limit: int) -> None:
    read: Callable[[Form], int] = limit_of
    assert read(form(limit=text)) == limit


@pytest.mark.parametrize(("text", "ms"), [("30s", 30_000), ("1.5", 1500), ("0", None), ("-1", None), ("", None)])
def test_a_lookback_of_nothing_or_less_is_that_of_the_config(text: str, ms: int | None) -> None:
    assert instant_params(form(query="up", lookback_delta=text)).lookback_ms == ms
    assert range_params(form(**RANGE, lookback_delta=text), 11_000).lookback_ms == ms


def test_stats_are_handed_on_as_they_came() -> None:
    assert instant_params(form(query="up", stats="all")).stats == "all"
    assert range_params(form(**RANGE), 11_000).stats == ""


@pytest.mark.parametrize(("text", "limit"), [("", None), ("-1", None), ("0", 0), ("7", 7)])
def test_a_limit_of_the_metadata_is_none_where_it_is_negative(text: str, limit: int | None) -> None:
    assert count_of(form(limit_per_metric=text), "limit_per_metric") == limit


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"type": "x"}, 'invalid parameter "type": not supported value "x"'),
        ({"match[]": "up["}, "parse error: unexpected end of input inside brackets"),
        (
            {"exclude_alerts": "maybe"},
            'invalid parameter "exclude_alerts": error converting exclude_alerts: strconv.ParseBool: '
            'parsing "maybe": invalid syntax',
        ),
        (
            {"group_next_token": "x"},
            'invalid parameter "group_next_token": group_limit needs to be present in order to paginate over the '
            "groups",
        ),
        (
            {"group_limit": "x"},
            'invalid parameter "group_limit": group_limit needs to be a valid number: strconv.ParseInt: parsing "x": '
            "invalid syntax",
        ),
        ({"group_limit": "0"}, 'invalid parameter "group_limit": group_limit needs to be greater than 0'),
    ],
)
def test_a_wrong_parameter_of_the_rules_is_named(values: dict[str, str], message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        check_rules(form(**values))
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [("0", "limit must be a positive number"), ("x", "limit must be a positive number"),
     ("10001", "limit must not exceed 10000")],
)  # fmt: skip
def test_a_wrong_length_of_a_ranking_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        most_of(form(limit=text))
    assert str(refused.value) == message
