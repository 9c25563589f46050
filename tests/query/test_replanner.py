"""What queries ask again and again is kept, and what nobody asks for any more goes."""

from pathlib import Path

import pytest

from precompute.planner.cost import keeping
from precompute.planner.measured import Stopped
from precompute.stores.base import StoreError
from query.replanner import Replanner
from tests.precompute.made_node import HOUR_MS, START_MS, WIDTH_MS, Core, aggregation, series
from tests.query.planned_node import MINUTE_MS, SCRAPE_MS, PlannedNode

QUERY = "sum by (job) (rate(c[1m]))"


def filled(folder: Path, *pinned: object, panes: int = 24, **of_core: object) -> PlannedNode:
    """A few minutes of 24 series of two metrics."""
    node = PlannedNode(folder, *pinned, **of_core)  # type: ignore[arg-type]
    for k in range(panes):
        scrape(node.core, k)
    return node


def scrape(core: Core, k: int) -> None:
    rows = [
        (series(name, job=f"j{i % 3}", zone=f"z{i % 2}", i=str(i)), core.clock.now_ms(), float(k * (i + 1)))
        for i in range(24) for name in ("c", "g")
    ]  # fmt: skip
    core.write(rows)
    core.pass_time(WIDTH_MS)
    core.tick()


def ask(node: PlannedNode, text: str, times: int = 1, step_ms: int = WIDTH_MS) -> tuple[str, ...]:
    tiers: tuple[str, ...] = ()
    for _ in range(times):
        end_ms = node.sealed_ms() // step_ms * step_ms
        tiers = node.core.range(text, end_ms - 8 * step_ms, end_ms, step_ms).tiers
    return tiers


def test_what_is_asked_a_third_time_is_served_from_summaries_after_the_next_plan_and_tick(tmp_path: Path) -> None:
    node = filled(tmp_path)
    exact = node.core.range(QUERY, START_MS + 2 * MINUTE_MS, node.sealed_ms()).value
    assert ask(node, QUERY, 1) == ("head",)
    node.replanner.run()
    assert not node.planned
    assert ask(node, QUERY, 1) == ("head",)
    node.replanner.run()
    assert [(str(a.expr), a.labels) for a in node.planned] == [("rate(c[1m])", ("job",))]
    node.core.tick()
    answer = node.core.range(QUERY, START_MS + 2 * MINUTE_MS, node.sealed_ms())
    assert answer.tiers == ("summary",)
    assert (answer.value.values == exact.values).all()  # type: ignore[union-attr]


def test_other_filters_share_what_is_kept_and_other_labels_widen_it(tmp_path: Path) -> None:
    node = filled(tmp_path)
    for value in ("j0", "j1", "j2"):
        ask(node, f'sum by (zone) (rate(c{{job="{value}"}}[1m]))')
    node.replanner.run()
    node.core.tick()
    assert [a.labels for a in node.planned] == [("job", "zone")]
    assert ask(node, 'sum by (zone) (rate(c{job="j9"}[1m]))') == ("summary",)
    assert ask(node, QUERY, 3) == ("summary",)


def test_steps_of_the_queries_are_the_panes(tmp_path: Path) -> None:
    node = filled(tmp_path, panes=60)
    ask(node, QUERY, 3, 4 * WIDTH_MS)
    node.replanner.run()
    assert [a.width_ms for a in node.planned] == [4 * WIDTH_MS]
    ask(node, QUERY, 1)
    node.replanner.run()
    node.core.tick()
    assert min(a.width_ms for a in node.planned) == WIDTH_MS
    assert ask(node, QUERY) == ("summary",)


def zoomed(node: PlannedNode, span: str, step_ms: int, times: int = 1) -> tuple[str, ...]:
    return ask(node, f"sum by (job) (rate(c[{span}]))", times, step_ms)


def test_the_zooms_of_a_query_are_one_demand_and_a_new_zoom_is_planned_at_once(tmp_path: Path) -> None:
    node = filled(tmp_path, panes=60)
    zoomed(node, "1m", WIDTH_MS, 3)
    node.replanner.run()
    assert zoomed(node, "75s", MINUTE_MS) == ("head",)
    node.replanner.run()
    (kept,) = node.replanner.made.kept
    assert [(str(a.expr), a.width_ms) for a in kept.aggregations] == [
        ("rate(c[1m])", WIDTH_MS), ("rate(c[1m15s])", MINUTE_MS)
    ]  # fmt: skip
    assert [m.step_ms for demand in kept.demands for m in demand.members] == [WIDTH_MS, MINUTE_MS]
    node.core.tick()
    assert zoomed(node, "75s", MINUTE_MS) == ("summary",)


