"""What is kept changes while all runs: at once, filled from the head, and never to a wrong answer."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from precompute.aggregations import Aggregation
from precompute.definitions import Definition, Kept, MemoryDefinitions, definition_of
from precompute.engines.base import Output, Panes
from precompute.errors import ExecutionError, KeptByConfig, LimitExceeded, NotKept
from precompute.in_force import MOST, PlanInForce, in_service
from precompute.pane_book import NONE
from precompute.sinks import DirectSink
from precompute.stores.base import StoreError
from query.promql.parse import parse
from tests.precompute.made_node import (
    HOUR_MS,
    LATENESS_MS,
    START_MS,
    WIDTH_MS,
    Core,
    aggregation,
    series,
)  # fmt: skip
from tests.reference.compare import at_step

SUM = aggregation("m", ["g"], accumulators=["sum", "count"])
MAX = aggregation("m", ["g"], accumulators=["max"])
RATE = aggregation("sum_over_time(m[1m])", ["g"], accumulators=["sum"])
A, B = series("m", g="a"), series("m", g="b")
QUERY = "sum by (g) (m)"


def plan_of(core: Core, *kept: Kept, definitions: MemoryDefinitions | None = None) -> PlanInForce:
    """As after a restart: all but the config's is written down."""
    written = {one.aggregation.id: definition_of(one) for one in kept if one.origin != "config"}
    if definitions is None:
        definitions = MemoryDefinitions()
        definitions.change(written, lambda _: written)
    return PlanInForce(core.engine, definitions, kept, lambda: None)


def running(folder: Path, *kept: Aggregation, panes: int = 20) -> Core:
    """A few minutes of samples, ticked."""
    core = Core(folder, kept)
    for k in range(panes):
        core.write([(A, core.clock.now_ms(), float(k)), (B, core.clock.now_ms(), 2.0 * k)])
        core.pass_time(WIDTH_MS)
        core.tick()
    return core


def sealed(core: Core) -> int:
    return core.engine.sealed_ms() // WIDTH_MS * WIDTH_MS


def asked(core: Core, text: str = QUERY) -> tuple[str, ...]:
    return core.range(text, START_MS, sealed(core)).tiers


def test_what_is_created_is_served_after_one_tick_with_its_whole_history(tmp_path: Path) -> None:
    core = running(tmp_path)
    assert asked(core) == ("head",)
    exact = core.range(QUERY, START_MS, sealed(core)).value
    plan_of(core).create(SUM, pinned=True)
    assert asked(core) == ("head",)
    core.tick()
    answer = core.range(QUERY, START_MS, sealed(core))
    assert answer.tiers == ("summary",)
    for place in range(len(answer.times)):
        assert at_step(answer.value, place) == at_step(exact, place)


def test_new_aggregations_get_their_newest_panes_before_anyones_history(tmp_path: Path) -> None:
    core = running(tmp_path, panes=300)
    plan_of(core).switch([SUM, RATE])
    sent: list[tuple[str, int]] = []

    class Noting(DirectSink):
        def send(self, output: Output) -> None:
            sent.extend((name, int(summary.ends_ms[-1])) for name, summary in output)
            super().send(output)

    core.engine.run(Noting(core.store))
    assert sent[:2] == [(SUM.id, sealed(core)), (RATE.id, sealed(core))]
    assert len(sent) > 2


def test_the_history_of_one_that_is_new_is_not_written_again_for_the_others(tmp_path: Path) -> None:
    core = running(tmp_path, SUM)
    before, plan = core.engine.committed, plan_of(core, Kept(SUM, "config", True))
    plan.create(MAX, pinned=True)
    core.tick()
    assert core.engine.committed - before == core.engine.books[MAX.id].panes()


def test_what_is_deleted_is_served_by_the_head_at_once(tmp_path: Path) -> None:
    core = running(tmp_path, SUM)
    assert asked(core) == ("summary",)
    plan_of(core, Kept(SUM, "api", True)).delete(SUM.id)
    assert asked(core) == ("head",)
    core.tick()
    assert core.engine.books == {}


