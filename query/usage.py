"""Which aggregations answered queries: how many, when last, and for example which."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from precompute.clock import Clock
from query.answers import Told

_MOST = 4096
"""So many aggregations are known; those used longest ago are forgotten first."""
_EXAMPLES, _EXAMPLE_LENGTH = 3, 300


@dataclass(frozen=True)
class Used:
    """Of one aggregation, since the start of the process."""

    hits: int = 0
    """Queries to which it gave a part of some step."""
    last_ms: int | None = None
    examples: tuple[str, ...] = ()
    """The last of them, each once, the newest first; long ones are cut."""


class Usage:
    """Counts; any thread may call it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._used: OrderedDict[str, Used] = OrderedDict()
        self._lock = Lock()

    def note(self, told: Told) -> None:
        """How a query was answered; nothing is counted where the upstream gave the whole answer."""
        if told.plan is None or told.why:
            return
        served = {number for (number, tier), by in told.account.served.items() if tier == "summary" and by.steps}
        nodes = [node for node in told.plan.nodes if node.number in served]
        ids = {node.coverage.aggregation.id for node in nodes if node.coverage is not None}
        now_ms, text = self._clock.now_ms(), told.text[:_EXAMPLE_LENGTH]
        with self._lock:
            for name in ids:
                self._count(name, now_ms, text)

    def of(self, aggregation_id: str) -> Used:
        with self._lock:
            return self._used.get(aggregation_id, Used())

    def _count(self, name: str, now_ms: int, text: str) -> None:
        known = self._used.pop(name, Used())
        others = tuple(example for example in known.examples if example != text)
        self._used[name] = Used(known.hits + 1, now_ms, (text, *others)[:_EXAMPLES])
        if len(self._used) > _MOST:
            self._used.popitem(last=False)
