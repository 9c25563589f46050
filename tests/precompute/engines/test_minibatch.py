"""Panes from samples: edges, sealing, late samples, gaps, restarts, retention."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from precompute.log.base import Hole
from precompute.stores.memory import MemoryStore
from precompute.summaries import HOLE
from query.plan import plan
from query.promql.parse import parse
from query.tiers.summary import Steps
from tests.precompute.made_node import (
    HOUR_MS,
    LATENESS_MS,
    LOOKBACK_MS,
    START_MS,
    WIDTH_MS,
    Core,
    StoppedClock,
    aggregation,
    series,
)  # fmt: skip
from tests.precompute.made_summaries import same
from tests.reference.compare import at_step

A, B = series("m", g="a"), series("m", g="b")
SUM = aggregation("m", ["g"], accumulators=["sum", "count"])
COUNT_15S = aggregation("count_over_time(m[15s])", ["g"], accumulators=["sum"])


def values(core: Core, kept: object, end_ms: int) -> dict[object, float]:
    """Sums by group key of one pane; raises LookupError where the pane is not there."""
    summary = core.store.get(kept.id, end_ms - 1, end_ms)  # type: ignore[attr-defined]
    if not summary.panes:
        raise LookupError(end_ms)
    return {summary.keys[g]: float(v) for g, v in zip(summary.group, summary.states["sum"]["sum"], strict=True)}


def ends(core: Core, kept: object) -> list[int]:
    return core.store.ends(kept.id, 0, 1 << 60).tolist()  # type: ignore[attr-defined]


def seal(core: Core, end_ms: int) -> None:
    """Move on until the pane is sealed, and tick."""
    core.pass_time(max(0, end_ms + LATENESS_MS - core.clock.now_ms()))
    core.tick()


def test_a_sample_on_the_panes_end_belongs_to_it_and_one_on_its_start_does_not(tmp_path: Path) -> None:
    # width 15:  start       P           Q
    #            (-----------](-----------]
    #            ^ not in P  ^ in P, not in Q
    core, p = Core(tmp_path, [COUNT_15S]), START_MS + WIDTH_MS
    core.write([(A, START_MS, 1.0), (B, p, 1.0)])
    seal(core, p + WIDTH_MS)
    assert values(core, COUNT_15S, p) == {("b",): 1.0}
    assert values(core, COUNT_15S, START_MS) == {("a",): 1.0}
    assert values(core, COUNT_15S, p + WIDTH_MS) == {}


def test_a_pane_is_summarised_once_its_end_and_the_lateness_have_passed_and_not_before(tmp_path: Path) -> None:
    core, end = Core(tmp_path, [SUM]), START_MS + WIDTH_MS
    core.pass_time(WIDTH_MS + LATENESS_MS - 1)
    core.tick()
    assert ends(core, SUM)[-1] == end - WIDTH_MS
    core.pass_time(1)
    core.tick()
    assert ends(core, SUM)[-1] == end


def test_a_node_that_does_not_listen_seals_nothing(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    core.clock.advance(10 * WIDTH_MS)
    core.tick()
    assert ends(core, SUM)[-1] == START_MS - LATENESS_MS


def test_a_process_that_is_stopped_while_it_makes_a_pane_makes_it_all_the_same(tmp_path: Path) -> None:
    core, end = Core(tmp_path, [SUM], clock=StoppedClock(START_MS)), START_MS + WIDTH_MS
    core.write([(A, end, 1.0)])
    seal(core, end)
    assert values(core, SUM, end) == {("a",): 1.0}
    assert not core.store.failed(SUM.id, 0, 1 << 60).size


def test_every_sealed_pane_without_samples_is_coverage(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    seal(core, START_MS + 10 * WIDTH_MS)
    kept = ends(core, SUM)
    assert kept == list(range(kept[0], kept[-1] + 1, WIDTH_MS))
    assert len(kept) > 10
    answer = core.instant("sum by (g) (m)", kept[-1])
    assert answer.tiers == ("summary",)
    assert at_step(answer.value, 0) == {}


def test_a_tick_with_nothing_new_computes_nothing(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    core.write([(A, START_MS, 1.0)])
    seal(core, START_MS + WIDTH_MS)
    before = core.engine.committed
    core.tick()
    assert core.engine.committed == before


def test_a_late_sample_makes_the_panes_dirty_that_can_see_it_and_they_are_replaced(tmp_path: Path) -> None:
    kept = aggregation("count_over_time(m[1m])", ["g"], accumulators=["sum"])
    core, last = Core(tmp_path, [kept]), START_MS + 20 * WIDTH_MS
    core.pass_time(5 * WIDTH_MS)
    core.write([(A, START_MS + 5 * WIDTH_MS, 1.0)])
    seal(core, last)
    late = START_MS + 5 * WIDTH_MS + 1
    before, everything = core.engine.committed, np.array(ends(core, kept))
    core.write([(A, late, 2.0)])
    dirty = everything[core.engine.dirty(kept, everything)].tolist()
    assert dirty == [START_MS + k * WIDTH_MS for k in (6, 7, 8, 9)]
    core.tick()
    assert core.engine.committed - before == len(dirty)
    counts = [values(core, kept, START_MS + k * WIDTH_MS).get(("a",)) for k in range(4, 11)]
    assert counts == [None, 1.0, 2.0, 2.0, 2.0, 1.0, None]


def test_late_samples_leave_the_other_panes_and_their_bits_alone(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    core.write([(A, START_MS + k * WIDTH_MS, 0.1 * k) for k in range(4)])
    seal(core, START_MS + 40 * WIDTH_MS)
    before = core.store.get(SUM.id, 0, START_MS + 2 * WIDTH_MS)
    core.write([(A, START_MS + 2 * WIDTH_MS + 1, 9.0)])
    core.tick()
    assert same(core.store.get(SUM.id, 0, START_MS + 2 * WIDTH_MS), before)
    assert values(core, SUM, START_MS + 3 * WIDTH_MS) == {("a",): 0.1 * 3}


def test_a_dirty_pane_is_not_served_until_it_is_computed_again(tmp_path: Path) -> None:
    core, end = Core(tmp_path, [SUM]), START_MS + WIDTH_MS
    core.write([(A, end - 1, 1.0)])
    seal(core, end)
    assert core.instant("sum(m)", end).tiers == ("summary",)
    core.write([(A, end, 5.0)])
    answer = core.instant("sum(m)", end)
    assert answer.tiers == ("head",)
    assert at_step(answer.value, 0) == {(): 5.0}
    core.tick()
    answer = core.instant("sum(m)", end)
    assert (answer.tiers, at_step(answer.value, 0)) == (("summary",), {(): 5.0})


def test_samples_at_or_before_the_floor_are_refused_and_change_nothing(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    seal(core, START_MS + WIDTH_MS)
    floor_ms = core.intake.progress.floor_ms
    admission = core.write([(A, floor_ms, 1.0), (A, floor_ms + 1, 2.0), (A, core.clock.now_ms() + 60_001, 3.0)])
    assert (admission.accepted, admission.too_old, admission.too_far_ahead) == (1, 1, 1)
    assert core.head.samples() == 1


@pytest.mark.parametrize("has_upstream", [False, True])
@pytest.mark.parametrize("t_ms", [-(1 << 63), -1, 0, (1 << 63) - 1])
def test_times_at_the_ends_of_the_number_range_are_refused_like_others(
    tmp_path: Path, t_ms: int, has_upstream: bool
) -> None:
    core = Core(tmp_path, [SUM], has_upstream=has_upstream)
    assert core.write([(A, t_ms, 1.0)]).accepted == 0
    seal(core, START_MS + WIDTH_MS)
    core = core.reopened()
    assert core.head.samples() == 0


def test_a_pane_whose_reach_is_not_at_hand_is_a_gap(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM], has_upstream=True)
    base_ms = core.intake.progress.base_ms
    assert base_ms == START_MS
    core.pass_time(2 * LOOKBACK_MS)
    core.tick()
    assert ends(core, SUM)[0] == base_ms + LOOKBACK_MS


def test_panes_stay_right_when_the_samples_under_them_have_been_let_go(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM], acceptance_ms=300_000, kept_ms=LOOKBACK_MS, segment_ms=60_000)
    for k in range(400):
        core.pass_time(WIDTH_MS)
        core.write([(A, core.clock.now_ms(), float(k)), (B, core.clock.now_ms(), 1.0)])
        core.tick()
    progress = core.intake.progress
    assert progress.base_ms > START_MS
    assert core.head.samples() < 200
    for k in (1, 50, 200, 390):
        assert values(core, SUM, START_MS + k * WIDTH_MS) == {("a",): k - 1.0, ("b",): 1.0}
    answer = core.instant("sum(m)", START_MS + 50 * WIDTH_MS)
    assert (answer.tiers, at_step(answer.value, 0)) == (("summary",), {(): 50.0})


def test_samples_and_panes_survive_a_kill_and_are_served_again(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    for k in range(30):
        core.pass_time(WIDTH_MS)
        core.write([(A, core.clock.now_ms(), 0.1 * k), (B, core.clock.now_ms() - 7, -k)])
        core.tick()
    times = (START_MS, START_MS + 40 * WIDTH_MS)
    before, head = core.range("sum by (g) (m)", *times), core.head.samples()
    core = core.reopened()
    after = core.range("sum by (g) (m)", *times)
    assert before.tiers == after.tiers == ("summary", "head")
    assert core.head.samples() == head
    for step in range(41):
        assert at_step(before.value, step) == at_step(after.value, step)
    committed = core.engine.committed
    core.tick()
    assert core.engine.committed == committed


def test_a_new_aggregation_gets_the_panes_of_the_samples_at_hand(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    for k in range(30):
        core.pass_time(WIDTH_MS)
        core.write([(A, core.clock.now_ms(), float(k))])
        core.tick()
    fresh = aggregation("m > 3", ["g"], accumulators=["sum"])
    core = core.reopened([SUM, fresh])
    core.tick()
    assert values(core, fresh, START_MS + 10 * WIDTH_MS) == {("a",): 9.0}
    assert values(core, fresh, START_MS + 2 * WIDTH_MS) == {}


def test_panes_past_their_retention_are_dropped(tmp_path: Path) -> None:
    brief = aggregation("m", ["g"], accumulators=["sum"], retention_ms=600_000)
    core = Core(tmp_path, [brief])
    for _ in range(400):
        core.pass_time(WIDTH_MS)
        core.tick()
    now_ms = core.clock.now_ms()
    assert core.engine.books[brief.id].panes() <= 600_000 // WIDTH_MS + 1
    recent = [end for end in ends(core, brief) if end > now_ms - 600_000]
    assert recent == list(range(recent[0], recent[-1] + 1, WIDTH_MS))
    assert recent[-1] == core.engine.sealed_ms() // WIDTH_MS * WIDTH_MS
    assert core.instant("sum(m)", now_ms - 700_000).tiers == ("head",)


def test_a_stop_longer_than_the_lateness_leaves_a_hole_in_the_panes_that_see_it(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    core.pass_time(60_000)
    stopped_ms = core.clock.now_ms()
    core.clock.advance(120_000)
    core = core.reopened()
    back_ms = core.clock.now_ms()
    (hole,) = core.intake.progress.holes
    assert (hole.after_ms, hole.until_ms) == (stopped_ms, back_ms)
    seal(core, back_ms + 2 * LOOKBACK_MS)
    kept = core.store.get(SUM.id, START_MS, 1 << 60)
    marked = kept.ends_ms[(kept.flags & HOLE) != 0].tolist()
    assert marked == [e for e in kept.ends_ms.tolist() if e > stopped_ms and e - LOOKBACK_MS < back_ms]
    assert core.instant("sum(m)", back_ms).warnings
    assert not core.instant("sum(m)", back_ms + 2 * LOOKBACK_MS).warnings


def test_a_short_stop_leaves_no_hole(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    core.pass_time(60_000)
    core.clock.advance(LATENESS_MS)
    assert core.reopened().intake.progress.holes == ()


def test_a_tick_while_one_is_running_is_skipped_and_counted(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])

    class TickingSink:
        def send(self, output: object) -> None:
            core.tick()

    core.engine.run(TickingSink())
    assert core.engine.skipped > 0
    assert core.engine.completed == 1


def test_after_shutdown_ticks_do_nothing(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    core.engine.shutdown()
    core.pass_time(60_000)
    core.tick()
    assert ends(core, SUM) == []


def test_a_sink_that_fails_loses_nothing(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    core.write([(A, START_MS, 1.0)])
    core.pass_time(60_000)

    class Broken:
        def send(self, output: object) -> None:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        core.engine.run(Broken())
    assert core.engine.books[SUM.id].panes() == 0
    core.tick()
    assert values(core, SUM, START_MS) == {("a",): 1.0}


def test_two_engines_of_different_configs_live_in_one_process(tmp_path: Path) -> None:
    other = aggregation("m", [], accumulators=["sum"], width_ms=60_000)
    cores = [Core(tmp_path / "a", [SUM]), Core(tmp_path / "b", [other], store=MemoryStore(), lateness_ms=30_000)]
    for core in cores:
        core.write([(A, START_MS, 1.0), (B, START_MS, 2.0)])
        core.pass_time(200_000)
        core.tick()
    assert values(cores[0], SUM, START_MS) == {("a",): 1.0, ("b",): 2.0}
    minute = -(-START_MS // 60_000) * 60_000
    assert values(cores[1], other, minute) == {(): 3.0}
    assert ends(cores[0], other) == []


def test_panes_are_dirty_by_stretches_of_the_width_that_the_reach_is_no_multiple_of(tmp_path: Path) -> None:
    odd = aggregation("count_over_time(m[40s])", [], accumulators=["sum"])
    core = Core(tmp_path, [odd])
    seal(core, START_MS + 10 * WIDTH_MS)
    core.write([(A, START_MS + 3 * WIDTH_MS + 1, 1.0)])
    core.tick()
    counted = [values(core, odd, START_MS + k * WIDTH_MS).get((), 0.0) for k in range(2, 8)]
    assert counted == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_an_hour_of_silence_and_a_full_hour_end_in_the_same_finality(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    core.pass_time(2 * HOUR_MS, beat_ms=10_000)
    core.tick()
    progress = core.intake.progress
    assert progress.final_ms == progress.floor_ms == core.clock.now_ms() - HOUR_MS


def test_beside_an_upstream_a_join_is_served_where_both_sides_are_received_and_no_hole_touches_one(
    tmp_path: Path,
) -> None:
    kept = aggregation("m * on (g) n", ["g"], accumulators=["sum"])
    core, reach = Core(tmp_path, [kept], has_upstream=True), LOOKBACK_MS
    steps = [START_MS + k * WIDTH_MS for k in range(120)]
    for k in range(120):
        rows = [(A, core.clock.now_ms(), 2.0)] + ([(series("n", g="a"), core.clock.now_ms(), 3.0)] if k >= 40 else [])
        core.write(rows)
        core.pass_time(WIDTH_MS)
        core.tick()
    gone = Hole(steps[90], steps[91], "n")
    core.intake.progress = replace(core.intake.progress, holes=(gone, Hole(steps[60], steps[61], "other")))
    (coverage,) = plan(parse("sum(m * on (g) n)"), [kept], LOOKBACK_MS, 60_000).covered
    good, _ = core.summary_tier.servable(coverage, Steps(np.array(steps, np.int64), steps[0], steps[-1]))
    known = [t - reach >= steps[40] - 1 for t in steps]
    whole = [t <= steps[90] or t - reach >= steps[91] for t in steps]
    sealed = [t <= core.engine.sealed_ms() for t in steps]
    assert good.tolist() == [all(both) for both in zip(known, whole, sealed, strict=True)]
    assert 0 < good.sum() < sum(known)


def test_a_pane_is_marked_where_a_hole_of_any_metric_of_its_expression_touches_it(tmp_path: Path) -> None:
    kept = aggregation("m and on (g) rate(n[1m])", ["g"], accumulators=["sum"])
    core = Core(tmp_path, [kept])
    core.intake.progress = replace(core.intake.progress, holes=(Hole(START_MS, START_MS + 1, "n"),))
    seal(core, START_MS + 2 * LOOKBACK_MS)
    summary = core.store.get(kept.id, START_MS - WIDTH_MS, START_MS + 2 * LOOKBACK_MS)
    marked = summary.ends_ms[(summary.flags & HOLE) != 0]
    assert marked.tolist() == list(range(START_MS + WIDTH_MS, START_MS + 1 + LOOKBACK_MS, WIDTH_MS))
