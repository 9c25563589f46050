"""A run replaces its own scale's section of the report and leaves the others."""

from pathlib import Path

import pytest

from tests.bench import report
from tests.bench.check import Truth
from tests.bench.data import Dataset
from tests.bench.measure import Load, Phase, Size, Timing
from tests.bench.results import Answered, Result, Run

DATA = Dataset(spread=2, end_ms=1_700_000_010_000)
SIZE = Size(DATA.samples, 1000, 500)


def run(scale: str, cpu_s: float = 1.0) -> Run:
    phase = Phase(DATA.samples // 2, 1.0, cpu_s, 0.5)
    load = Load(phase, phase, SIZE, SIZE, SIZE, panes=3)
    points = {(pattern, DATA.end_ms): value for pattern, (value, _) in _exact().items()}
    timing = Timing("summary", (0.001, 0.002, 0.003), 0.001, points)
    answer = Answered("instant", timing, Truth(DATA).deviation(points, "summary", 1))
    return Run(scale, DATA, "2026-01-01", (Result("ASAP", "1", "", load, load, (answer,), 2000, (0.2,)),))


def _exact() -> dict[str, tuple[float, float]]:
    return Truth(DATA)._quantiles(DATA.end_ms)


def test_a_run_replaces_its_own_section_only(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.md"
    report.write(run("full"), path)
    before = report.sections(path.read_text())["full"]
    report.write(run("small"), path)
    report.write(run("small", cpu_s=2.0), path)
    after = report.sections(path.read_text())
    assert list(after) == ["full", "small"]
    assert after["full"] == before
    assert after["small"] != before.replace("full", "small")


def test_an_answer_beside_the_exact_value_by_more_than_its_bound_is_wrong() -> None:
    truth = Truth(DATA)
    points = {(pattern, DATA.end_ms): exact + 0.02 * scale for pattern, (exact, scale) in _exact().items()}
    deviation = truth.deviation(points, "summary", 1)
    assert deviation.largest == pytest.approx(0.02)
    assert not deviation.is_right


def test_an_answer_that_lacks_a_point_is_wrong() -> None:
    points = {(pattern, DATA.end_ms): exact for pattern, (exact, _) in _exact().items()}
    del points["sine", DATA.end_ms]
    assert not Truth(DATA).deviation(points, "head", 1).is_right
