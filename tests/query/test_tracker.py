"""What is held of the queries that come: what comes once pushes out nothing that comes again."""

from pathlib import Path

from precompute.aggregations import LONGEST_RETENTION_MS
from tests.precompute.made_node import HOUR_MS, WIDTH_MS
from tests.query.planned_node import MINUTE_MS, PlannedNode
from tests.query.test_replanner import QUERY, ask, filled, zoomed

WIDE = "sum by (job, zone)(rate(c[1m]))"
OTHER = "sum by (zone)(g)"


def served(k: int) -> str:
    """What the aggregation of WIDE answers, and what is counted apart for each k."""
    return f'sum by (zone) (rate(c{{job!~"x{k}"}}[1m]))'


def planned_for(node: PlannedNode) -> set[str]:
    return {str(member.requirement.node) for demand in node.tracker.demands() for member in demand.members}


def put_in_force(node: PlannedNode) -> None:
    node.replanner.run()
    node.core.tick()


def planned_for_after(node: PlannedNode, asked: dict[str, int]) -> set[str]:
    """What is planned for when these were asked so often, and is in force."""
    for text, times in asked.items():
        ask(node, text, times)
    put_in_force(node)
    return planned_for(node)


def test_a_flood_that_summaries_answer_pushes_out_nothing_that_is_repeated(tmp_path: Path) -> None:
    node = filled(tmp_path, capacity=4)
    repeated = planned_for_after(node, {OTHER: 3, WIDE: 3})
    for k in range(20):
        assert ask(node, served(k)) == ("summary",)
    assert node.tracker.counts() == (4, 4)
    assert repeated < planned_for(node)
    kept = node.planned
    node.core.clock.advance(10 * MINUTE_MS)
    node.replanner.run()
    assert {a.id for a in node.replanner.made.aggregations} == {a.id for a in kept}


def test_what_summaries_answer_at_all_of_its_steps_waits_for_the_plan_of_all(tmp_path: Path) -> None:
    node = filled(tmp_path)
    planned_for_after(node, {WIDE: 3})
    for k in range(5):
        ask(node, served(k), times=4)
        node.replanner.run()
    assert node.replanner.plans == 1
    assert node.tracker.counts() == (0, 6)


def test_what_summaries_answer_at_some_of_its_steps_is_planned_at_once(tmp_path: Path) -> None:
    node = filled(tmp_path, panes=60)
    ask(node, WIDE, 3, 4 * WIDTH_MS)
    put_in_force(node)
    assert [a.width_ms for a in node.planned] == [4 * WIDTH_MS]
    ask(node, served(0))
    node.replanner.run()
    assert min(a.width_ms for a in node.planned) == WIDTH_MS


def test_without_room_what_comes_a_third_time_takes_the_place_of_what_weighs_least(tmp_path: Path) -> None:
    node = filled(tmp_path, capacity=2)
    before = planned_for_after(node, {WIDE: 6, OTHER: 3})
    ask(node, served(0), 2)
    assert node.tracker.counts() == (1, 2) and planned_for(node) == before
    ask(node, served(0))
    assert node.tracker.counts() == (0, 2)
    assert before - planned_for(node) == {OTHER}


def test_without_room_a_new_zoom_of_what_is_repeated_has_to_come_a_third_time(tmp_path: Path) -> None:
    node = filled(tmp_path, capacity=2, panes=60)
    before = planned_for_after(node, {OTHER: 3, QUERY: 3})
    zoomed(node, "75s", MINUTE_MS, 2)
    assert node.tracker.counts() == (1, 2) and planned_for(node) == before
    zoomed(node, "75s", MINUTE_MS)
    assert node.tracker.counts() == (0, 2) and planned_for(node) != before


def test_a_query_since_the_beginning_of_time_takes_nothing_from_those_of_today(tmp_path: Path) -> None:
    node, day_ms = filled(tmp_path, max_bytes=float(1 << 22)), 24 * HOUR_MS
    for _ in range(3):
        ask(node, OTHER)
        now_ms = node.core.clock.now_ms() // day_ms * day_ms
        node.core.range("avg by (zone) (g)", 0, now_ms, 2 * day_ms)
    assert max(demand.asking.span_ms for demand in node.tracker.demands()) == LONGEST_RETENTION_MS
    put_in_force(node)
    assert ask(node, OTHER) == ("summary",)
    assert [a.retention_ms for a in node.planned] == [node.retention_ms]
