"""What summaries answer is held against exact evaluation, and what is wrong serves no more."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage
from precompute.evaluate.context import Features
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.samples import Bool
from query.metrics import WatchMetrics
from query.promql.parse import parse
from query.tiers.summary import Steps
from query.watch import AccuracyWatch, WatchOptions
from tests.precompute.made_node import START_MS, WIDTH_MS, Core, aggregation, series
from tests.query.planned_node import PlannedNode
from tests.query.test_recall import once_after
from tests.reference.compare import at_step

G = aggregation("g", ["job", "zone"])
RATE = aggregation("rate(c[1m])", ["job"], accumulators=["sum"])
JOIN = aggregation("g * on (i) group_left () h", ["job"], accumulators=["sum", "count"])
SKETCHED = [
    aggregation(expr, ["job"], accumulators=[name])
    for expr, name in (("g > -100", "kll(k=16)"), ("h > -100", "le(bounds=0.2 0.5 0.8)"))
]
AGAIN, WRONG = aggregation("g + 1", ["zone"], accumulators=["sum"]), "sum by (zone) (g + 1)"
HALVES = aggregation("h", ["job"], accumulators=["quantile(alpha=0.05)"])
QUERIES = (
    *(f"{op} by (job) (g)" for op in ("sum", "avg", "count", "min", "max", "stddev", "stdvar")),
    "quantile by (zone) (0.9, g)", 'sum(g{job="b"} offset 1m)', "sum(rate(c[1m]))",
    "sum by (job) (g * on (i) group_left () h)", "quantile(0.3, h)",
    "quantile by (job) (0.3, g > -100)", "quantile(0.6, h > -100)",
)  # fmt: skip


class Watched:
    """A core of which every answer is watched."""

    def __init__(self, folder: Path, share: float = 1.0, **of_core: int) -> None:
        self.node, self._share = PlannedNode(folder, G, RATE, JOIN, HALVES, *SKETCHED, **of_core), share
        self._random = Random(5)
        self._begin()
        for k in range(24):
            self.scrape(k)

    def _begin(self) -> None:
        self.core, self.registry = self.node.core, CollectorRegistry()
        self.watch = AccuracyWatch(
            self.core.engine, self.core.source, self.core.summary_tier, self.core.head_tier, self.node.in_force,
            WatchOptions(self._share, Limits(), Features(), 60_000), WatchMetrics(self.registry), self.core.clock,
        )  # fmt: skip
        self.core.queries._heard = [self.watch.note]

    def killed(self) -> None:
        """It is killed and comes back."""
        self.node.killed()
        self._begin()

    def scrape(self, k: int) -> None:
        random = self._random
        rows = [
            (series(n, job="ab"[i % 2], zone="xyz"[i % 3], i=str(i)), self.core.clock.now_ms(), v)
            for i in range(12) for n, v in (("g", random.gauss(0, 9)), ("h", random.random()), ("c", k * i * 1.7))
        ]  # fmt: skip
        self.core.write(rows)
        self.core.pass_time(WIDTH_MS)
        self.core.tick()

    def ask(self, text: str) -> tuple[str, ...]:
        return self.core.range(text, START_MS + 8 * WIDTH_MS, self.node.sealed_ms()).tiers

    def ask_at(self, text: str, first: int, last: int) -> list[object]:
        """What summaries answer, step by step."""
        answer = self.core.range(text, START_MS + first * WIDTH_MS, START_MS + last * WIDTH_MS)
        assert answer.tiers == ("summary",)
        return [at_step(answer.value, step) for step in range(len(answer.times))]

    def value(self, name: str) -> float:
        return self.registry.get_sample_value(name) or 0.0


def damage(core: Core, kept: Aggregation, by: float) -> None:
    """Every pane's sums become others, as a fault would make them."""
    panes = core.store.get(kept.id, 0, core.clock.now_ms())
    sums = panes.states["sum"]
    wrong = {column: values * by if values.dtype == np.float64 else values for column, values in sums.items()}
    core.store.commit([(kept.id, replace(panes, states={**panes.states, "sum": wrong}))])


