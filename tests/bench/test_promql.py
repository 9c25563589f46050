"""The data and the report of `make bench-promql`."""

from pathlib import Path

import numpy as np
import pytest

from query.promql.parse import parse
from tests.bench import promql_report as report
from tests.bench.data import STEPS, Dataset
from tests.bench.promql_data import LanguageDataset
from tests.bench.promql_queries import QUERIES, Measured, Outcome, Query, Results, geometric_mean

DATA = LanguageDataset(Dataset(5, 1_764_500_400_000))


def test_full_scale_has_100_000_counters() -> None:
    full = LanguageDataset(Dataset(30, 1_764_500_400_000))
    assert (full.gauges.series, full.counters, full.buckets) == (189_000, 100_000, 12_000)


def test_there_is_a_value_for_each_series() -> None:
    assert len(DATA.label_runs()) == len(DATA.values(DATA.end_ms)) == DATA.series
    assert len(set(DATA.label_runs())) == DATA.series


def test_counters_rise_but_for_one_reset_and_buckets_are_cumulative() -> None:
    values = np.stack([DATA.values(t) for t in DATA.times_ms], axis=1)
    counters = values[DATA.gauges.series : DATA.gauges.series + DATA.counters]
    falls = (np.diff(counters, axis=1) < 0).sum(axis=1)
    assert set(falls.tolist()) == {0, 1}
    buckets = values[DATA.gauges.series + DATA.counters :].reshape(-1, 12, STEPS)
    assert (np.diff(buckets, axis=1) >= 0).all()
    assert (np.diff(buckets, axis=2) >= 0).all()


def test_all_queries_are_promql() -> None:
    for query in QUERIES:
        parse(query.text)


@pytest.mark.parametrize(("value", "wrong"), [(2.0, 0), (2.0 + 1e-12, 0), (2.1, 1)])
def test_another_value_is_reported(value: float, wrong: int) -> None:
    assert len(_results(2.0, value).wrong()) == wrong


def test_a_run_replaces_the_section_of_its_scale_alone(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.md"
    path.write_text("# Old\n\n## Scale full\n\nkept\n\n## Scale small\n\nreplaced\n")
    report.write(_results(2.0, 2.0), path)
    text = path.read_text()
    assert "kept" in text
    assert "replaced" not in text
    assert "| Prometheus | 4.0 | 25 | 4.0 |" in text


def test_the_geometric_mean_of_ratios() -> None:
    assert geometric_mean([1.0, 100.0]) == pytest.approx(10.0)


def _results(ours: float, theirs: float) -> Results:
    def measured(value: float, took_s: float) -> Measured:
        rows = [{"metric": {"a": "1"}, "value": [1.5, str(value)]}]
        return Measured(Query("count(m)"), (took_s,), took_s, 100, rows)

    outcomes = [
        Outcome("ASAP", "1", "", (measured(ours, 0.01),)), Outcome("Prometheus", "2", "", (measured(theirs, 0.04),))
    ]  # fmt: skip
    return Results("small", DATA, "2026-01-01", outcomes)
