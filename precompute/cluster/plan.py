"""The plan in force, shared: definitions of all aggregations that are kept, under a revision that grows.

Whoever changes the plan writes it to the database first and here second; workers and query engines look at the
revision at each tick. So a worker needs no database to know what to compute.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict

import orjson

from precompute.clock import Clock
from precompute.cluster.scripts import PUBLISH
from precompute.cluster.server import Call, Server, ServerDown
from precompute.definitions import Definition, Kept
from precompute.errors import PrecomputeError

logger = logging.getLogger(__name__)

_KEY = "plan"
_AGAIN_S = 5.0


class PlanUnknown(PrecomputeError):
    """No plan was published yet: nothing may be computed, or let go of, before it is known."""


class SharedPlan:
    """The plan as it stands in Redis. Any thread may call it; every method may raise ServerDown."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def publish(self, definitions: Sequence[Definition]) -> int:
        """Put these in place of what stands there, unless they are the same; the revision."""
        ordered = sorted(definitions, key=lambda one: one.id)
        return int(self._server.run(Call(PUBLISH, (_KEY,), (orjson.dumps([asdict(one) for one in ordered]),))))

    def revision(self) -> int:
        """0 before the first."""
        return int(self._server.ask("HGET", _KEY, "revision") or 0)

    def read(self) -> tuple[int, tuple[Definition, ...]]:
        """The revision and the definitions. Raises PlanUnknown."""
        revision, content = self._server.ask("HMGET", _KEY, "revision", "content")
        if revision is None:
            raise PlanUnknown("no role has published which aggregations are kept; start an ingest role or query engine")
        read = orjson.loads(content)
        lists = ("labels", "accumulators")
        return int(revision), tuple(Definition(**{**one, **{n: tuple(one[n]) for n in lists}}) for one in read)


class PlanFollower:
    """What is kept, as of the plan's newest revision; while nobody can tell that, as it was known last.

    Shards on other servers are ticked beside one that is away; so that is not asked at once again: it may take seconds.
    """

    def __init__(
        self, plan: SharedPlan, kept: Callable[[Sequence[Definition]], Sequence[Kept]], clock: Clock
    ) -> None:
        """kept: makes aggregations of definitions, and leaves out what this config does not allow."""
        self._plan, self._make, self._clock = plan, kept, clock
        self._revision, self._again_s, self._away = 0, 0.0, False
        self._kept: tuple[Kept, ...] = ()
        self._lock = threading.Lock()

    def kept(self) -> tuple[Kept, ...]:
        """The same tuple until the plan changes. Raises PlanUnknown, ServerDown before it was known once."""
        with self._lock:
            if not self._away or self._clock.monotonic_s() >= self._again_s:
                self._look()
            return self._kept

    def _look(self) -> None:
        try:
            self._follow()
            self._away = False
        except (ServerDown, PlanUnknown) as error:
            if not self._revision:
                raise
            if not self._away:
                logger.warning("%s; what is kept is taken to be as it was", error)
            self._away, self._again_s = True, self._clock.monotonic_s() + _AGAIN_S

    def _follow(self) -> None:
        if self._plan.revision() != self._revision or not self._revision:
            revision, definitions = self._plan.read()
            self._kept, self._revision = tuple(self._make(definitions)), revision
