"""The plan in force: which aggregations are kept, who asked for each, and how that changes while all runs.

    config    written in the config: always kept, and changed there alone
    api       asked for by name; pinned unless it was said otherwise
    planner   what a planner's `switch` brought

A change is made in the engine first, for all queries at once, and then written down. Where either fails the plan
before stays in force.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

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
        """kept: of them the engine was built with those in service. changed: called after a change, so that a tick
        fills what is new."""
        self.engine, self._definitions, self._changed = engine, definitions, changed
        self._kept: Mapping[str, Kept] = {one.aggregation.id: one for one in kept}
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
        """Of all that is not pinned, keep exactly `new`; what of it was not kept before is of this origin, what was is
        kept for as long as either says.

        Raises StoreError and LimitExceeded, and then nothing has changed.
        """
        with self._lock:
            stay = {name: one for name, one in self._kept.items() if one.stays}
            asked = {a.id: self._longer(a) or Kept(a, origin, pinned=False) for a in new}
            self._change({**stay, **{name: one for name, one in asked.items() if name not in stay}})

    def _longer(self, new: Aggregation) -> Kept | None:
        """What is kept under its id, with the longer retention."""
        was = self._kept.get(new.id)
        return replace(was, aggregation=new) if was and new.retention_ms > was.aggregation.retention_ms else was

    def suspend(self, aggregation_id: str) -> None:
        """Serve nothing from it and compute it no longer, until it is deleted, pinned or created anew.

        Raises StoreError: it is `suspended` then if it could not be written down only, until the process starts again.
        """
        with self._lock:
            if (found := self._kept.get(aggregation_id)) is None:
                return
            suspended = replace(found, suspended=True)
            kept = {**self._kept, aggregation_id: suspended}
            self.engine.replace(in_service(kept.values()))
            self._kept = kept
            self._definitions.save([definition_of(suspended)], [])
        self._changed()

    def adopt(self, kept: Sequence[Kept]) -> None:
        """What another process keeps by now, which has written it down. Raises StoreError, and nothing has changed."""
        with self._lock:
            old, new = self._kept, {one.aggregation.id: one for one in kept}
            if in_service(old.values()) != in_service(new.values()):
                self.engine.replace(in_service(new.values()))
            self._kept = new
            self._tell(old, new)

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
        """Pin or unpin it; what is pinned is in service again, the config's too.

        Raises NotKept, KeptByConfig and StoreError.
        """
        with self._lock:
            found = self.find(aggregation_id)
            if not (pinned and found.suspended):
                self._changeable(aggregation_id)
            kept = replace(found, pinned=pinned, suspended=found.suspended and not pinned)
            self._change({**self._kept, aggregation_id: kept})
        return kept

    def delete(self, aggregation_id: str) -> None:
        """Keep it no longer. Raises NotKept, KeptByConfig and StoreError."""
        with self._lock:
            self._changeable(aggregation_id)
            self._change({name: one for name, one in self._kept.items() if name != aggregation_id})

    def _changeable(self, aggregation_id: str) -> None:
        if self.find(aggregation_id).origin == "config":
            raise KeptByConfig(f"aggregation {aggregation_id} is in the config; change it there")

    def _change(self, new: Mapping[str, Kept]) -> None:
        """Put `new` in place of what is kept, here, in the engine and in the database."""
        old = self._kept
        if len(new) > max(MOST, len(old)):
            raise LimitExceeded(f"{MOST} aggregations are kept, which is the most")
        before, after = in_service(old.values()), in_service(new.values())
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

    def _tell(self, old: Mapping[str, Kept], new: Mapping[str, Kept]) -> None:
        for name in sorted(old.keys() ^ new.keys()):
            one, word = (new[name], "kept") if name in new else (old[name], "kept no longer")
            a = one.aggregation
            logger.info("aggregation %s (%s %s, %s) is %s", name, a.expr, a.grouping_text(), one.origin, word)


def in_service(kept: Iterable[Kept]) -> tuple[Aggregation, ...]:
    """Those that are computed and serve."""
    return tuple(one.aggregation for one in kept if not one.suspended)
