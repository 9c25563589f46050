"""All shards of an install, on one Redis server or several."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from precompute.cluster.replies import ShardLimits, ShardState, parse_state
from precompute.cluster.server import Argument, Call, Server
from precompute.cluster.shard import Shard
from precompute.errors import PrecomputeError


class Shards:
    """Shard s lives on server s mod n; what belongs to no shard lives on the first. Methods raise ServerDown."""

    def __init__(
        self, urls: Sequence[str], count: int, limits: ShardLimits, now_ms: Callable[[], int] | None = None
    ) -> None:
        """now_ms: as in Shard."""
        self.servers = tuple(Server(url) for url in urls)
        self.all = tuple(Shard(self.servers[s % len(urls)], s, limits, now_ms) for s in range(count))
        self.limits = limits

    @property
    def first(self) -> Server:
        """Where what belongs to no shard is kept."""
        return self.servers[0]

    def __len__(self) -> int:
        return len(self.all)

    def run_all(self, calls: Sequence[tuple[Shard, Call]]) -> list[Any]:
        """What each call returns, in order; one round trip a server. Raises what the first server that fails raises,
        after the others were asked."""
        return _each_server(calls, lambda server, some: server.run_all(some))

    def ask_all(self, commands: Sequence[tuple[Shard, Sequence[Argument]]]) -> list[Any]:
        """The same for plain commands."""
        return _each_server(commands, lambda server, some: server.ask_all(some))

    def states(self) -> list[ShardState | None]:
        """Of every shard, in their order."""
        return [parse_state(reply) for reply in self.ask_all([(shard, shard.ask_state()) for shard in self.all])]

    def create(self, complete: bool) -> int:
        """Make the metadata of shards that have none; how many had none."""
        return sum(shard.create(complete) for shard in self.all)

    def close(self) -> None:
        for server in self.servers:
            server.close()


def _each_server(asked: Sequence[tuple[Shard, Any]], send: Callable[[Server, list[Any]], Iterable[Any]]) -> list[Any]:
    places: dict[Server, list[int]] = defaultdict(list)
    for place, (shard, _) in enumerate(asked):
        places[shard.server].append(place)
    replies: list[Any] = [None] * len(asked)
    failed: PrecomputeError | None = None
    for server, mine in places.items():
        try:
            for place, reply in zip(mine, send(server, [asked[at][1] for at in mine]), strict=True):
                replies[place] = reply
        except PrecomputeError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return replies