def test_what_comes_back_within_the_hour_has_the_panes_that_the_head_no_longer_reaches(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM], acceptance_ms=600_000, kept_ms=300_000, segment_ms=60_000, head_retention_ms=600_000)
    for k in range(200):
        core.write([(A, core.clock.now_ms(), float(k))])
        core.pass_time(WIDTH_MS)
        core.tick()
    plan = plan_of(core, Kept(SUM, "api", True))
    plan.delete(SUM.id)
    core.pass_time(60_000)
    core.tick()
    old_ms = START_MS + 20 * WIDTH_MS
    with pytest.raises(ExecutionError, match="not held"):
        core.instant(QUERY, old_ms)
    plan.create(SUM, pinned=True)
    assert core.instant(QUERY, old_ms).tiers == ("summary",)
    plan.delete(SUM.id)
    core.pass_time(HOUR_MS)
    core.tick()
    assert core.store.aggregations() == ()


def test_a_batch_under_way_commits_nothing_for_what_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = running(tmp_path, SUM)
    core.write([(A, core.clock.now_ms() - 1, 5.0)])
    core.pass_time(WIDTH_MS + LATENESS_MS)
    held = core.engine.source

    class Deleting:
        """The head, which is read while the aggregation is deleted."""

        def __getattr__(self, name: str) -> object:
            core.engine.replace([])
            return getattr(held, name)

    monkeypatch.setattr(core.engine, "source", Deleting())
    core.tick()
    assert core.engine.aggregations == ()
    assert core.store.ends(SUM.id, core.intake.progress.final_ms, 1 << 60).tolist() == []


def test_a_store_that_fails_leaves_all_as_it_was(tmp_path: Path) -> None:
    core = running(tmp_path, SUM)

    class Full(MemoryDefinitions):
        def change(self, names: object, settle: object) -> Mapping[str, Definition]:
            raise StoreError("the disk is full")

    plan = plan_of(core, Kept(SUM, "api", True), definitions=Full())
    for change in (lambda: plan.create(MAX, True), lambda: plan.delete(SUM.id), lambda: plan.switch([MAX])):
        with pytest.raises(StoreError, match="full"):
            change()
        assert [one.aggregation for one in plan.kept] == [SUM]
        assert core.engine.aggregations == (SUM,)
    core.tick()
    assert asked(core) == ("summary",)


