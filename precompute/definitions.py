"""Definitions of aggregations as they are kept over a restart, and the contract of what keeps them."""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from precompute.aggregations import Aggregation
from precompute.evaluate.expr import Expr

Origin = Literal["config", "api", "planner"]
"""Who asked for an aggregation."""


@dataclass(frozen=True)
class Kept:
    """An aggregation in force. A pinned one stays whatever a planner decides.

    A suspended one is not computed and serves nothing, since it was found wrong. It stays too, lest it comes back.
    """

    aggregation: Aggregation
    origin: Origin
    pinned: bool
    suspended: bool = False

    @property
    def stays(self) -> bool:
        """Whether no planner lets go of it."""
        return self.pinned or self.suspended


@dataclass(frozen=True)
class Definition:
    """The same in plain values; the expression as text. The id is that under which it was written."""

    id: str
    expr: str
    labels: tuple[str, ...]
    without: bool
    accumulators: tuple[str, ...]
    width_ms: int
    lookback_ms: int
    retention_ms: int
    origin: Origin
    pinned: bool
    suspended: bool = False

    def kept(self, parse: Callable[[str], Expr]) -> Kept:
        """What it defines. Raises QueryError where that cannot be kept."""
        aggregation = Aggregation(
            parse(self.expr), self.labels, self.without, self.accumulators, self.width_ms, self.lookback_ms,
            self.retention_ms,
        )  # fmt: skip
        return Kept(aggregation, self.origin, self.pinned, self.suspended)


def definition_of(kept: Kept) -> Definition:
    """What brings it back."""
    a = kept.aggregation
    return Definition(
        a.id, str(a.expr), a.labels, a.without, a.accumulators, a.width_ms, a.lookback_ms, a.retention_ms,
        kept.origin, kept.pinned, kept.suspended,
    )  # fmt: skip


Settle = Callable[[Mapping[str, Definition]], Mapping[str, Definition]]
"""From definitions as they are written down, by id, to those that shall be; what it leaves out goes."""


class DefinitionStore(Protocol):
    """Keeps definitions, one for each id. Any thread may call it; every method may raise StoreError."""

    def definitions(self) -> tuple[Definition, ...]:
        """All that are whole, in order of their ids; those that cannot be read are left out, and logged."""

    def change(self, names: Collection[str], settle: Settle) -> Mapping[str, Definition]:
        """Put what `settle` makes of the definitions with these ids in their place, and say what that is.

        Nobody else changes them between: other processes do so too, and what one had read before may be no more. On an
        error, one of `settle` too, nothing has changed. `settle` names no other ids, and may be called again.
        """


class MemoryDefinitions:
    """In this process' memory: the reference."""

    def __init__(self) -> None:
        self._held: dict[str, Definition] = {}
        self._lock = threading.Lock()

    def definitions(self) -> tuple[Definition, ...]:
        return tuple(self._held[name] for name in sorted(self._held))

    def change(self, names: Collection[str], settle: Settle) -> Mapping[str, Definition]:
        with self._lock:
            after = settle({name: held for name, held in self._held.items() if name in names})
            self._held = {**{name: held for name, held in self._held.items() if name not in names}, **after}
        return after
