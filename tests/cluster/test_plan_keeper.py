"""The plan is published again where its server has lost it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from asap_project.cluster_wiring import PlanKeeper
from precompute.aggregations import Aggregation
from precompute.cluster.plan import SharedPlan
from precompute.cluster.server import Server
from precompute.definitions import Definition, Kept, MemoryDefinitions, definition_of
from precompute.engines.base import Panes
from precompute.in_force import PlanInForce
from query.promql.parse import parse
from tests.cluster.conftest import KEPT
from tests.precompute.made_node import aggregation
from tests.servers import RedisServer


@dataclass
class InForce:
    """A plan that is taken over as it is."""

    kept: Sequence[Kept]

    def adopt(self, kept: Sequence[Kept]) -> None:
        self.kept = kept


class Engine:
    """One that computes nothing."""

    def replace(self, aggregations: Sequence[Aggregation], wrong: Collection[str] = ()) -> None:
        """As it is told."""


class Process:
    """A query engine's share in the plan."""

    def __init__(self, server: Server, definitions: MemoryDefinitions) -> None:
        self.keeper = PlanKeeper(SharedPlan(server), lambda: [one.kept(parse) for one in definitions.definitions()])
        self.plan = PlanInForce(cast(Panes, Engine()), definitions, [], self.keeper.publish)
        self.keeper.in_force = self.plan
        self.keeper.publish()

    @property
    def kept(self) -> dict[str, bool]:
        """Whether each that is kept is in service."""
        return {one.aggregation.id: not one.suspended for one in self.plan.kept}


def test_what_two_processes_change_at_the_same_time_is_kept_by_both_and_by_the_workers(redis: RedisServer) -> None:
    server, definitions = Server(redis.url), MemoryDefinitions()
    one, other = Process(server, definitions), Process(server, definitions)
    x, y, z, wrong = (aggregation(name) for name in "xyzw")
    for made in (z, wrong):
        one.plan.create(made, pinned=True)
    for process in (one, other):
        process.keeper._look()
    other.plan.create(y, pinned=True)
    other.plan.delete(z.id)
    other.plan.suspend(wrong.id)
    one.plan.create(x, pinned=True)
    for process in (one, other, one):
        process.keeper._look()
    after = {x.id: True, y.id: True, wrong.id: False}
    assert one.kept == other.kept == after
    assert published(SharedPlan(server)) == set(after)
    assert {one.id: not one.suspended for one in SharedPlan(server).read()[1]} == after
    server.close()


def test_a_pin_is_heard_of_by_the_other_process(redis: RedisServer) -> None:
    server, definitions = Server(redis.url), MemoryDefinitions()
    one, other, x = Process(server, definitions), Process(server, definitions), aggregation("x")
    one.plan.create(x, pinned=False)
    other.keeper._look()
    one.plan.pin(x.id, True)
    other.keeper._look()
    assert other.plan.find(x.id).pinned
    server.close()


def test_what_is_written_while_another_plan_is_taken_over_is_not_lost(redis: RedisServer) -> None:
    server, definitions = Server(redis.url), MemoryDefinitions()
    process, x = Process(server, definitions), aggregation("x")
    reading = definitions.definitions

    def create_meanwhile() -> tuple[Definition, ...]:
        before, definitions.definitions = reading(), reading  # type: ignore[method-assign]
        process.plan.create(x, pinned=True)
        return before

    definitions.definitions = create_meanwhile  # type: ignore[method-assign]
    process.keeper._look()
    assert list(process.kept) == [x.id]
    assert published(SharedPlan(server)) == {x.id}
    server.close()


def published(shared: SharedPlan) -> set[str]:
    return {one.id for one in shared.read()[1]}


def test_a_change_that_its_server_has_lost_is_published_again_under_a_revision_of_its_own(redis: RedisServer) -> None:
    server = Server(redis.url)
    shared, kept = SharedPlan(server), [Kept(aggregation, "api", True) for aggregation in KEPT]
    written = kept[:1]
    keeper = PlanKeeper(shared, lambda: written)
    keeper.in_force = cast(PlanInForce, InForce(written))
    keeper.publish()
    before: list[Any] = server.ask("HMGET", "plan", "revision", "content")
    written = kept[:2]
    keeper.in_force.adopt(written)
    keeper.publish()
    lost = shared.revision()
    server.ask("HSET", "plan", "revision", before[0], "content", before[1])
    assert published(shared) == {definition_of(kept[0]).id}
    keeper._look()
    assert published(shared) == {one.aggregation.id for one in written}
    assert shared.revision() > lost
    server.close()
