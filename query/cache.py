"""The result cache of range queries: values of steps that were answered before.

Nothing is ever invalidated. Each value is kept with a *stamp*, a column of numbers that says what it was made from
(query/stamps.py), and is found again under the same stamp alone, which the next query works out anew. Steps whose
stamps have changed are evaluated again, and no others.

What evaluates with a warning or an info is not for keeping: to which steps a note belongs is not known. Nor is what
cannot be answered step by step (`questions.why_not`).

Label sets are copied into symbols of the cache's own, so nothing here keeps a replaced series table alive.
"""

from collections import OrderedDict
from sys import getsizeof
from threading import Lock

import numpy as np

from precompute.evaluate.values import Scalar, Vector
from precompute.samples import I64, Bool
from query.kept import Kept
from query.questions import Question

_SHARE = 4
"""One question takes at most this part of all bytes, so that making room for it lets go of older ones only."""


class ResultCache:
    """Values by question and step, in at most `max_bytes`; the questions not asked for longest go first.

    Values are those of whole range queries: no metric names are left to remove, no order was asked for.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.bytes = max_bytes, 0
        self.hits, self.misses, self.evictions = 0, 0, 0
        self._kept: OrderedDict[Question, Kept] = OrderedDict()
        self._lock = Lock()

    def find(self, asked: Question, times: I64, stamp: I64) -> tuple[Bool, Vector | Scalar | None]:
        """Which of the steps (int64[s], ascending) are answered under these stamps (int64[k, s]), bool[s].

        And the value at just those; None where there are none.
        """
        with self._lock:
            kept = self._kept.get(asked)
            if kept is not None:
                self._kept.move_to_end(asked)
        hit, value = (np.zeros(len(times), np.bool_), None) if kept is None else kept.find(times, stamp)
        found = int(np.count_nonzero(hit))
        with self._lock:
            self.hits += found
            self.misses += len(times) - found
        return hit, value if found else None

    def keep(self, asked: Question, times: I64, stamp: I64, value: Vector | Scalar) -> None:
        """Keep the value at these steps (shapes as in `find`), in the place of what is kept there.

        stamp: taken before the value was evaluated. What takes too much room is not kept.
        """
        if not len(times):
            return
        with self._lock:
            known = self._kept.pop(asked, None)
            self.bytes -= 0 if known is None else _size_bytes(asked, known)
            kept = known or Kept(isinstance(value, Scalar))
            if kept.keep(times, stamp, value, self.max_bytes // _SHARE):
                self._kept[asked] = kept
                self.bytes += _size_bytes(asked, kept)
                self._make_room()
            elif known is not None:
                self.evictions += 1

    def _make_room(self) -> None:
        while self.bytes > self.max_bytes:
            asked, kept = self._kept.popitem(last=False)
            self.bytes -= _size_bytes(asked, kept)
            self.evictions += 1


def _size_bytes(asked: Question, kept: Kept) -> int:
    return kept.size_bytes() + getsizeof(asked.text)
