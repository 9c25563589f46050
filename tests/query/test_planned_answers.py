"""A planner at work never changes an answer: dashboards whose filters and zoom change, late data, restarts, and plans
that change under a query, all against exact evaluation of all samples ever sent.

`PLAN_SEEDS` in the environment is how many stories are told; without it, as many as take some seconds.
"""

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pytest

from precompute.errors import ExecutionError
from precompute.evaluate.expr import Aggregate, Number
from precompute.labels import Labels
from precompute.samples import STALE
from query.promql.parse import parse
from query.tiers.summary import Steps
from tests.precompute.made_node import LOOKBACK_MS, WIDTH_MS, Core, series
from tests.query.planned_node import MINUTE_MS, SCRAPE_MS, PlannedNode
from tests.query.test_recall import once_after
from tests.reference.compare import at_step

SEEDS = range(int(os.environ.get("PLAN_SEEDS", "2")))
ALPHA = 0.01
PANELS = (
    "sum by (job) (rate(c{F}[R]))", "sum(rate(c{F}[R]))", "topk(2, sum by (zone) (rate(c{F}[R])))",
    "sum by (job) (g{F})", "avg by (zone) (g{F})", "max without (i) (g{F})", "count by (job) (g{F} > 0)",
    "min by (job) (g{F} offset 1m)", "stddev by (job) (g{F})", "quantile by (zone) (P, g{F})", "quantile(P, g{F})",
    "sum by (zone) (g{F} * on (i, job, zone) group_left () h)", "count(count by (job) (g{F}))",
    "sum by (job) (g{F} and on (i) h > 1)", "sum(increase(c{F}[R])) / on () count(g{F})",
    "avg by (job) (max_over_time(g{F}[2m:30s]))", "sum by (job) (avg_over_time(g{F}[R]))",
    "sum by (zone) (g{F} or h{F})", "sum by (job) (g{F} * on (zone) h{F})",
)  # fmt: skip
FILTERS = ("", 'job="a"', 'job="b"', 'job!="a"', 'zone="x"', 'zone=~"x|y",job="b"')