def test_right_answers_are_found_right(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    for text in QUERIES:
        assert watched.ask(text) == ("summary",), text
        watched.watch.look_at_all()
    assert watched.value("asap_watch_error_count") == len(QUERIES)
    assert watched.value("asap_watch_outside_total") == 0
    assert 0 < watched.value("asap_watch_error_sum") < 1.05, "errors of classic buckets are shares of a bucket"


def test_a_wrong_summary_is_counted_logged_and_taken_out_of_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(tmp_path)
    damage(watched.core, RATE, 1.001)
    assert watched.ask("sum by (job) (rate(c[1m]))") == ("summary",)
    watched.watch.look_at_all()
    assert watched.value("asap_watch_outside_total") == 1
    assert "sum by (job) (rate(c[1m]))" in caplog.text and RATE.id in caplog.text
    assert watched.node.in_force.find(RATE.id).suspended
    assert [(one.id, one.suspended) for one in watched.node.definitions.definitions()] == [(RATE.id, True)]
    assert watched.ask("sum by (job) (rate(c[1m]))") == ("head",)
    assert watched.ask("sum by (job) (g)") == ("summary",)
    watched.node.in_force.switch([RATE])
    assert RATE not in watched.core.engine.aggregations


@pytest.mark.parametrize("back", ["pin", "create", "delete", "restart"])
def test_no_wrong_pane_serves_again_when_an_aggregation_is_brought_back(tmp_path: Path, back: str) -> None:
    short = {"acceptance_ms": 60_000, "kept_ms": 1_800_000, "segment_ms": 60_000}
    watched = Watched(tmp_path, **short)
    in_force, core = watched.node.in_force, watched.core
    for k in range(24, 48):
        watched.scrape(k)
    in_force.create(AGAIN, pinned=False)
    core.tick()
    damage(core, AGAIN, 1.5)
    assert watched.ask(WRONG) == ("summary",)
    assert core.cache.bytes, "the wrong answer may be asked for again"
    watched.watch.look_at_all()
    assert in_force.find(AGAIN.id).suspended and core.intake.progress.final_ms > START_MS + 10 * WIDTH_MS
    if back == "delete":
        in_force.delete(AGAIN.id)
    if back == "restart":
        watched.killed()
        in_force, core = watched.node.in_force, watched.core
    in_force.pin(AGAIN.id, True) if back in ("pin", "restart") else in_force.create(AGAIN, pinned=True)
    core.tick()
    got = core.range(WRONG, START_MS + 8 * WIDTH_MS, watched.node.sealed_ms())
    exact = core.evaluate(parse(WRONG), got.times)
    assert got.tiers == ("summary",)
    assert [at_step(got.value, k) for k in range(len(got.times))] == [
        pytest.approx(at_step(exact, k), rel=1e-9) for k in range(len(got.times))
    ]


def test_a_bound_of_chance_is_judged_by_how_often_it_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched, suspended, text = Watched(tmp_path), list[bool](), "quantile by (job) (0.3, g > -100)"
    summary = watched.core.summary_tier
    read = summary.read

    def wrong(coverage: Coverage, steps: Steps, budget: Budget) -> tuple[Vector, Bool]:
        got, right = read(coverage, steps, budget)
        return got.with_values(got.values + 1000), right

    monkeypatch.setattr(summary, "read", wrong)
    for k in range(24, 29):
        for _ in range(3):
            assert watched.ask(text) == ("summary",)
        watched.watch.look_at_all()
        suspended.append(watched.node.in_force.find(SKETCHED[0].id).suspended)
        watched.scrape(k)
    assert suspended == [False] * 4 + [True]
    assert watched.ask(text) == ("head",)


def test_samples_that_come_between_the_two_are_no_error(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.ask("sum by (job) (g)")
    end_ms = watched.node.sealed_ms()

    def late() -> None:
        rows = [(series("g", job="a", zone="x", i="77"), end_ms - k * WIDTH_MS - 1, 1e6) for k in range(20)]
        watched.core.write(rows)

    with once_after(watched.core.summary_tier, "read", late):
        watched.watch.look_at_all()
    assert watched.value("asap_watch_outside_total") == 0 and watched.value("asap_watch_error_count") == 0


def test_samples_that_the_log_lost_after_they_were_summarised_are_no_error(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    for k in range(24, 64):
        watched.scrape(k)
    before = watched.ask_at("sum by (job) (g)", 10, 26)
    segment = min((tmp_path / "log").glob("*.seg"))
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    watched.killed()
    assert watched.core.log.damaged_records and watched.core.intake.progress.holes
    watched.core.pass_time(2 * WIDTH_MS)
    exact = watched.core.evaluate(parse("sum by (job) (g)"), START_MS + np.arange(10, 27) * WIDTH_MS)
    assert sum(at_step(exact, k) != before[k] for k in range(17)) == 1, "one scrape is lost"
    for _ in range(20):
        assert watched.ask_at("sum by (job) (g)", 10, 26) == before
        watched.watch.look_at_all()
    assert watched.value("asap_watch_error_count"), "other steps are compared"
    assert watched.value("asap_watch_outside_total") == 0 and not watched.node.in_force.find(G.id).suspended


def test_only_a_share_is_looked_at_and_only_so_many_wait(tmp_path: Path) -> None:
    watched = Watched(tmp_path, share=0.5)
    for _ in range(100):
        watched.ask("sum by (job) (g)")
    assert 2 < watched.value("asap_watch_lost_total") < 38
    watched.watch.look_at_all()
    assert watched.value("asap_watch_error_count") == 32


def test_what_the_head_answered_is_not_looked_at(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.ask("sum by (i) (g)") == ("head",)
    watched.watch.look_at_all()
    assert watched.value("asap_watch_error_count") == 0


def test_what_fails_is_logged_and_the_next_answer_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watched, asked = Watched(tmp_path), list[Coverage]()
    for text in ("sum by (job) (g)", "max by (job) (g)"):
        assert watched.ask(text) == ("summary",)
    read = watched.core.summary_tier.read

    def failing_once(coverage: Coverage, steps: Steps, budget: Budget) -> tuple[Vector, Bool]:
        asked.append(coverage)
        if len(asked) == 1:
            raise OverflowError("Numerical result out of range")
        watched.watch.stop()
        return read(coverage, steps, budget)

    monkeypatch.setattr(watched.core.summary_tier, "read", failing_once)
    watched.watch.run()
    assert [coverage.requirement.node.op for coverage in asked] == ["sum", "max"]
    assert "sum by (job) (g)" in caplog.text and "Numerical result out of range" in caplog.text
    assert watched.value("asap_watch_error_count") == 1


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_an_answer_that_is_not_finite_is_outside_and_leaves_the_metrics_sum_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    watched = Watched(tmp_path)
    read = watched.core.summary_tier.read

    def wrongly(coverage: Coverage, steps: Steps, budget: Budget) -> tuple[Vector, Bool]:
        got, right = read(coverage, steps, budget)
        return got.with_values(np.full_like(got.values, wrong)), right

    watched.ask("sum by (job) (g)")
    with monkeypatch.context() as broken:
        broken.setattr(watched.core.summary_tier, "read", wrongly)
        watched.watch.look_at_all()
    assert watched.value("asap_watch_outside_total") == 1
    assert watched.node.in_force.find(G.id).suspended
    watched.ask("sum(rate(c[1m]))")
    watched.watch.look_at_all()
    assert watched.value("asap_watch_error_count") == 1
    assert np.isfinite(watched.value("asap_watch_error_sum"))
