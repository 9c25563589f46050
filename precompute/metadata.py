"""What senders say about metrics: type, help and unit, by metric family."""

import threading
from dataclasses import dataclass
from typing import Protocol

MOST_FAMILIES = 100_000


@dataclass(frozen=True)
class Family:
    """One description, named as in Prometheus' API."""

    type: str
    help: str
    unit: str


class Descriptions(Protocol):
    """Descriptions by family. Any thread may call it."""

    def note(self, family: str, type_: str, help_: str, unit: str) -> None:
        """A sender's description; families beyond a bound are let go."""

    def all(self) -> dict[str, list[Family]]:
        """Every family's descriptions, by name."""


class MetricMetadata:
    """Descriptions by family, in memory: senders repeat them every minute. Any thread may call it."""

    def __init__(self) -> None:
        self._families: dict[str, dict[Family, None]] = {}
        self._lock = threading.Lock()

    def note(self, family: str, type_: str, help_: str, unit: str) -> None:
        with self._lock:
            if family in self._families or len(self._families) < MOST_FAMILIES:
                described = self._families.setdefault(family, {})
                described[Family(type_, help_, unit)] = None
                while len(described) > 4:
                    del described[next(iter(described))]

    def all(self) -> dict[str, list[Family]]:
        with self._lock:
            return {name: list(described) for name, described in sorted(self._families.items())}
