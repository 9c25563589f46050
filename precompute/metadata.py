"""What senders say about metrics: type, help and unit, by metric family."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MOST_FAMILIES = 100_000


@dataclass(frozen=True)
class Family:
    """One description, named as in Prometheus' API."""

    type: str
    help: str
    unit: str


Described = tuple[str, Family]
"""A family's name and what a sender says of it."""


class Descriptions(Protocol):
    """Descriptions by family. Any thread may call it."""

    def note(self, described: Sequence[Described]) -> None:
        """All that a sender says at a time; families beyond a bound are let go, and what cannot be kept now."""

    def all(self) -> dict[str, list[Family]]:
        """Every family's descriptions, by name."""


class MetricMetadata:
    """Descriptions by family, in memory: senders repeat them every minute. Any thread may call it."""

    def __init__(self) -> None:
        self._families: dict[str, dict[Family, None]] = {}
        self._lock = threading.Lock()

    def note(self, described: Sequence[Described]) -> None:
        with self._lock:
            for family, description in described:
                self._note(family, description)

    def all(self) -> dict[str, list[Family]]:
        with self._lock:
            return {name: list(described) for name, described in sorted(self._families.items())}

    def _note(self, family: str, description: Family) -> None:
        if family not in self._families and len(self._families) >= MOST_FAMILIES:
            return
        known = self._families.setdefault(family, {})
        known[description] = None
        while len(known) > 4:
            del known[next(iter(known))]