def test_a_switch_keeps_what_is_pinned_and_replaces_the_rest(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    plan = plan_of(core, Kept(SUM, "config", True))
    plan.switch([MAX])
    assert plan.kept == (Kept(SUM, "config", True), Kept(MAX, "planner", False))
    plan.pin(MAX.id, True)
    plan.switch([RATE, SUM])
    assert [one.aggregation for one in plan.kept] == [SUM, MAX, RATE]
    plan.pin(MAX.id, False)
    plan.switch([])
    assert plan.kept == (Kept(SUM, "config", True),)
    assert core.engine.aggregations == (SUM,)


def test_a_switch_keeps_what_is_kept_for_longer_and_never_for_less(tmp_path: Path) -> None:
    core, definitions, told = Core(tmp_path), MemoryDefinitions(), list[int]()
    plan = PlanInForce(core.engine, definitions, (), lambda: told.append(1))
    longer = replace(SUM, retention_ms=2 * SUM.retention_ms)
    for wanted in (SUM, longer, SUM):
        plan.switch([wanted])
    assert plan.kept == (Kept(longer, "planner", False),) and core.engine.aggregations == (longer,)
    assert [one.kept(parse) for one in definitions.definitions()] == list(plan.kept)
    assert len(told) == 2


def test_a_switch_leaves_the_retention_of_what_is_pinned_as_it_was_said(tmp_path: Path) -> None:
    kept = Kept(SUM, "config", True), Kept(MAX, "api", True), Kept(RATE, "api", False)
    plan = plan_of(Core(tmp_path, [SUM, MAX, RATE]), *kept)
    longer = replace(RATE, retention_ms=2 * RATE.retention_ms)
    plan.switch([longer, *(replace(a, retention_ms=2 * a.retention_ms) for a in (SUM, MAX))])
    assert plan.kept == (*kept[:2], Kept(longer, "api", False))


def test_what_the_config_keeps_is_changed_nowhere_else(tmp_path: Path) -> None:
    plan = plan_of(Core(tmp_path, [SUM]), Kept(SUM, "config", True))
    for change in (
        lambda: plan.delete(SUM.id), lambda: plan.pin(SUM.id, False), lambda: plan.create(SUM, pinned=True),
    ):  # fmt: skip
        with pytest.raises(KeptByConfig):
            change()
    with pytest.raises(NotKept):
        plan.delete(MAX.id)


def test_definitions_bring_back_what_they_were_made_of(tmp_path: Path) -> None:
    core, definitions = Core(tmp_path), MemoryDefinitions()
    plan = plan_of(core, definitions=definitions)
    odd = aggregation('rate(m{g=~"a|\\"b",h!=""}[5m]) * 2 > bool 1', ["h"], without=True, accumulators=["kll(k=400)"])
    joined = aggregation("m * on (g) group_left (n) max_over_time((b - 1)[5m:1m]) unless c offset 1m", ["n"])
    plan.create(odd, pinned=False)
    plan.switch([odd, MAX])
    plan.create(joined, pinned=True)
    assert [one.kept(parse) for one in definitions.definitions()] == sorted(plan.kept, key=lambda k: k.aggregation.id)
    plan.delete(odd.id)
    plan.delete(joined.id)
    assert definitions.definitions() == (definition_of(Kept(MAX, "planner", False)),)
    assert isinstance(definitions.definitions()[0], Definition)


def test_there_is_a_most(tmp_path: Path) -> None:
    plan = plan_of(Core(tmp_path))
    many = [aggregation("m", [f"l{k}"], accumulators=["sum"]) for k in range(MOST)]
    plan.switch(many)
    with pytest.raises(LimitExceeded, match="2000"):
        plan.create(SUM, pinned=True)
    assert len(plan.kept) == MOST


def test_usage_says_for_which_queries_and_when(tmp_path: Path) -> None:
    core = running(tmp_path, SUM)
    for text in ("sum(m)", "count(m)", "sum by (g) (m)", 'sum(m{g="a"})', "count(m)", "max(m)"):
        core.instant(text, sealed(core))
    used = core.usage.of(SUM.id)
    assert (used.hits, used.last_ms) == (5, core.clock.now_ms())
    assert used.examples == ("count(m)", 'sum(m{g="a"})', "sum by (g) (m)")
    assert core.usage.of(MAX.id).hits == 0


@pytest.mark.parametrize("seed", range(6))
def test_no_story_of_changes_and_late_data_has_a_wrong_answer(tmp_path: Path, seed: int) -> None:
    """Beside a node that keeps all samples and evaluates exactly."""
    draw = random.Random(seed)
    times = {"acceptance_ms": 120_000, "segment_ms": 30_000}
    core = Core(tmp_path / "a", kept_ms=60_000, head_retention_ms=180_000, **times)
    exact = Core(tmp_path / "b", clock=core.clock, kept_ms=10 * HOUR_MS, **times)
    plan, several = plan_of(core), [RATE, aggregation("sum_over_time(m[1m])", (), accumulators=["sum", "max"])]
    text, of_summaries = parse("sum by (g) (sum_over_time(m[1m]))"), 0
    for _ in range(80):
        late_ms = draw.choice((0, 0, draw.randrange(110_000)))
        for node in (core, exact):
            rows = [(one, core.clock.now_ms() - late_ms, float(late_ms % 97 + k)) for k, one in enumerate((A, B))]
            node.write(rows)
        core.pass_time(WIDTH_MS)
        exact.intake.heartbeat()
        if draw.random() < 0.8:
            core.tick()
        if draw.random() < 0.2:
            plan.switch(draw.sample(several, draw.randrange(3)))
        start_ms = max(START_MS, sealed(core) - draw.randrange(60) * WIDTH_MS)
        answer = core.queries.range(str(text), start_ms, sealed(core), WIDTH_MS)
        wanted = exact.evaluate(text, np.arange(start_ms, sealed(core) + 1, WIDTH_MS))
        of_summaries += "summary" in answer.tiers
        for place in range(len(answer.times)):
            if ours := at_step(answer.value, place):
                assert ours == at_step(wanted, place), f"seed {seed}, {answer.times[place]}"
    assert of_summaries > 10


def test_what_is_suspended_serves_nothing_after_a_restart_until_it_is_pinned(tmp_path: Path) -> None:
    core, definitions = running(tmp_path), MemoryDefinitions()
    plan = plan_of(core, definitions=definitions)
    plan.switch([SUM, MAX])
    core.tick()
    plan.suspend(SUM.id)
    assert asked(core) == ("head",)
    kept = [one.kept(parse) for one in definitions.definitions()]
    assert {one.aggregation: one.suspended for one in kept} == {SUM: True, MAX: False}
    again = core.reopened(in_service(kept))
    plan = plan_of(again, *kept, definitions=definitions)
    assert again.engine.aggregations == (MAX,) and asked(again) == ("head",)
    assert plan.pin(SUM.id, pinned=True) == Kept(SUM, "planner", pinned=True)
    again.tick()
    assert asked(again) == ("summary",)
    assert not any(one.suspended for one in definitions.definitions())


def test_no_plan_lets_go_of_what_is_suspended_but_to_delete_or_create_it_does(tmp_path: Path) -> None:
    core = running(tmp_path)
    plan = plan_of(core)
    plan.switch([SUM, MAX])
    for one in (SUM, MAX):
        plan.suspend(one.id)
    for wanted in ([], [SUM]):
        plan.switch(wanted)
        assert len(plan.kept) == 2 and not core.engine.aggregations
    plan.delete(SUM.id)
    plan.create(MAX, pinned=False)
    plan.switch([SUM, MAX])
    assert set(core.engine.aggregations) == {SUM, MAX}


def test_of_the_config_only_a_pin_lifts_a_suspension(tmp_path: Path) -> None:
    core = running(tmp_path, SUM)
    plan = plan_of(core, Kept(SUM, "config", True))
    plan.suspend(SUM.id)
    for change in (lambda: plan.delete(SUM.id), lambda: plan.pin(SUM.id, False), lambda: plan.create(SUM, True)):
        with pytest.raises(KeptByConfig):
            change()
    assert not plan.pin(SUM.id, True).suspended and core.engine.aggregations == (SUM,)
    with pytest.raises(KeptByConfig):
        plan.pin(SUM.id, True)


def test_what_is_suspended_leaves_no_pane_and_is_filled_anew_when_it_is_back(tmp_path: Path) -> None:
    core = running(tmp_path, SUM, MAX, panes=2 * HOUR_MS // WIDTH_MS)
    plan = plan_of(core, Kept(SUM, "planner", False), Kept(MAX, "planner", False))
    held = core.store.ends(SUM.id, 0, sealed(core))
    assert held[0] <= core.intake.progress.final_ms, "some can no longer change"
    plan.suspend(SUM.id)
    assert not len(core.store.ends(SUM.id, 0, sealed(core))) and core.engine.disowned == 1
    plan.delete(SUM.id)
    plan.switch([SUM])
    assert not core.engine.book(SUM).panes(), "nothing is taken over"
    core.tick()
    seen, final = core.engine.seen(SUM, held), held <= core.intake.progress.final_ms
    assert set(seen.tolist()) == {NONE, core.intake.applied}, "as far back as there are samples"
    assert (seen[final] == core.intake.applied).any()


def test_after_a_start_nothing_is_left_of_what_was_suspended_before(tmp_path: Path) -> None:
    core = running(tmp_path, SUM, MAX)
    again = core.reopened([])
    assert again.store.aggregations() == tuple(sorted((SUM.id, MAX.id)))
    again.engine.load(wrong=[SUM.id])
    assert again.store.aggregations() == (MAX.id,)
    again.engine.replace([SUM, MAX])
    assert [again.engine.book(one).panes() > 0 for one in (SUM, MAX)] == [False, True]


def test_what_cannot_be_written_down_is_out_of_service_all_the_same(tmp_path: Path) -> None:
    class Failing(MemoryDefinitions):
        def change(self, names: object, settle: object) -> Mapping[str, Definition]:
            raise StoreError("no room")

    core = running(tmp_path, SUM)
    plan = plan_of(core, Kept(SUM, "config", True), definitions=Failing())
    with pytest.raises(StoreError):
        plan.suspend(SUM.id)
    assert plan.find(SUM.id).suspended and not core.engine.aggregations
    plan.adopt([Kept(SUM, "config", True)])
    assert plan.find(SUM.id).suspended and not core.engine.aggregations


class Several:
    """Query engines that share what is written down, all of which know the same; then one of them changes that."""

    def __init__(self, *kept: Kept, config: Sequence[Aggregation] = ()) -> None:
        self.definitions = MemoryDefinitions()
        written = {one.aggregation.id: definition_of(one) for one in kept}
        self.definitions.change(written, lambda _: written)
        self.engines = [NoPanes(), NoPanes()]
        known = [*(Kept(a, "config", True) for a in config), *kept]
        self.one, self.leader = (
            PlanInForce(cast(Panes, engine), self.definitions, known, lambda: None) for engine in self.engines
        )

    @property
    def written(self) -> tuple[Kept, ...]:
        return tuple(one.kept(parse) for one in self.definitions.definitions())

    def agree(self) -> None:
        """The leader has what is written down in force."""
        assert set(self.leader.kept) == set(self.written)
        assert set(self.engines[1].aggregations) == set(in_service(self.written))


class NoPanes:
    """An engine that computes nothing."""

    def __init__(self) -> None:
        self.aggregations: Sequence[Aggregation] = ()

    def replace(self, aggregations: Sequence[Aggregation], wrong: Collection[str] = ()) -> None:
        self.aggregations = tuple(aggregations)


PLANNED = Kept(SUM, "planner", False)
LONGER = replace(SUM, retention_ms=2 * SUM.retention_ms)


@pytest.mark.parametrize("wanted", [[MAX], [LONGER, MAX]], ids=["retired", "kept for longer"])
@pytest.mark.parametrize(
    ("change", "after"),
    [
        (lambda plan: plan.pin(SUM.id, True), replace(PLANNED, pinned=True)),
        (lambda plan: plan.suspend(SUM.id), replace(PLANNED, suspended=True)),
        (lambda plan: plan.delete(SUM.id), None),
        (lambda plan: plan.create(SUM, pinned=False), Kept(SUM, "api", False)),
    ],
    ids=["pinned", "suspended", "deleted", "created"],
)
def test_a_planner_undoes_nothing_that_it_has_not_heard_of(
    change: Callable[[PlanInForce], object], after: Kept | None, wanted: list[Aggregation]
) -> None:
    both = Several(PLANNED)
    change(both.one)
    both.leader.switch(wanted)
    assert set(both.written) == {Kept(MAX, "planner", False), after} - {None}
    both.agree()


def test_a_planner_takes_over_what_was_created_meanwhile() -> None:
    both = Several()
    both.one.create(SUM, pinned=True)
    both.leader.switch([LONGER])
    assert both.written == (Kept(SUM, "api", True),)
    both.agree()


def test_a_pin_changes_only_whether_it_is_pinned() -> None:
    both = Several(PLANNED)
    both.leader.switch([LONGER])
    assert both.one.pin(SUM.id, True) == Kept(LONGER, "planner", True)
    both.leader.suspend(SUM.id)
    assert both.one.pin(SUM.id, False) == Kept(LONGER, "planner", False, suspended=True)
    assert both.one.pin(SUM.id, True) == Kept(LONGER, "planner", True)
    assert both.written == (Kept(LONGER, "planner", True),)


def test_a_suspension_changes_nothing_else_and_brings_nothing_back() -> None:
    both = Several(PLANNED, Kept(MAX, "api", False))
    both.one.pin(SUM.id, True)
    both.one.delete(MAX.id)
    both.leader.suspend(SUM.id)
    both.leader.suspend(MAX.id)
    assert both.written == (Kept(SUM, "planner", True, suspended=True),)
    both.agree()


def test_what_another_has_deleted_is_not_pinned() -> None:
    both = Several(PLANNED)
    both.one.delete(SUM.id)
    with pytest.raises(NotKept):
        both.leader.pin(SUM.id, True)
    assert both.written == ()


def test_of_the_config_a_suspension_is_written_down_and_lifted_whoever_says_so() -> None:
    both = Several(config=[SUM])
    both.one.suspend(SUM.id)
    assert both.written == (Kept(SUM, "config", True, suspended=True),)
    both.leader.suspend(SUM.id)
    assert both.leader.pin(SUM.id, True) == Kept(SUM, "config", True)
    assert both.written == (Kept(SUM, "config", True),)


def test_a_pin_is_told_to_the_others() -> None:
    told, definitions = list[int](), MemoryDefinitions()
    plan = PlanInForce(cast(Panes, NoPanes()), definitions, (), lambda: told.append(1))
    plan.create(SUM, pinned=False)
    plan.pin(SUM.id, True)
    plan.pin(SUM.id, True)
    assert len(told) == 2
