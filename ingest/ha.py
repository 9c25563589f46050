"""Replica pairs: of several senders of the same series, one is heard.

Two Prometheus servers that scrape the same targets send each series twice, told apart by a replica label.
Per cluster one replica is elected: the first that is seen. The samples of the others are dropped until the
elected one has been silent for the timeout; then the next sender takes its place. (The rule of Cortex' and
Mimir's HA tracker, with the time of receipt, which a sender's clock cannot bend.)

Decisions are per request and pair, so a request is heard or dropped whole.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from precompute.clock import Clock
from precompute.labels import Labels

MAX_PAIRS = 10_000
"""Pairs of cluster and replica that are told apart; series of further ones are refused."""


NO_ROOM = -1
"""The tag of every pair beyond MAX_PAIRS."""


@dataclass(frozen=True)
class HaLabels:
    """Names of the labels that tell clusters and replicas apart."""

    cluster_label: str = "cluster"
    replica_label: str = "__replica__"


class Elections(Protocol):
    """Who is heard of the replicas of a cluster. Any thread may call it."""

    def hear(self, cluster: str, replica: str) -> bool:
        """Whether this replica, which has just sent, is heard. Raises Rejected where nobody can tell."""


@dataclass
class _Election:
    replica: str
    heard_s: float


class OwnElections:
    """Elections of one process."""

    def __init__(self, timeout_ms: int, clock: Clock) -> None:
        self._timeout_s, self._clock = timeout_ms / 1000, clock
        self._lock = threading.Lock()
        self._elected: dict[str, _Election] = {}

    def hear(self, cluster: str, replica: str) -> bool:
        now_s = self._clock.monotonic_s()
        with self._lock:
            election = self._elected.get(cluster)
            if election and election.replica != replica and now_s - election.heard_s <= self._timeout_s:
                return False
            self._elected[cluster] = _Election(replica, now_s)
            return True


class ReplicaPairs:
    """The pairs seen, by tags; safe to use from several threads."""

    def __init__(self, labels: HaLabels, elections: Elections, max_pairs: int = MAX_PAIRS) -> None:
        self.names = (labels.cluster_label, labels.replica_label)
        self._elections, self._max_pairs = elections, max_pairs
        self._lock = threading.Lock()
        self._tags: dict[tuple[str, str], int] = {}
        self._pairs: list[tuple[str, str]] = [("", "")]

    def split(self, labels: Labels) -> tuple[Labels, int]:
        """(labels without the replica, tag of the pair); tag 0 where not both labels are present."""
        cluster_label, replica_label = self.names
        found = dict(labels)
        if cluster_label not in found or replica_label not in found:
            return labels, 0
        tag = self._tag(found[cluster_label], found[replica_label])
        return tuple(pair for pair in labels if pair[0] != replica_label), tag

    def dropped(self, tags: Iterable[int]) -> list[int]:
        """Which of these pairs are not heard now; hears the others. Tag 0 is always heard."""
        return [tag for tag in tags if tag != 0 and not self._elections.hear(*self._pairs[tag])]

    def _tag(self, cluster: str, replica: str) -> int:
        with self._lock:
            tag = self._tags.get((cluster, replica))
            if tag is not None:
                return tag
            if len(self._tags) >= self._max_pairs:
                return NO_ROOM
            self._pairs.append((cluster, replica))
            return self._tags.setdefault((cluster, replica), len(self._pairs) - 1)
