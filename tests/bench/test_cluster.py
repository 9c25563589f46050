"""The page of `make bench-cluster` shows what was measured."""

import os
import subprocess
import sys

from tests.bench import cluster_report, usage
from tests.bench.cluster import Figures, Results, Shape, groups, pin


def figures(shape: Shape) -> Figures:
    return Figures(shape, 2.0, 1.0, 0.5, 0.25, 8.0 / shape.workers, (4.0,) * shape.workers, 1.0)


def measured(scale: str) -> tuple[Figures, ...]:
    return tuple(figures(shape) for shapes in groups(scale) for shape in shapes)


def test_the_page_has_the_ratio_of_two_workers_to_one() -> None:
    text = cluster_report.page(Results("2026-01-01", measured("medium"), (0.5, 0.7), (1.0, 1.2)))
    ratios = [line for line in text.splitlines() if "| 2.00 |" in line]
    assert [line.split("|")[1].strip() for line in ratios] == ["9,317", "96,768"]
    assert "| cluster | 1.00, 1.20 |" in text


def test_the_shards_are_in_order() -> None:
    text = cluster_report.page(Results("2026-01-01", measured("small"), (), ()))
    rows = text.partition("## By number of shards")[2].partition("##")[0].splitlines()[4:]
    assert [row.split("|")[2].strip() for row in rows if row] == ["shards", "---", "1", "4", "16", "64"]


def test_a_pinned_process_stays_on_its_core() -> None:
    core = max(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        pin(waiting.pid, core)
        assert os.sched_getaffinity(waiting.pid) == {core}
        assert usage.cores() >= 1
        waiting.communicate(b"\n")
