"""The plan is published again where its server has lost it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from asap_project.cluster_wiring import PlanKeeper
from precompute.cluster.plan import SharedPlan
from precompute.cluster.server import Server
from precompute.definitions import Kept, definition_of
from precompute.in_force import PlanInForce
from tests.cluster.conftest import KEPT
from tests.servers import RedisServer


@dataclass
class InForce:
    """A plan that is taken over as it is."""

    kept: Sequence[Kept]

    def adopt(self, kept: Sequence[Kept]) -> None:
        self.kept = kept


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
