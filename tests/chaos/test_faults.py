"""Faults come at random, never two at once on one target, and every one is mended."""

import random
from dataclasses import dataclass

from precompute.clock import SystemClock
from tests.chaos.faults import Kind, Weather
from tests.cluster.roles import Cluster, Counts
from tests.running import drawn_seed

STORMS = 30
"""Of a second each, at the most: how many faults one brings is the machine's matter."""


@dataclass
class Target:
    """Something that can be down, and notes what happens to it."""

    down: bool = False
    faults: int = 0

    def fall(self) -> None:
        assert not self.down, "it was down already"
        self.down, self.faults = True, self.faults + 1

    def rise(self) -> None:
        assert self.down, "it was not down"
        self.down = False


def test_each_fault_is_mended_before_its_target_has_another() -> None:
    seed = drawn_seed()
    targets = [Target() for _ in range(3)]
    kind = Kind("fallen", lambda _: targets, Target.fall, Target.rise, (0.0, 0.1))
    nobody = Cluster(None, ())  # type: ignore[arg-type]
    weather = Weather(nobody, (kind, kind), random.Random(seed), SystemClock(), gap_s=(0.0, 0.02))
    for _ in range(STORMS):
        weather.storm(1.0)
        if all(target.faults > 1 for target in targets):
            break
    weather.calm()
    assert not any(target.down for target in targets)
    assert all(target.faults > 1 for target in targets)
    assert weather.counted() == {"fallen": sum(target.faults for target in targets)}
    assert all(struck.at_ms for struck in weather.struck)


def test_a_cluster_has_as_many_roles_as_counted() -> None:
    named = list(Counts(ingest=1, query_engines=2, schedulers=0, workers=3).named())
    assert len(named) == 6
    assert ("streaming-worker-2", "streaming-worker") in named