class Story:
    """A node with a planner, its dashboards, and what befalls them, drawn."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.random, self.counter = random, 0.0
        self.node = PlannedNode(
            folder / "planned", acceptance_ms=8 * MINUTE_MS, kept_ms=8 * MINUTE_MS, segment_ms=2 * MINUTE_MS,
            head_retention_ms=30 * MINUTE_MS,
        )  # fmt: skip
        self.all = Core(folder / "all", acceptance_ms=10_000 * MINUTE_MS, kept_ms=10_000 * MINUTE_MS)
        self.targets = [self.target(i) for i in range(24)]
        self.boards = [random.sample(PANELS, 4) for _ in range(4)]
        self.asked, self.summaries, self.plans = 0, 0, set[frozenset[str]]()
        for _ in range(30):
            self.scrape()

    @property
    def core(self) -> Core:
        return self.node.core

    def target(self, i: int) -> dict[str, str]:
        return {"i": str(i), "job": self.random.choice("ab"), "zone": self.random.choice("xyz")}

    def rows(self, t_ms: int, targets: Sequence[dict[str, str]]) -> list[tuple[Labels, int, float]]:
        """One scrape; values are quarters, whose sums are exact."""
        self.counter += self.random.randint(0, 5)
        out, draw = list[tuple[Labels, int, float]](), self.random.randint
        for target in targets:
            down = self.random.random() < 0.03
            points = [("g", draw(-8, 8) / 4), ("h", float(draw(0, 3))), ("c", self.counter)]
            out += [(series(name, **target), t_ms, STALE if down else value) for name, value in points]
        return out

    # -- what may happen

    def write(self, rows: Sequence[tuple[Labels, int, float]]) -> None:
        for core in (self.core, self.all):
            core.write(rows)

    def pass_time(self, ms: int) -> None:
        for core in (self.core, self.all):
            core.pass_time(ms, 15_000)

    def scrape(self) -> None:
        self.pass_time(WIDTH_MS)
        t_ms = self.core.clock.now_ms() - self.random.choice((0, 0, 300, 2000))
        self.write(self.rows(t_ms, self.targets))
        self.core.tick()

    def late(self) -> None:
        t_ms = self.core.clock.now_ms() - self.random.randrange(7 * MINUTE_MS)
        self.write(self.rows(t_ms, [self.random.choice((self.target(self.random.randrange(50)), *self.targets))]))

    def churn(self) -> None:
        self.targets[self.random.randrange(24)] = self.target(self.random.randrange(50))

    def replan(self) -> None:
        if self.random.random() < 0.2:
            self.pass_time(self.random.choice((0, 0, 11 * MINUTE_MS)))
        self.node.replanner.run()
        self.plans.add(frozenset(a.id for a in self.node.planned))

    def tick(self) -> None:
        self.core.tick()

    def happen(self) -> None:
        what = (self.scrape, self.late, self.tick, self.replan, self.churn, self.node.killed)
        self.random.choices(what, (40, 25, 15, 30, 3, 1))[0]()

    # -- what is asked

    def load(self) -> None:
        """A dashboard: one zoom, one filter, all its panels; once more, as it refreshes."""
        random, step_ms = self.random, self.random.choice((WIDTH_MS, WIDTH_MS, 2 * WIDTH_MS, 4 * WIDTH_MS))
        range_s = max(step_ms + SCRAPE_MS, 4 * SCRAPE_MS) // 1000
        board, chosen, phi = random.choice(self.boards), random.choice(FILTERS), random.choice((0.5, 0.9, 0.99))
        end_ms = self.core.clock.now_ms() // step_ms * step_ms
        for panel in board * random.choice((1, 2, 3)):
            text = panel.replace("F", chosen).replace("R", f"{range_s}s").replace("P", str(phi))
            if random.random() < 0.2:
                moments = ((self.core.summary_tier, "read"), (self.core.summary_tier, "servable"))
                event = random.choice((self.late, self.node.replanner.run, self.tick))
                then = once_after(*random.choice(moments), lambda event=event: (event(), self.tick()))  # type: ignore[misc]
                with suppress(ExecutionError), then:
                    self.core.queries.range(text, end_ms - 12 * step_ms, end_ms, step_ms)
            self.check(text, end_ms - random.choice((0, 6, 20)) * step_ms, end_ms, step_ms)

    def check(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> None:
        self.asked += 1
        try:
            exact = self.all.evaluate(parse(text), np.arange(start_ms, end_ms + 1, step_ms))
        except ExecutionError:
            self.check_error(text, start_ms, end_ms, step_ms)
            return
        answer = self.core.range(text, start_ms, end_ms, step_ms)
        self.summaries += "summary" in answer.tiers
        held, _ = self.core.head_tier.covered(parse(text), Steps(answer.times, start_ms, end_ms, step_ms), LOOKBACK_MS)
        near = neighbours(self.all, text, answer.times) if text.startswith("quantile") else None
        for step in range(len(answer.times)):
            got, wanted = at_step(answer.value, step), at_step(exact, step)
            assert isinstance(got, dict) and isinstance(wanted, dict)
            if not held[step] and not got:  # left out with a warning
                continue
            assert got.keys() == wanted.keys(), (text, int(answer.times[step]), got, wanted)
            for key, value in wanted.items():
                scale = 1e-9 * (abs(value) + 1e-3) if near is None else ALPHA * near[step][key] + 1e-9
                assert abs(got[key] - value) <= scale, (text, int(answer.times[step]), key, got[key], value)


    def check_error(self, text: str, *span: int) -> None:
        """What is an error in PromQL is one here, if none of its steps are left out."""
        try:
            answer = self.core.range(text, *span)
        except ExecutionError:
            return
        assert any("left out" in warning for warning in answer.warnings), text


def neighbours(core: Core, text: str, times: np.ndarray) -> list[dict[Labels, float]]:
    """The larger magnitude of the two values beside each group's quantile, by step."""
    expr = parse(text)
    assert isinstance(expr, Aggregate) and isinstance(expr.parameter, Number)
    inner, out = core.evaluate(expr.expr, times), list[dict[Labels, float]]()
    for step in range(len(times)):
        rows = at_step(inner, step)
        assert isinstance(rows, dict)
        groups = dict[Labels, list[float]]()
        for labels, value in rows.items():
            groups.setdefault(tuple((n, v) for n, v in labels if n in expr.labels), []).append(value)
        out.append({key: _beside(expr.parameter.value, sorted(values)) for key, values in groups.items()})
    return out


def _beside(phi: float, ordered: list[float]) -> float:
    rank = phi * (len(ordered) - 1)
    return max(abs(ordered[math.floor(rank)]), abs(ordered[min(len(ordered) - 1, math.floor(rank) + 1)]))


@pytest.mark.parametrize("seed", SEEDS)
def test_with_a_planner_at_work_every_answer_is_within_its_bound(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    story = Story(tmp_path, random)
    for _ in range(60):
        random.choices((story.happen, story.load), (5, 3))[0]()
    assert story.asked > 60 and story.summaries > story.asked / 8 and any(story.plans)
