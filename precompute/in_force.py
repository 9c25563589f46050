"""The plan in force: which aggregations are kept, who asked for each, and how that changes while all runs.

    config    written in the config: always kept, and changed there alone
    api       asked for by name; pinned unless it was said otherwise
    planner   what a planner's `switch` brought

A change is made in the engine first, for all queries at once, and then written down. Where either fails the plan
before stays in force.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from precompute.aggregations import Aggregation
from precompute.definitions import DefinitionStore, Kept, Origin, definition_of
from precompute.engines.base import Panes
from precompute.errors import KeptByConfig, LimitExceeded, NotKept
from precompute.stores.base import StoreError

logger = logging.getLogger(__name__)

MOST = 2000
"""How many are kept at most: each costs work at every tick, and each query is held against all of its metric."""


class PlanInForce:
    """See the module's text. Any thread may call it; changes wait for one another, reading waits for nothing."""

    def __init__(
        self, engine: Panes, definitions: DefinitionStore, kept: Sequence[Kept], changed: Callable[[], None]
    ) -> None:
        """kept: what the engine was built with. changed: called after a change, for a tick to fill what is new."""
        self.engine, self._definitions, self._changed = engine, definitions, changed
        self._kept: Mapping[str, Kept] = {one.aggregation.id: one for one in kept}
        self._suspended: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    @property
    def kept(self) -> tuple[Kept, ...]:
        """All of them, the oldest first."""
        return tuple(self._kept.values())

    def find(self, aggregation_id: str) -> Kept:
        """Raises NotKept."""
        if (found := self._kept.get(aggregation_id)) is None:
            raise NotKept(f"no aggregation {aggregation_id} is kept")
        return found

    def switch(self, new: Sequence[Aggregation], origin: Origin = "planner") -> None:
        """Of all that is not pinned, keep exactly `new`; what of it was not kept before is of this origin.

        Raises StoreError and LimitExceeded, and then nothing has changed.
        """
        with self._lock:
            pinned = {name: one for name, one in self._kept.items() if one.pinned}
            asked = {a.id: self._kept.get(a.id) or Kept(a, origin, pinned=False) for a in new}
            self._change({**pinned, **{name: one for name, one in asked.items() if name not in pinned}})

    def suspended(self, aggregation_id: str) -> bool:
        """Whether it was taken out of service."""
        return aggregation_id in self._suspended

    def suspend(self, aggregation_id: str) -> None:
        """Serve nothing from it and compute it no longer, whoever asks for it, until the process starts again.

        Raises StoreError, and then nothing has changed.
        """
        with self._lock:
            before, self._suspended = self._suspended, self._suspended | {aggregation_id}
            try:
                self.engine.replace(self._in_service(self._kept))
            except StoreError:
                self._suspended = before
                raise

    def create(self, aggregation: Aggregation, pinned: bool) -> Kept:
        """Keep this, for the API; one of the same id gets its retention.

        Raises KeptByConfig, StoreError and LimitExceeded.
        """
        kept = Kept(aggregation, "api", pinned)
        with self._lock:
            if aggregation.id in self._kept:
                self._changeable(aggregation.id)
            self._change({**self._kept, aggregation.id: kept})
        return kept

    def pin(self, aggregation_id: str, pinned: bool) -> Kept:
        """Pin or unpin it. Raises NotKept, KeptByConfig and StoreError."""
        with self._lock:
            kept = Kept(*self._changeable(aggregation_id), pinned)
            self._change({**self._kept, aggregation_id: kept})
        return kept

    def delete(self, aggregation_id: str) -> None:
        """Keep it no longer. Raises NotKept, KeptByConfig and StoreError."""
        with self._lock:
            self._changeable(aggregation_id)
            self._change({name: one for name, one in self._kept.items() if name != aggregation_id})

    def _changeable(self, aggregation_id: str) -> tuple[Aggregation, Origin]:
        found = self.find(aggregation_id)
        if found.origin == "config":
            raise KeptByConfig(f"aggregation {aggregation_id} is in the config; change it there")
        return found.aggregation, found.origin

    def _change(self, new: Mapping[str, Kept]) -> None:
        """Put `new` in place of what is kept, here, in the engine and in the database."""
        old = self._kept
        if len(new) > max(MOST, len(old)):
            raise LimitExceeded(f"{MOST} aggregations are kept, which is the most")
        before, after = self._in_service(old), self._in_service(new)
        if before != after:
            self.engine.replace(after)
        try:
            saved = [definition_of(one) for name, one in new.items() if old.get(name) != one]
            self._definitions.save(saved, [name for name in old if name not in new])
        except StoreError:
            self.engine.replace(before)
            raise
        self._kept = new
        if before != after:
            self._tell(old, new)
            self._changed()

    def _in_service(self, plan: Mapping[str, Kept]) -> tuple[Aggregation, ...]:
        return tuple(one.aggregation for name, one in plan.items() if name not in self._suspended)

    def _tell(self, old: Mapping[str, Kept], new: Mapping[str, Kept]) -> None:
        for name in sorted(old.keys() ^ new.keys()):
            one, word = (new[name], "kept") if name in new else (old[name], "kept no longer")
            a = one.aggregation
            logger.info("aggregation %s (%s %s, %s) is %s", name, a.expr, a.grouping_text(), one.origin, word)
