"""Queries that would take all memory or all day: a clear error each, in bounded time and memory."""

import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from precompute.clock import ManualClock
from precompute.errors import LimitExceeded, TimedOut
from precompute.evaluate.limits import Budget, Limits
from tests.precompute.evaluate.hungry import BIG, Asked, Outcome
from tests.running import ROOT

SHORT_S, LITTLE_MB = 5.0, 100.0
LONG_S, MUCH_MB = 60.0, 2048.0

AT_ONCE = {
    "a regular expression that unfolds": (Asked('{i=~"((a{100}){100}){100}"}'), "BadExpression", "regexp"),
    "20,000 parentheses": (Asked("(" * 20_000 + "1" + ")" * 20_000), "LimitExceeded", "nested deeper"),
    "a year at a millisecond": (Asked("sum_over_time(big[1y:1ms])"), "LimitExceeded", "matrix"),
    "a year at a millisecond of a scalar": (Asked("sum_over_time(vector(1)[1y:1ms])"), "LimitExceeded", "matrix"),
    "a subquery in a subquery": (
        Asked("sum_over_time(sum_over_time(big[1y:1s])[1y:1ms])"), "LimitExceeded", "matrix",
    ),
    "all series at many steps": (Asked("big", 11_000), "LimitExceeded", "200000 series × 11000 steps"),
    "the first ones of all at many steps": (Asked("topk(100000, big)", 11_000), "LimitExceeded", "matrix"),
    "all at many steps, fixed to one time": (Asked("big @ 1", 11_000), "LimitExceeded", "matrix"),
}  # fmt: skip
"""What is refused before anything is made for it."""

IN_THE_END = {
    "a million pairs at a thousand steps": (
        Asked("left * on () group_left (i) right", 1000), "LimitExceeded", "matrix",
    ),
    "all series against all": (Asked("big * on () big"), "ExecutionError", "many-to-many matching not allowed"),
    "labels that grow": (
        Asked(f'label_replace(big, "x", "{"z" * 20_000}$1", "i", "(.*)")'), "LimitExceeded", "label values",
    ),
    "joined labels that grow": (
        Asked(f'label_join(big, "x", "{"-" * 20_000}", "i", "i", "i")'), "LimitExceeded", "label values",
    ),
    "an evaluation that lasts": (Asked("sum(quantile_over_time(0.5, big[1d:10m]))", 1000, 1000), "TimedOut", "1s"),
}  # fmt: skip
"""What is refused while it runs."""

ANSWERED = {
    "all series at many steps, summed up": Asked("sum(big)", 1000),
    "windows of all at many steps, by a label": Asked("sum by (job) (max_over_time(big[1d]))", 200),
    "every series a value of its own": Asked('count(count_values("v", big))'),
}
"""What fits, although all of it at once would not, or only just."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Each query's outcome, asked in a process of their own."""
    asked = {name: case[0] for name, case in (AT_ONCE | IN_THE_END).items()} | ANSWERED
    lines = "".join(json.dumps(asdict(one)) + "\n" for one in asked.values())
    done = subprocess.run(
        (sys.executable, "-m", "tests.precompute.evaluate.hungry"), cwd=ROOT, input=lines, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]
    return dict(zip(asked, told, strict=True))


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_is_seen_to_be_too_much_is_refused_at_once(outcomes: dict[str, Outcome], name: str) -> None:
    _, error, words = AT_ONCE[name]
    got = outcomes[name]
    assert (got.error, words in got.text) == (error, True), got
    assert got.worked_s < SHORT_S
    assert got.grown_mb < LITTLE_MB


@pytest.mark.parametrize("name", IN_THE_END)
def test_what_turns_out_to_be_too_much_is_refused_in_bounded_time_and_memory(
    outcomes: dict[str, Outcome], name: str
) -> None:
    _, error, words = IN_THE_END[name]
    got = outcomes[name]
    assert (got.error, words in got.text) == (error, True), got
    assert got.took_s < LONG_S
    assert got.grown_mb < MUCH_MB


@pytest.mark.parametrize("name", ANSWERED)
def test_what_can_be_folded_is_answered_in_bounded_memory(outcomes: dict[str, Outcome], name: str) -> None:
    got = outcomes[name]
    assert (got.error, got.rows) == ("", 1), got
    assert got.took_s < LONG_S
    assert got.grown_mb < MUCH_MB / 2


def test_the_series_are_as_many_as_the_limits_are_tested_with() -> None:
    assert 10 * Limits().max_matrix_bytes < 9 * 11_000 * BIG


def test_samples_are_counted_over_the_whole_query() -> None:
    budget = Budget(Limits(max_samples=10), ManualClock(), 1000)
    budget.samples(6)
    with pytest.raises(LimitExceeded, match="too many samples into memory"):
        budget.samples(5)


def test_a_matrix_that_just_fits_is_allowed() -> None:
    budget = Budget(Limits(max_matrix_bytes=9 * 100), ManualClock(), 1000)
    budget.cells(10, 10)
    with pytest.raises(LimitExceeded, match="11 series × 10 steps"):
        budget.cells(11, 10)


def test_after_its_time_a_query_ends() -> None:
    clock = ManualClock()
    budget = Budget(Limits(), clock, 1000)
    budget.check_time()
    assert budget.left_ms() == 1000
    clock.advance(1001)
    with pytest.raises(TimedOut, match="after 1s"):
        budget.check_time()
    assert budget.left_ms() == 0


def test_what_is_kept_has_time_for_the_work_that_it_is() -> None:
    clock = ManualClock()
    budget = Budget(Limits(), clock, 1000, of_work=True)
    clock.advance(3_600_000, idle=True)
    clock.advance(500)
    budget.check_time()
    assert budget.left_ms() == 500
    clock.advance(501)
    with pytest.raises(TimedOut, match="after 1s"):
        budget.check_time()
