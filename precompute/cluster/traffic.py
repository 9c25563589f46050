"""What an ingest process counts of its appends: the shards' answers, and where the time went."""

from collections import Counter
from collections.abc import Sequence

from precompute.clock import Clock
from precompute.cluster.batch import Send
from precompute.cluster.replies import Appended
from precompute.cluster.server import Call, Server, ServerDown, ServerFull

UNANSWERED, NO_MEMORY, UNSAFE = "unanswered", "no_memory", "unsafe"
"""Outcomes beside those of `Appended`: nobody knows whether it was carried out; the server's maxmemory is reached; it
is in the log, but fewer replicas than redis.wait_replicas have it."""


class Traffic:
    """Written by whoever sends, one thread at a time; read by any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.outcomes: Counter[str] = Counter()
        """Entries of samples and of holes that were sent, by what a shard answered; each try counts."""
        self.rounds = 0
        """Round trips to a server, each with the entries of all its shards."""
        self.sending_s = 0.0
        """How long they took."""
        self.writes = 0
        self.waiting_s = 0.0
        """How long those writes waited for others, or for the ones before them, until they were sent."""

    def counted(self, send: Send) -> Send:
        """The same, counted."""

        def counting(server: Server, calls: Sequence[Call]) -> tuple[list[Appended], str]:
            began_s = self._clock.monotonic_s()
            try:
                replies, why_not = send(server, calls)
            except (ServerDown, ServerFull) as error:
                self.outcomes[NO_MEMORY if isinstance(error, ServerFull) else UNANSWERED] += len(calls)
                raise
            finally:
                self.rounds += 1
                self.sending_s += self._clock.monotonic_s() - began_s
            self.outcomes.update(_outcome(reply, why_not) for reply in replies)
            return replies, why_not

        return counting

    def note_waits(self, since_s: Sequence[float]) -> None:
        """These writes are sent now; since when each waited."""
        now_s = self._clock.monotonic_s()
        self.writes += len(since_s)
        self.waiting_s += sum(now_s - since for since in since_s)


def _outcome(reply: Appended, why_not: str) -> str:
    return UNSAFE if why_not and reply.outcome in ("ok", "dup") else reply.outcome
