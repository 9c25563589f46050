"""Stamps change at the steps that a change touches, and never back."""

from pathlib import Path

import numpy as np
import pytest

from precompute.samples import I64, Bool
from precompute.touched import Touched
from query.assign import HERE, SUMMARY
from query.plan import plan
from query.promql.parse import parse
from query.stamps import Stamps
from query.tiers.summary import Steps
from tests.precompute.made_node import HOUR_MS, LOOKBACK_MS, START_MS, WIDTH_MS, Core, aggregation, series

KEPT = [aggregation("m", ["g"]), aggregation("rate(c[1m])", ["g"])]


@pytest.mark.parametrize(
    ("text", "looking_s"),
    [
        ("sum(rate(x[30s]))", [30, 45]),
        ("x offset 30s", [60, 75]),
        ("x - x offset 30s", [30, 45, 60, 75]),
        ("x offset -30s", [0, 15]),
        ("max_over_time((x - 1)[15s:15s])", [30, 45, 60]),  # 60 as well: as if the window began at 45, not after it
        ("x @ 30", list(range(0, 121, 15))),
        ("x @ 60", []),
    ],
)
def test_late_data_changes_the_stamps_of_the_steps_that_look_at_it(text: str, looking_s: list[int]) -> None:
    # width 15:  (0, 15] (15, 30] (30, 45] (45, 60]; a sample at 20 s lies in the second
    touched, at = Touched(15_000), np.arange(0, 120_001, 15_000)
    touched.note(np.arange(0, 200_001, 5000), 1)
    stamps, steps = Stamps(touched, lambda _, ends: ends, int), Steps(at, 0, 120_000, 15_000)
    before = stamps.newest(parse(text), steps, 30_000)
    touched.note(np.array([20_000]), 2)
    after = stamps.newest(parse(text), steps, 30_000)
    assert (at[before != after] / 1000).tolist() == looking_s


def running(folder: Path) -> Core:
    """Ten minutes, scraped and ticked on the grid."""
    core = Core(folder, KEPT, acceptance_ms=HOUR_MS // 4, kept_ms=HOUR_MS // 4, segment_ms=60_000)
    for k in range(40):
        core.pass_time(WIDTH_MS)
        core.write([(series(name, g="a"), core.clock.now_ms(), float(k)) for name in ("m", "c")])
        core.tick()
    return core


STEPS = Steps(np.arange(START_MS, START_MS + 600_000, WIDTH_MS), START_MS, START_MS + 600_000, WIDTH_MS)
MIXED = plan(parse("sum(m) / sum(rate(c[1m])) + sum(rate(c[30s]))"), KEPT, LOOKBACK_MS, 60_000)


def stamp(core: Core, served: int) -> I64:
    """Of the steps, with what is covered served like that."""
    codes = np.zeros((len(MIXED.nodes), len(STEPS.times)), np.int8)
    for node in MIXED.nodes:
        codes[node.number] = HERE if node.coverage is None else served
    return Stamps(core.intake.touched, core.engine.seen, int).of(MIXED, codes, STEPS, LOOKBACK_MS)


def changed(before: I64, after: I64) -> Bool:
    return np.asarray((before != after).any(axis=0))


def test_what_is_not_served_by_summaries_has_the_same_stamps_whatever_is_kept(tmp_path: Path) -> None:
    core = running(tmp_path)
    codes = np.full((len(MIXED.nodes), len(STEPS.times)), HERE, np.int8)
    stamps = Stamps(core.intake.touched, core.engine.seen, int)
    with_all = stamps.of(MIXED, codes, STEPS, LOOKBACK_MS)
    for kept in ([], KEPT[:1], KEPT[1:]):
        other = plan(MIXED.expr, kept, LOOKBACK_MS, 60_000)
        assert (stamps.of(other, codes, STEPS, LOOKBACK_MS) == with_all).all()


def test_a_step_that_passes_to_another_tier_has_another_stamp(tmp_path: Path) -> None:
    core = running(tmp_path)
    assert changed(stamp(core, SUMMARY), stamp(core, HERE)).all()
    assert not changed(stamp(core, SUMMARY), stamp(core, SUMMARY)).any()


def test_a_replaced_summary_changes_the_stamps_of_its_pane(tmp_path: Path) -> None:
    core = running(tmp_path)
    before, late_ms = stamp(core, SUMMARY), START_MS + 300_000 - 1
    core.write([(series("other"), late_ms, 1.0)])
    core.tick()
    # sum(m) looks back by five minutes, and all else by less
    touches = (STEPS.times >= late_ms) & (STEPS.times - LOOKBACK_MS < late_ms)
    assert changed(before, stamp(core, SUMMARY)).tolist() == touches.tolist()


def test_stamps_of_summaries_do_not_fall_back_when_the_samples_go(tmp_path: Path) -> None:
    """The newest entry near a pane does, as soon as what came late is no longer held."""
    core = running(tmp_path)
    before, newest = stamp(core, SUMMARY), near(core)
    core.write([(series("m", g="a"), START_MS + 59_000, 5.0)])
    core.tick()
    after = stamp(core, SUMMARY)
    assert changed(before, after)[4:].any()
    for _ in range(120):
        core.pass_time(WIDTH_MS)
        core.write([(series("m", g="a"), core.clock.now_ms(), 1.0)])
        core.tick()
    assert (near(core) <= newest)[:20].all()
    summaries = [row for row, node in enumerate(rows()) if node == "summary"]
    assert (stamp(core, SUMMARY)[summaries] == after[summaries]).all()


def near(core: Core) -> I64:
    return Stamps(core.intake.touched, core.engine.seen, int).newest(parse("m"), STEPS, LOOKBACK_MS)


def rows() -> list[str]:
    """What each row of a stamp speaks of."""
    out = ["tier"] * len(MIXED.nodes)
    for node in MIXED.nodes:
        out += ["summary"] * 2 * (node.coverage is not None)
        out += ["head"] * (bool(node.selectors) and not node.children)
    return out
