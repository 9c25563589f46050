"""The plan in force: which aggregations are kept, who asked for each, and how that changes while all runs.

    config    written in the config: always kept, and changed there alone
    api       asked for by name; pinned unless it was said otherwise
    planner   what a planner's `switch` brought

A change is made in the engine first, for all queries at once, and then written down. Where either fails the plan
before stays in force.

Other processes may have written something else meanwhile. Each change is made to what is written down by then, and a
planner's leaves alone what is no more as it was when that judged; what is found there is in force here too.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from precompute.aggregations import Aggregation
from precompute.definitions import Definition, DefinitionStore, Kept, Origin, definition_of
from precompute.engines.base import Panes
from precompute.errors import KeptByConfig, LimitExceeded, NotKept, PrecomputeError

logger = logging.getLogger(__name__)

MOST = 2000
"""How many are kept at most: each costs work at every tick, and each query is held against all of its metric."""

_Change = Callable[[Kept | None], Kept | None]
"""What becomes of one, from what it is now; None: not kept."""


class PlanInForce:
    """See the module's text. Any thread may call it; changes wait for one another, reading waits for nothing."""

    def __init__(
        self, engine: Panes, definitions: DefinitionStore, kept: Sequence[Kept], changed: Callable[[], None]
    ) -> None:
        """kept: of them the engine was built with those in service. changed: called after a change, so that a tick
        fills what is new."""
        self.engine, self._definitions, self._changed = engine, definitions, changed
        self._kept: Mapping[str, Kept] = {one.aggregation.id: one for one in kept}
        self._unwritten: frozenset[str] = frozenset()
        """Suspended here, which could not be written down."""
        self._lock = threading.Lock()

    @property
    def kept(self) -> tuple[Kept, ...]:
        """All of them, the oldest first."""
        return tuple(self._kept.values())

    def find(self, aggregation_id: str) -> Kept:
        """Raises NotKept."""
        return _found(aggregation_id, self._kept.get(aggregation_id))

    def switch(self, new: Sequence[Aggregation], origin: Origin = "planner") -> None:
        """Of all that is not pinned, keep exactly `new`; what of it was not kept before is of this origin, what was is
        kept for as long as either says.

        What another process has changed meanwhile stays as that has it. Raises StoreError and LimitExceeded, and then
        nothing has changed.
        """
        with self._lock:
            old, stay = self._kept, {name: one for name, one in self._kept.items() if one.stays}
            asked = {a.id: self._longer(a) or Kept(a, origin, pinned=False) for a in new if a.id not in stay}
            wanted = {**stay, **asked}
            changed = [name for name in {**old, **wanted} if old.get(name) != wanted.get(name)]
            self._change(wanted, {name: _unless_changed(old.get(name), wanted.get(name)) for name in changed})

    def _longer(self, new: Aggregation) -> Kept | None:
        """What is kept under its id, with the longer retention."""
        was = self._kept.get(new.id)
        return replace(was, aggregation=new) if was and new.retention_ms > was.aggregation.retention_ms else was

    def suspend(self, aggregation_id: str) -> None:
        """Serve nothing from it and compute it no longer, until it is deleted, pinned or created anew. Its panes are
        let go of: then all of them are made anew.

        Raises StoreError: it is `suspended` then if it could not be written down only, until the process starts again.
        """
        with self._lock:
            if (found := self._kept.get(aggregation_id)) is None:
                return
            kept = {**self._kept, aggregation_id: replace(found, suspended=True)}
            self.engine.replace(in_service(kept.values()), suspended_of(kept.values()))
            self._kept, self._unwritten = kept, self._unwritten | {aggregation_id}
            self._kept = self._written(kept, {aggregation_id: lambda now: now and replace(now, suspended=True)})
        self._changed()

    def adopt(self, kept: Sequence[Kept]) -> None:
        """What another process keeps by now, which has written it down. Raises StoreError, and nothing has changed."""
        with self._lock:
            old, new = self._kept, {one.aggregation.id: one for one in kept}
            self._unwritten &= new.keys()
            new.update({name: replace(new[name], suspended=True) for name in self._unwritten})
            self._serve(old, new)
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
            self._change_one(aggregation.id, lambda _: kept)
        return kept

    def pin(self, aggregation_id: str, pinned: bool) -> Kept:
        """Pin or unpin it; what is pinned is in service again, the config's too.

        Raises NotKept, KeptByConfig and StoreError.
        """
        with self._lock:
            found = self.find(aggregation_id)
            if not (pinned and found.suspended):
                self._changeable(aggregation_id)
            self._change_one(aggregation_id, lambda now: _pinned(_found(aggregation_id, now), pinned))
            return self.find(aggregation_id)

    def delete(self, aggregation_id: str) -> None:
        """Keep it no longer. Raises NotKept, KeptByConfig and StoreError."""
        with self._lock:
            self._changeable(aggregation_id)
            self._change_one(aggregation_id, lambda _: None)

    def _changeable(self, aggregation_id: str) -> None:
        if self.find(aggregation_id).origin == "config":
            raise KeptByConfig(f"aggregation {aggregation_id} is in the config; change it there")

    def _change_one(self, aggregation_id: str, change: _Change) -> None:
        changed = change(self._kept.get(aggregation_id))
        self._change(_with(self._kept, {aggregation_id: changed}), {aggregation_id: change})

    def _change(self, guess: Mapping[str, Kept], changes: Mapping[str, _Change]) -> None:
        """Make these changes to what is kept, here, in the engine and in the database. guess: what that comes to,
        unless something else is written down by now."""
        old = self._kept
        if len(guess) > max(MOST, len(old)):
            raise LimitExceeded(f"{MOST} aggregations are kept, which is the most")
        self._serve(old, guess)
        try:
            new = self._written(guess, changes)
        except PrecomputeError:
            self._serve(guess, old)
            raise
        self._kept = new
        self._serve(guess, new)
        if old != new:
            self._tell(old, new)
            self._changed()

    def _serve(self, old: Mapping[str, Kept], new: Mapping[str, Kept]) -> None:
        if in_service(old.values()) != in_service(new.values()):
            self.engine.replace(in_service(new.values()), suspended_of(new.values()))

    def _written(self, guess: Mapping[str, Kept], changes: Mapping[str, _Change]) -> Mapping[str, Kept]:
        """What is kept once these changes are made to what is written down by now. guess: as in `_change`."""
        known = {**guess, **self._kept}

        def settle(found: Mapping[str, Definition]) -> Mapping[str, Definition]:
            now = {name: _as_written(known[name], found.get(name)) for name in changes if name in known}
            after = {name: change(now.get(name)) for name, change in changes.items()}
            left = {name: one for name, one in found.items() if after[name] == now.get(name)}
            return {**{name: definition_of(one) for name, one in after.items() if one and one != now.get(name)}, **left}

        there = self._definitions.change(changes.keys(), settle)
        self._unwritten -= changes.keys()
        return _with(guess, {name: _as_written(known[name], there.get(name)) for name in changes})

    def _tell(self, old: Mapping[str, Kept], new: Mapping[str, Kept]) -> None:
        for name in sorted(old.keys() ^ new.keys()):
            one, word = (new[name], "kept") if name in new else (old[name], "kept no longer")
            a = one.aggregation
            logger.info("aggregation %s (%s %s, %s) is %s", name, a.expr, a.grouping_text(), one.origin, word)