@pytest.mark.parametrize(("span", "step_ms"), [("2m", MINUTE_MS), ("75s", 2 * MINUTE_MS), ("5m", WIDTH_MS)])
def test_a_range_that_does_not_follow_its_step_is_no_zoom(tmp_path: Path, span: str, step_ms: int) -> None:
    node = filled(tmp_path, panes=60)
    zoomed(node, "1m", WIDTH_MS, 3)
    zoomed(node, span, step_ms)
    node.replanner.run()
    assert [str(a.expr) for a in node.planned] == ["rate(c[1m])"]


def test_of_a_family_only_the_zooms_that_pinned_aggregations_do_not_serve_are_planned(tmp_path: Path) -> None:
    node = filled(tmp_path, aggregation("rate(c[1m])", ["job"], accumulators=["sum"]), panes=60)
    zoomed(node, "1m", WIDTH_MS, 3)
    zoomed(node, "75s", MINUTE_MS, 3)
    node.replanner.run()
    assert [(str(a.expr), a.width_ms) for a in node.planned] == [("rate(c[1m15s])", MINUTE_MS)]


def test_what_a_union_replaces_goes_as_soon_as_the_union_has_its_panes(tmp_path: Path) -> None:
    node = filled(tmp_path)
    ask(node, QUERY, 3)
    node.replanner.run()
    node.core.tick()
    ask(node, "max by (job, zone) (rate(c[1m]))", 3)
    node.replanner.run()
    assert [a.labels for a in node.planned] == [("job", "zone"), ("job",)]
    node.replanner.run()
    assert len(node.planned) == 2, "the union has no panes yet"
    node.core.tick()
    node.replanner.run()
    assert [a.labels for a in node.planned] == [("job", "zone")]
    assert ask(node, QUERY) == ("summary",)


def test_what_a_union_replaces_stays_while_it_alone_has_older_panes(tmp_path: Path) -> None:
    node = filled(tmp_path, kept_ms=10 * MINUTE_MS, acceptance_ms=10 * MINUTE_MS, panes=20)
    ask(node, QUERY, 3)
    node.replanner.run()
    for k in range(20, 140):
        scrape(node.core, k)
    ask(node, "max by (job, zone) (rate(c[1m]))", 3)
    for k in range(140, 144):
        node.replanner.run()
        scrape(node.core, k)
    assert sorted(a.labels for a in node.planned) == [("job",), ("job", "zone")]


def with_older_panes(folder: Path) -> PlannedNode:
    """Half an hour of panes by job and zone, and ten minutes of samples."""
    node = filled(folder, kept_ms=10 * MINUTE_MS, acceptance_ms=10 * MINUTE_MS, head_retention_ms=10 * MINUTE_MS)
    for text in (QUERY, "max by (job, zone) (rate(c[1m]))"):
        ask(node, text, 3)
    node.replanner.run()
    node.core.tick()
    for k in range(24, 144):
        scrape(node.core, k)
    return node


def assert_all_is_answered(node: PlannedNode) -> None:
    answer = node.core.range(QUERY, START_MS + 2 * MINUTE_MS, node.sealed_ms())
    assert answer.value.present.all() and not answer.warnings  # type: ignore[union-attr]


def test_an_operator_more_takes_no_step_from_queries_that_were_answered(tmp_path: Path) -> None:
    node = with_older_panes(tmp_path)
    assert_all_is_answered(node)
    ask(node, "min by (job) (rate(c[1m]))", 3)
    node.replanner.run()
    node.core.tick()
    assert [a.accumulators for a in node.planned] == [("max", "min", "sum"), ("max", "sum")]
    assert_all_is_answered(node)


def test_fewer_labels_after_a_restart_take_no_step_from_queries_that_were_answered(tmp_path: Path) -> None:
    node = with_older_panes(tmp_path)
    node.killed()
    ask(node, QUERY, 3)
    for k in range(144, 184):
        scrape(node.core, k)
    node.replanner.run()
    node.core.tick()
    assert [a.labels for a in node.planned] == [("job",), ("job", "zone")]
    assert_all_is_answered(node)


def by_job(metric: str) -> str:
    return f"sum by (job) (rate({metric}[1m]))"


def outlived(folder: Path, max_bytes: float | None = None) -> PlannedNode:
    """Half an hour of panes of two metrics by job, then for both a union, which has ten minutes of them."""
    times = dict.fromkeys(("kept_ms", "acceptance_ms", "head_retention_ms"), 10 * MINUTE_MS)
    node = PlannedNode(folder, max_bytes=max_bytes, retention_ms=6 * HOUR_MS, **times)
    for k in range(144):
        scrape(node.core, k)
        for metric in "cg" if 16 <= k < 19 else "":
            ask(node, by_job(metric))
        if k >= 136:
            ask_for_unions(node)
        if k in (19, 139):
            node.replanner.run()
    return node


