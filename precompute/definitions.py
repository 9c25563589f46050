"""Definitions of aggregations as they are kept over a restart, and the contract of what keeps them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


class DefinitionStore(Protocol):
    """Keeps definitions, one for each id. Any thread may call it; every method may raise StoreError."""

    def definitions(self) -> tuple[Definition, ...]:
        """All that are whole, in order of their ids; those that cannot be read are left out, and logged."""

    def save(self, new: Sequence[Definition], gone: Sequence[str]) -> None:
        """Keep these, in place of those with the same ids, and let go of some ids; all of it or, on an error, none."""


class MemoryDefinitions:
    """In this process' memory: the reference."""

    def __init__(self) -> None:
        self._held: dict[str, Definition] = {}

    def definitions(self) -> tuple[Definition, ...]:
        return tuple(self._held[name] for name in sorted(self._held))

    def save(self, new: Sequence[Definition], gone: Sequence[str]) -> None:
        left = {name: held for name, held in self._held.items() if name not in gone}
        self._held = {**left, **{one.id: replace(one) for one in new}}