def _with(kept: Mapping[str, Kept], changed: Mapping[str, Kept | None]) -> Mapping[str, Kept]:
    """With these in place of those of the same ids, or without."""
    return {name: one for name, one in {**kept, **changed}.items() if one is not None}


def _found(aggregation_id: str, kept: Kept | None) -> Kept:
    if kept is None:
        raise NotKept(f"no aggregation {aggregation_id} is kept")
    return kept


def _unless_changed(was: Kept | None, new: Kept | None) -> _Change:
    """`new`, if it is still as it was; else as it is."""
    return lambda now: new if now == was else now


def _pinned(kept: Kept, pinned: bool) -> Kept:
    return replace(kept, pinned=pinned, suspended=kept.suspended and not pinned)


def _as_written(known: Kept, written: Definition | None) -> Kept | None:
    """What is kept by what is written down of it. Of the config's that says only whether it is suspended."""
    if known.origin == "config":
        return replace(known, suspended=written is not None and written.suspended)
    if written is None or written.origin == "config":
        return None
    aggregation = replace(known.aggregation, accumulators=written.accumulators, retention_ms=written.retention_ms)
    return Kept(aggregation, written.origin, written.pinned, written.suspended)


def in_service(kept: Iterable[Kept]) -> tuple[Aggregation, ...]:
    """Those that are computed and serve."""
    return tuple(one.aggregation for one in kept if not one.suspended)


def suspended_of(kept: Iterable[Kept]) -> frozenset[str]:
    """The ids of those that were found wrong, of which no pane may serve again."""
    return frozenset(one.aggregation.id for one in kept if one.suspended)
