"""Which worker is kicked for which shard, and who gives shards away. Pure.

    holders  a a a a · b        live  a b c
    free     ^4 to the least loaded: c
    sizes    a 4  b 1  c 1  →  a gives one to b: the next round finds 3 2 1, which still moves one: 2 2 2

Heads are warm: a shard stays where it is held unless its holder has at least two more than another worker.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

Sizes = dict[str, int]


@dataclass(frozen=True)
class Kick:
    """One tick of a shard, to be sent to this worker's queue; then the shard is `give_to`'s, unless that is empty."""

    shard: int
    worker: str
    give_to: str = ""


def placed(live: Collection[str], holders: Sequence[str], most_moves: int) -> list[Kick]:
    """A kick for every shard, in their order; none without a worker.

    holders: per shard who holds it, empty where nobody does; a name that is not live counts as nobody.
    most_moves: so many shards change their worker in one round, those without a holder aside.
    """
    if not live:
        return []
    sizes = dict.fromkeys(sorted(live), 0)
    for holder in holders:
        if holder in sizes:
            sizes[holder] += 1
    workers = [holder if holder in sizes else _taker(sizes) for holder in holders]
    given = _given(sizes, holders, most_moves)
    return [Kick(shard, worker, given.get(shard, "")) for shard, worker in enumerate(workers)]


def _taker(sizes: Sizes) -> str:
    """The least loaded, which has one more from now on."""
    worker = min(sizes, key=sizes.__getitem__)
    sizes[worker] += 1
    return worker


def _given(sizes: Sizes, holders: Sequence[str], most_moves: int) -> Mapping[int, str]:
    """Shard -> its next worker: from the most loaded to the least, while they differ by more than one."""
    held: dict[str, list[int]] = {worker: [] for worker in sizes}
    for shard, holder in enumerate(holders):
        if holder in held:
            held[holder].append(shard)
    given: dict[int, str] = {}
    while len(given) < most_moves:
        most = max(sizes, key=sizes.__getitem__)
        if sizes[most] - min(sizes.values()) <= 1:
            break
        sizes[most] -= 1
        given[held[most].pop()] = _taker(sizes)
    return given
