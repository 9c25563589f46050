"""What goes wrong: drawn one after another, each mended after a while, several at a time."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from precompute.clock import Clock
from tests.cluster.roles import Cluster, Role
from tests.running import poll_until
from tests.servers import PostgreSQLServer, RedisServer

GAP_S = (0.5, 4.0)
"""Time between two faults."""
READY_S = 120.0
TOO_SMALL = "1mb"
"""Less than an empty Redis takes."""


@dataclass(frozen=True)
class Kind:
    """A way to fail: who may, how it begins, how it is mended, and after how many seconds."""

    name: str
    targets: Callable[[Cluster], Sequence[Any]]
    begin: Callable[[Any], None]
    mend: Callable[[Any], None]
    lasts_s: tuple[float, float]


@dataclass(frozen=True)
class Struck:
    """A fault that has happened, its target and when it began, ms."""

    kind: str
    target: Any
    at_ms: int


def kinds(lease_s: float, away_s: float) -> tuple[Kind, ...]:
    """All of them; a worker that stands still does so past its lease, PostgreSQL is away for up to `away_s`."""
    past_lease = (1.2 * lease_s, 2.5 * lease_s)
    return (
        Kind("worker killed", lambda c: c.workers, Role.kill, Role.start, (0.0, 3.0)),
        Kind("worker stood still", lambda c: c.workers, Role.pause, Role.resume, past_lease),
        Kind("scheduler killed", lambda c: c.schedulers, Role.kill, Role.start, (0.0, 5.0)),
        Kind("ingest killed", lambda c: c.ingests, Role.kill, Role.start, (0.0, 2.0)),
        Kind("query engine killed", lambda c: c.query_engines, Role.kill, Role.start, (0.0, 2.0)),
        Kind(LOG_KILLED, lambda c: c.ground.logs, RedisServer.kill, RedisServer.start, (0.0, 2.0)),
        Kind("log full", lambda c: c.ground.logs, _fill, _make_room, (0.5, 4.0)),
        Kind("broker killed", lambda c: [c.ground.broker], RedisServer.kill, RedisServer.start, (0.0, 5.0)),
        Kind(
            "PostgreSQL away", lambda c: [c.ground.database], PostgreSQLServer.stop, PostgreSQLServer.start,
            (away_s / 4, away_s),
        ),
    )  # fmt: skip


LOG_KILLED = "log killed"


def _fill(redis: RedisServer) -> None:
    redis.cli("config", "set", "maxmemory", TOO_SMALL)


def _make_room(redis: RedisServer) -> None:
    redis.cli("config", "set", "maxmemory", "0")


@dataclass
class Weather:
    """Faults on a cluster, and what has happened so far."""

    cluster: Cluster
    kinds: tuple[Kind, ...]
    draw: random.Random
    clock: Clock
    gap_s: tuple[float, float] = GAP_S
    struck: list[Struck] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Roles that ended by themselves; they were started again, as a cluster's manager does."""
    _open: list[tuple[float, Kind, Any]] = field(default_factory=list)

    def storm(self, seconds: float) -> None:
        """Faults at random moments; those that are not mended yet stay until `calm`."""
        until_s = self.clock.monotonic_s() + seconds
        while (now_s := self.clock.monotonic_s()) < until_s:
            next_s = now_s + self.draw.uniform(*self.gap_s)
            while (now_s := self.clock.monotonic_s()) < next_s:
                self._mend(now_s)
                due_s = min([next_s, *(at_s for at_s, _, _ in self._open)])
                threading.Event().wait(max(0.0, due_s - now_s))
            self._strike()

    def calm(self) -> None:
        """Everything is mended, and all roles are ready."""
        self._mend(float("inf"))
        for role in self.cluster.roles:
            poll_until(partial(self._is_well, role), READY_S, f"{role.name} is ready again", 0.2)

    def counted(self) -> Counter[str]:
        """Faults by kind."""
        return Counter(struck.kind for struck in self.struck)

    def _strike(self) -> None:
        """One fault, of a kind and on a target that are drawn; targets with a fault of their own are left alone."""
        kind = self.draw.choice(self.kinds)
        ill = [target for _, _, target in self._open]
        well = [target for target in kind.targets(self.cluster) if not any(target is one for one in ill)]
        if not well:
            return
        target = self.draw.choice(well)
        if isinstance(target, Role) and not self._is_well(target):
            return  # it is starting; who is never let up shows nothing
        self.struck.append(Struck(kind.name, target, self.clock.now_ms()))
        kind.begin(target)
        self._open.append((self.clock.monotonic_s() + self.draw.uniform(*kind.lasts_s), kind, target))

    def _mend(self, now_s: float) -> None:
        for one in [one for one in self._open if one[0] <= now_s]:
            self._open.remove(one)
            one[1].mend(one[2])

    def _is_well(self, role: Role) -> bool:
        """Whether it is ready; one that has ended by itself is started again."""
        if role.running.process.poll() is not None:
            last = role.log.strip().rpartition("\n")[2]
            self.ended.append(f"{role.name}, exit code {role.running.process.returncode}: {last}")
            role.start()
        return role.is_ready()