def ask_for_unions(node: PlannedNode) -> None:
    for metric in "cg":
        ask(node, f"max by (job, zone) (rate({metric}[1m]))")


def an_hour_goes_by(node: PlannedNode, *asked: str) -> None:
    """And more; the unions are asked for, and what else."""
    for _ in range(7):
        node.core.pass_time(9 * MINUTE_MS)
        for k in range(4):
            scrape(node.core, k)
        for text in asked:
            node.core.clock.advance(1)
            node.core.range(text, START_MS + 5 * MINUTE_MS, node.sealed_ms())
        ask_for_unions(node)
        node.replanner.run()


def narrow(node: PlannedNode) -> list[str]:
    """What is kept by job alone."""
    return sorted(str(a.expr) for a in node.planned if a.labels == ("job",))


def test_what_queries_read_for_its_older_panes_stays_until_they_do_so_no_longer(tmp_path: Path) -> None:
    node = outlived(tmp_path)
    first = node.core.range(by_job("c"), START_MS + 5 * MINUTE_MS, node.sealed_ms())
    assert first.tiers == ("summary",) and first.value.present.all()  # type: ignore[union-attr]
    an_hour_goes_by(node, by_job("c"))
    assert narrow(node) == ["rate(c[1m])"]
    again = node.core.range(by_job("c"), START_MS + 5 * MINUTE_MS, int(first.times[-1]))
    assert (again.value.values == first.value.values).all()  # type: ignore[union-attr]
    an_hour_goes_by(node)
    assert narrow(node) == []


def test_of_what_is_read_for_its_older_panes_that_stays_which_was_read_last_and_fits_the_budget(tmp_path: Path) -> None:
    old = aggregation("rate(c[1m])", ["job"], accumulators=["sum"], retention_ms=6 * HOUR_MS)
    union = aggregation("rate(c[1m])", ["job", "zone"], accumulators=["max", "sum"], retention_ms=6 * HOUR_MS)
    unions_bytes = 2 * keeping(union, 24, 6, SCRAPE_MS).bytes
    old_bytes = keeping(old, 24, 3, SCRAPE_MS).bytes
    for room, stays in ((2.1, ["rate(c[1m])", "rate(g[1m])"]), (1.9, ["rate(g[1m])"]), (0.9, [])):
        node = outlived(tmp_path / str(room), max_bytes=unions_bytes + room * old_bytes)
        assert narrow(node) == ["rate(c[1m])", "rate(g[1m])"], "what goes is over the budget at first"
        an_hour_goes_by(node, by_job("c"), by_job("g"))
        assert narrow(node) == stays


def test_queries_that_come_to_look_further_back_are_given_a_longer_retention(tmp_path: Path) -> None:
    node = filled(tmp_path)
    ask(node, QUERY, 3)
    node.replanner.run()
    assert [a.retention_ms for a in node.planned] == [2 * HOUR_MS]
    for _ in range(3):
        for _ in range(3):
            node.core.range(QUERY, node.sealed_ms() - 48 * HOUR_MS, node.sealed_ms())
        scrape(node.core, 24)
        node.core.clock.advance(10 * MINUTE_MS)
        node.replanner.run()
        assert [a.retention_ms for a in node.core.engine.aggregations] == [49 * HOUR_MS]
    assert [one.retention_ms for one in node.definitions.definitions()] == [49 * HOUR_MS]
    assert node.core.engine.switches == 2, "once to keep it, once to keep it for longer"


def test_what_is_in_force_stays_beside_what_saves_about_as_much(tmp_path: Path) -> None:
    one = aggregation("rate(c[1m])", ["job"], accumulators=["sum"], retention_ms=2 * HOUR_MS)
    node = filled(tmp_path, max_bytes=1.5 * keeping(one, 24, 3, SCRAPE_MS).bytes)
    for of_c, of_g, wanted in ((10, 3, "c"), (2, 12, "c"), (2, 5, "c"), (2, 7, "g"), (12, 2, "g"), (10, 2, "g")):
        node.core.pass_time(9 * MINUTE_MS)
        for k in range(4):
            scrape(node.core, k)
        ask(node, by_job("c"), of_c)
        ask(node, by_job("g"), of_g)
        node.replanner.run()
        assert [str(a.expr) for a in node.replanner.made.aggregations] == [f"rate({wanted}[1m])"]


