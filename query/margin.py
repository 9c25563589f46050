"""Bounds that hold with some probability: how many answers outside of them are more than chance."""

import math
from dataclasses import dataclass

from query.deviation import Deviation

_NATS = math.log(1e9)
"""At each judgement, bounds that hold are taken for ones that do not with a probability of 1e-9."""
_MOST = 2000
"""So many judgements count; then half of them are forgotten, so that a long good past hides no fault."""


@dataclass
class _Tally:
    judged: float = 0.0
    outside: float = 0.0
    newest_ms: int = 0


class Margin:
    """Counts judgements of each aggregation; used by one thread.

    A pane is judged once: what is answered from it again is no other chance.
    """

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}

    def too_many(self, aggregation_id: str, found: Deviation) -> bool:
        """Count this one; whether there are more outside than chance explains. Then the counts begin anew."""
        tally = self._tallies.setdefault(aggregation_id, _Tally())
        if found.end_ms <= tally.newest_ms:
            return False
        tally.newest_ms = found.end_ms
        tally.judged += 1
        tally.outside += found.outside
        if improbable(tally.outside, tally.judged, 1 - found.confidence):
            del self._tallies[aggregation_id]
            return True
        if tally.judged >= _MOST:
            tally.judged, tally.outside = tally.judged / 2, tally.outside / 2
        return False


def improbable(outside: float, judged: float, chance: float) -> bool:
    """Whether so many of so many independent events, each of this chance, are as good as impossible.

    Chernoff's bound of the binomial distribution's tail: exp(-n D(k/n || p)), where D is the relative entropy.
    """
    share = outside / judged
    if share <= chance:
        return False
    entropy = share * math.log(share / chance)
    if share < 1:
        entropy += (1 - share) * math.log((1 - share) / (1 - chance))
    return judged * entropy > _NATS
