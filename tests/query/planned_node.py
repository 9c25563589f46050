"""A core whose aggregations a planner changes, moved by hand like all of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from precompute.aggregations import Aggregation
from precompute.clock import ManualClock
from precompute.definitions import Kept, MemoryDefinitions
from precompute.in_force import PlanInForce, in_service
from precompute.panes import last_end
from precompute.planner.cardinality import OnHead
from precompute.planner.measured import Measured
from precompute.planner.plan import PlannerSettings
from query.answers import Told
from query.promql.parse import parse
from query.replanner import Replanner, ReplanOptions
from query.tracker import Tracker, TrackerOptions
from tests.precompute.made_node import HOUR_MS, START_MS, WIDTH_MS, Core

MINUTE_MS = 60_000
SCRAPE_MS = 15_000


class PlannedNode:
    """A core, what it hears of queries, and who plans from that."""

    def __init__(
        self, folder: Path, *pinned: Aggregation, capacity: int = 200, also: Sequence[Callable[[Told], None]] = (),
        max_bytes: float | None = None, retention_ms: int = 2 * HOUR_MS, **of_core: Any,
    ) -> None:  # fmt: skip
        """also: who else hears of queries. max_bytes, retention_ms: the planner's."""
        self.pinned, self.capacity = pinned, capacity
        self.max_bytes, self.retention_ms = max_bytes, retention_ms
        self.definitions = MemoryDefinitions()
        clock = ManualClock(START_MS)
        self.tracker = self._tracker(clock)
        self._begin(Core(folder, pinned, clock=clock, heard=[self.tracker.note, *also], **of_core), ())

    def _tracker(self, clock: ManualClock) -> Tracker:
        return Tracker(TrackerOptions(WIDTH_MS, SCRAPE_MS, self.capacity, 6 * HOUR_MS), clock)

    def _begin(self, core: Core, planned: Sequence[Kept]) -> None:
        self.core = core
        self.measured = Measured(
            lambda: OnHead(self.core.source, last_end(self.core.engine.sealed_ms(), WIDTH_MS), self.core.clock)
        )
        kept = [*(Kept(a, "config", True) for a in self.pinned), *planned]
        self.in_force = PlanInForce(self.core.engine, self.definitions, kept, lambda: None)
        settings = PlannerSettings(
            WIDTH_MS, SCRAPE_MS, self.retention_ms, max_bytes=self.max_bytes, max_reach_ms=self.core.kept_ms
        )
        self.replanner = Replanner(
            self.tracker, self.in_force, settings, self.measured, ReplanOptions(10 * MINUTE_MS, HOUR_MS),
            self.core.clock,
        )  # fmt: skip

    def killed(self) -> None:
        """It is killed and comes back: what was counted is gone."""
        planned = [one.kept(parse) for one in self.definitions.definitions() if one.origin != "config"]
        kept = [*self.pinned, *in_service(planned)]
        self.tracker = self._tracker(self.core.clock)
        self.core.heard = [self.tracker.note]
        self._begin(self.core.reopened(kept), planned)

    @property
    def planned(self) -> list[Aggregation]:
        return [one.aggregation for one in self.in_force.kept if one.origin == "planner"]

    def sealed_ms(self) -> int:
        return last_end(self.core.engine.sealed_ms(), WIDTH_MS)
