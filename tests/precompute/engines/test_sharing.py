"""A tick visits the series of a selector once for all aggregations, and keeps what each alone would keep."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from precompute.aggregations import Aggregation
from precompute.evaluate.expr import Selector
from precompute.evaluate.head_source import HeadSource, Look
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Vector
from precompute.summaries import Summary
from tests.precompute.made_node import START_MS, WIDTH_MS, Core, aggregation, series
from tests.precompute.made_summaries import same

FAMILY = [
    aggregation(f"rate(c_total[{span}])", ["job"], accumulators=["sum", "count"], width_ms=steps * WIDTH_MS)
    for span, steps in (("1m", 1), ("75s", 4), ("315s", 20))
]
OTHERS = [
    aggregation("8 * rate(c_total[1m])", ["i"]), aggregation("max_over_time(c_total[5m])", ["job"]),
    aggregation("c_total", ["job"]), aggregation("c_total > 3", ["i"]),
    *(aggregation(f"c_total / {zero}", ["job"], accumulators=["min", "max"]) for zero in ("0", "-0")),
]  # fmt: skip
PANES = 41


class Visits:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks, ranges = list[int](), HeadSource.ranges

        def noted(source: HeadSource, selector: Selector, looks: Sequence[Look], budget: Budget) -> list[Vector]:
            self.looks.append(len(looks))
            return ranges(source, selector, looks, budget)

        monkeypatch.setattr(HeadSource, "ranges", noted)


def kept(folder: Path, aggregations: Sequence[Aggregation], ticks: bool) -> list[Summary]:
    """What is in the store after ten minutes of samples, with a tick at each pane or one at the end."""
    core = Core(folder, aggregations)
    for pane in range(PANES):
        core.write([
            (series("c_total", job=f"j{i % 3}", i=str(i)), core.clock.now_ms(), float((pane * (i + 3)) % 100))
            for i in range(12)
        ])  # fmt: skip
        core.pass_time(WIDTH_MS)
        if ticks:
            core.tick()
    core.tick()
    return [core.store.get(one.id, 0, START_MS + PANES * WIDTH_MS) for one in aggregations]


@pytest.mark.parametrize("ticks", [True, False])
def test_panes_are_those_of_each_aggregation_kept_alone(tmp_path: Path, ticks: bool) -> None:
    together = kept(tmp_path / "all", [*FAMILY, *OTHERS], ticks)
    assert all(summary.rows for summary in together)
    for place, one in enumerate([*FAMILY, *OTHERS]):
        (alone,) = kept(tmp_path / str(place), [one], ticks)
        assert same(alone, together[place]), one.expr


def test_a_tick_visits_a_family_of_ranges_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = Visits(monkeypatch)
    kept(tmp_path, [*FAMILY, *OTHERS], ticks=True)
    assert len(visits.looks) == PANES, "one visit a tick"
    assert sorted(set(visits.looks)) == [2, 3, 4], "those of 1m and 5m at each, the others when their panes are due"