def test_when_an_aggregation_was_given_to_a_query_last_is_known(tmp_path: Path) -> None:
    node = filled(tmp_path, aggregation("rate(c[1m])", ["job"], accumulators=["sum"]))
    (kept,) = node.core.engine.aggregations
    assert node.tracker.used_ms(kept.id) is None
    ask(node, QUERY)
    asked_ms = node.core.clock.now_ms()
    node.core.clock.advance(MINUTE_MS)
    ask(node, by_job("g"))
    assert node.tracker.used_ms(kept.id) == asked_ms


NOTHING_SAVED = ("g", "rate(c[1m])", "sum by (i) (g)", "sum(nothing)", "sum(g offset -1m + g)", "1 + 1")


@pytest.mark.parametrize("text", NOTHING_SAVED)
def test_what_saves_nothing_is_not_kept(tmp_path: Path, text: str) -> None:
    node = filled(tmp_path)
    ask(node, text, 5)
    node.replanner.run()
    assert not node.planned and not node.core.engine.aggregations


def test_off_the_grid_nothing_is_counted(tmp_path: Path) -> None:
    node = filled(tmp_path)
    for _ in range(5):
        node.core.instant(QUERY, node.sealed_ms() + 1)
    assert node.tracker.counts() == (0, 0)


def test_without_queries_nothing_is_planned(tmp_path: Path) -> None:
    node = filled(tmp_path)
    for _ in range(3):
        node.core.clock.advance(10 * MINUTE_MS)
        node.replanner.run()
    assert node.replanner.plans == 3
    assert not node.in_force.kept and not node.core.store.aggregations()


def test_what_is_asked_no_longer_is_let_go_of_an_hour_after_the_first_plan_without_it(tmp_path: Path) -> None:
    node = filled(tmp_path)
    ask(node, QUERY, 3)
    node.replanner.run()
    kept = node.planned
    node.core.clock.advance(30 * HOUR_MS)
    node.replanner.run()
    assert node.tracker.counts() == (0, 0) and node.planned == kept
    node.core.clock.advance(2 * HOUR_MS)
    node.replanner.run()
    assert not node.planned


def test_a_pinned_aggregation_stays_and_what_it_serves_is_not_planned_again(tmp_path: Path) -> None:
    pinned = aggregation("rate(c[1m])", ["job", "zone"], accumulators=["sum"])
    node = filled(tmp_path, pinned)
    ask(node, QUERY, 5)
    node.replanner.run()
    assert node.tracker.counts() == (0, 1)
    assert [one.aggregation for one in node.in_force.kept] == [pinned]
    ask(node, "max by (job) (rate(c[1m]))", 3)
    node.replanner.run()
    assert [a.accumulators for a in node.planned] == [("max",)]
    for hours in (100, 2):
        node.core.clock.advance(hours * HOUR_MS)
        node.replanner.run()
    assert [one.aggregation for one in node.in_force.kept] == [pinned]


def test_after_a_restart_what_was_planned_is_there_and_stays_while_it_is_asked(tmp_path: Path) -> None:
    node = filled(tmp_path)
    ask(node, QUERY, 3)
    node.replanner.run()
    node.core.tick()
    kept = node.planned
    node.killed()
    assert node.planned == kept and ask(node, QUERY) == ("summary",)
    for _ in range(12):
        node.core.clock.advance(20 * MINUTE_MS)
        node.replanner.run()
    assert node.planned == kept


def test_a_flood_of_other_queries_pushes_out_nothing_that_is_repeated(tmp_path: Path) -> None:
    node = filled(tmp_path, capacity=20)
    ask(node, QUERY, 3)
    for k in range(200):
        ask(node, f"sum by (l{k}) (rate(c[{k + 1}m]))")
    assert node.tracker.counts() == (20, 1)
    node.replanner.run()
    assert len(node.planned) == 1


def test_a_plan_that_is_stopped_changes_nothing(tmp_path: Path) -> None:
    node = filled(tmp_path)
    ask(node, QUERY, 3)
    node.replanner.stop()
    with pytest.raises(Stopped):
        node.replanner.run()
    assert not node.planned and node.replanner.plans == 0


def test_a_plan_that_cannot_be_written_down_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = filled(tmp_path)
    ask(node, QUERY, 3)

    def refuse(*asked: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(node.definitions, "change", refuse)
        node.replanner.run()
    assert not node.planned and ask(node, QUERY) == ("head",)
    node.replanner.run()
    assert len(node.planned) == 1
    assert isinstance(node.replanner, Replanner) and node.replanner.made.aggregations == tuple(node.planned)
