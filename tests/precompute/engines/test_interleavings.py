"""Writes, ticks, kills and idle time in random order: a final pane is exactly the acknowledged samples of its reach."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from precompute.engines.base import Output
from tests.precompute.made_node import START_MS, WIDTH_MS, Core, aggregation, series

ACCEPTANCE_MS, REACH_MS = 6 * WIDTH_MS, 60_000
KEPT = aggregation(f"sum_over_time(m[{REACH_MS}ms])", ["g"], accumulators=["sum", "count"])
COUNTED = aggregation("count_over_time(m[45s])", [], accumulators=["sum"])
LABELS = [series("m", g="a"), series("m", g="b"), series("m", g="b", i="2")]


class Killed(Exception):
    """Stands for the end of the process in the middle of a tick."""


class SinkThatMayKill:
    """Commits, or ends the process before or after it, or takes so long that the tick must break off.

    Now and then a late sample comes in just before.
    """

    def __init__(self, core: Core, random: Random, write: object) -> None:
        self.core, self.random, self.write = core, random, write

    def send(self, output: Output) -> None:
        if self.random.random() < 0.3:
            self.write()  # type: ignore[operator]
        if self.random.random() < 0.05:
            raise Killed
        self.core.store.commit(output)
        if self.random.random() < 0.2:
            self.core.clock.advance(WIDTH_MS + 1000)
        if self.random.random() < 0.05:
            raise Killed


class Story:
    """One run: a core that is killed and reopened, and the samples that were acknowledged."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.random, self.acknowledged = random, dict[tuple[int, int], float]()
        self.core = Core(
            folder, [KEPT, COUNTED], acceptance_ms=ACCEPTANCE_MS, kept_ms=REACH_MS, segment_ms=4 * WIDTH_MS,
            max_future_ms=WIDTH_MS, has_upstream=random.random() < 0.5, lateness_ms=WIDTH_MS,
        )  # fmt: skip

    def write(self) -> None:
        late_ms = 0 if self.random.random() < 0.7 else self.random.randrange(ACCEPTANCE_MS + WIDTH_MS)
        late_ms -= self.random.choice((0, 0, WIDTH_MS // 2, 2 * WIDTH_MS))
        rows = [
            (self.random.randrange(len(LABELS)), self.core.clock.now_ms() - late_ms - self.random.randrange(3) * 5000)
            for _ in range(self.random.randint(1, 4))
        ]
        floor_ms, ahead_ms = self.core.intake.progress.floor_ms, self.core.clock.now_ms() + WIDTH_MS
        values = [(s, t, float(self.random.randint(1, 1000))) for s, t in rows]
        admission = self.core.write([(LABELS[s], t, v) for s, t, v in values])
        taken = [(s, t, v) for s, t, v in values if floor_ms < t <= ahead_ms]
        assert admission.accepted == len(taken)
        for s, t, v in taken:
            self.acknowledged[s, t] = max(v, self.acknowledged.get((s, t), v))

    def tick(self, may_kill: bool = True) -> None:
        try:
            if may_kill:
                self.core.engine.run(SinkThatMayKill(self.core, self.random, self.write))
            else:
                self.core.tick()
        except Killed:
            self.kill()

    def kill(self) -> None:
        self.core = self.core.reopened()

    def step(self) -> None:
        x = self.random.random()
        if x < 0.4:
            self.write()
        elif x < 0.6:
            self.tick()
        elif x < 0.63:
            self.kill()
        elif x < 0.65:
            self.core.clock.advance(self.random.choice((WIDTH_MS, 5 * WIDTH_MS, 20 * WIDTH_MS)))
        else:
            self.core.pass_time(self.random.choice((1000, 5000, WIDTH_MS)))

    def expected(self, end_ms: int, reach_ms: int, per_sample: bool) -> dict[str, float]:
        sums: dict[str, float] = {}
        for (s, t), v in self.acknowledged.items():
            if end_ms - reach_ms < t <= end_ms:
                group = dict(LABELS[s])["g"]
                sums[group] = sums.get(group, 0.0) + (1.0 if per_sample else v)
        return sums


def stored(core: Core, kept: object) -> dict[int, dict[tuple[str, ...], float]]:
    summary = core.store.get(kept.id, 0, 1 << 60)  # type: ignore[attr-defined]
    panes: dict[int, dict[tuple[str, ...], float]] = {end: {} for end in summary.ends_ms.tolist()}
    if not summary.panes:
        return panes
    rows: Sequence[int] = summary.pane_of_row().tolist()
    for pane, group, value in zip(rows, summary.group.tolist(), summary.states["sum"]["sum"].tolist(), strict=True):
        panes[int(summary.ends_ms[pane])][summary.keys[group]] = value  # type: ignore[index]
    return panes


@pytest.mark.parametrize("seed", range(60))
def test_final_panes_hold_exactly_what_was_acknowledged(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, Random(seed))
    for _ in range(120):
        story.step()
    for _ in range(6):
        story.core.pass_time(2 * WIDTH_MS)
        story.tick(may_kill=False)
    core = story.core
    for kept, reach_ms, per_sample in ((KEPT, REACH_MS, False), (COUNTED, 45_000, True)):
        panes = stored(core, kept)
        assert len(panes) > 10
        for end_ms, found in panes.items():
            right = story.expected(end_ms, reach_ms, per_sample)
            by_group = {(g,): v for g, v in right.items()} if kept is KEPT else {(): sum(right.values())}
            assert found == {k: v for k, v in by_group.items() if v}, f"pane {end_ms} of {kept.expr}"
    assert core.intake.progress.final_ms == core.intake.progress.floor_ms
    kept_ms = core.intake.progress.base_ms
    samples = sum(t > kept_ms for _, t in story.acknowledged)
    assert core.head.samples() >= samples


@pytest.mark.parametrize("seed", range(15))
def test_a_final_pane_never_changes_again(tmp_path: Path, seed: int) -> None:
    story, final = Story(tmp_path, Random(1000 + seed)), dict[int, dict[tuple[str, ...], float]]()
    for _ in range(150):
        story.step()
        final_ms, panes = story.core.intake.progress.final_ms, stored(story.core, KEPT)
        for end_ms, found in final.items():
            assert panes[end_ms] == found
        final.update({end: found for end, found in panes.items() if end <= final_ms})
    assert len(final) > 3


def test_progress_never_goes_back_over_kills(tmp_path: Path) -> None:
    story = Story(tmp_path, Random(7))
    before = story.core.intake.progress
    for _ in range(300):
        story.step()
        now = story.core.intake.progress
        assert now.floor_ms >= before.floor_ms >= before.final_ms
        assert now.final_ms >= before.final_ms
        assert now.base_ms >= before.base_ms
        before = now
    assert before.base_ms > START_MS
    assert replace(before, holes=()).final_ms > START_MS
