"""The project's own scripts, and what the runner says of scripts that are wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from query.promqltest.notation import BadScript, labels, series
from query.promqltest.report import Sums, report
from query.promqltest.run import FAILED, PASSED, UNSUPPORTED, run
from query.promqltest.script import duration_ms

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.test"))
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_evaluation_passes(script: Path) -> None:
    outcomes = list(run(script.read_text()))
    assert outcomes
    assert [f"line {o.line}: {o.text}: {o.status} {o.why}" for o in outcomes if o.status != PASSED] == []


LOADED = "load 1m\n  m{a=\"x\"} 0 10 20\n\n"


@pytest.mark.parametrize(
    "block",
    [
        "eval instant at 2m m\n  m{a=\"x\"} 21",
        "eval instant at 2m m\n  m{a=\"y\"} 20",
        "eval instant at 2m m",
        "eval instant at 2m m\n  m{a=\"x\"} 20\n  m{a=\"y\"} 20",
        "eval instant at 2m sum(m)\n  20",
        "eval instant at 2m scalar(m)\n  {} 20",
        "eval instant at 2m m\n  expect fail\n",
        "eval instant at 2m m + on () (m or sum(m))\n  {} 20",
        "eval instant at 2m quantile(2, m)\n  expect no_warn\n  {} Inf",
        "eval instant at 2m quantile(2, m)\n  expect warn msg: PromQL warning: other (1:1)\n  {} Inf",
        "eval instant at 2m m\n  expect warn\n  m{a=\"x\"} 20",
        "eval range from 0 to 2m step 1m m\n  m{a=\"x\"} 0 10",
        "eval range from 0 to 2m step 1m m\n  m{a=\"x\"} 0 _ 20",
        "eval instant at 2m \"a\"\n  expect string \"b\"",
        "eval instant at 2m sum(\n  {} 1",
    ],
)  # fmt: skip
def test_a_wrong_expectation_fails(block: str) -> None:
    assert [outcome.status for outcome in run(LOADED + block)] == [FAILED]


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("load 1m\n  m {{schema:0 sum:1 count:1}}\n\neval instant at 0 m\n", "native histograms"),
        ("load 1m\n  m@st 0\n  m 1\n\neval instant at 0 m\n", "start timestamps"),
        ("eval instant at 0 rate(m[1m] smoothed)\n", "anchored and smoothed selectors"),
        ("eval instant at 0 m[1m + 1m]\n", "arithmetic of durations"),
        ("load_with_nhcb 1m\n  m_bucket{le=\"1\"} 1\n\neval instant at 0 m\n", "native histograms"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_unsupported_by_name(text: str, feature: str) -> None:
    assert [(outcome.status, outcome.why) for outcome in run(text)] == [(UNSUPPORTED, feature)]


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "load x\n  m 1",
        "load 1m\n  m 1y2",
        "load 1m\n  {a=} 1",
        "eval sometime m",
        "eval instant at x m",
    ],
)
def test_a_line_out_of_the_format_is_told(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadScript):
        list(run(text))
    script, sums = tmp_path / "wrong.test", Sums()
    script.write_text(text)
    assert next(report(script, sums)) == "wrong.test: 0 passed, 1 failed, 0 unsupported"
    assert sums.failed == 1


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("m 1 -2 3e2 Inf -Inf", [1, -2, 300, float("inf"), float("-inf")]),
        ("m _ 1 _x3", [None, 1, None, None, None]),
        ("m 5x2", [5, 5, 5]),
        ("m 1+2x3", [1, 3, 5, 7]),
        ("m 1-2x3", [1, -1, -3, -5]),
        ("m 0x2 0+0x1", [0, 0, 0, 0, 0]),
    ],
)
def test_values_are_read_as_sequences(line: str, values: list[float | None]) -> None:
    assert list(series(line).values) == values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m", {"__name__": "m"}),
        ("{}", {}),
        ('m{a="b", c="d}"}', {"__name__": "m", "a": "b", "c": "d}"}),
        ('{"m.x", "a b"="c"}', {"__name__": "m.x", "a b": "c"}),
    ],
)
def test_label_sets_are_read(text: str, expected: dict[str, str]) -> None:
    assert dict(labels(text)) == expected
    assert dict(series(f"{text} 1").labels) == expected


def test_durations_are_read() -> None:
    assert [duration_ms(text) for text in ("0", "1h30m", "10s53ms")] == [0, 5_400_000, 10_053]


def test_the_command_prints_a_line_per_file_and_the_sums(tmp_path: Path) -> None:
    script = tmp_path / "two.test"
    script.write_text(f"{LOADED}eval instant at 2m m\n  m{{a=\"x\"}} 20\n\neval instant at 2m m\n  m 1\n")
    done = subprocess.run(
        [sys.executable, "manage.py", "promqltest", str(script)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("two.test: 1 passed, 1 failed, 0 unsupported", "1 passed, 1 failed, 0 unsupported")
    assert lines[1].startswith("  line 7: m: ")
    assert done.returncode == 1
