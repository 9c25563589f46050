"""The result cache of range queries: values of steps that were answered before.

Nothing is ever invalidated. Each value is kept with a *stamp*, a column of numbers that says what it was made from,
and is found again only under the same stamp, which the next query works out anew before it looks anything up:

    which tier serves each part at the step, and for summaries which aggregation: numbers that are never used twice
    of what the head serves, the newest log entry near the step's windows (`head_stamp`)
    of what summaries serve, the newest log entry that each part's pane has seen (`PaneBook.seen`)

So late data, a replaced summary, a changed aggregation and a step that passes from one tier to another each give other
stamps at the steps that they touch, and at no other (near: within one granule of `Touched`). Why equal stamps mean
equal values:

- Entry ids grow. Samples are in the head before their entry is noted, and the stamp is taken before anything is
  evaluated; so a value is made from all entries up to its stamp's. What arrives meanwhile may or may not be in it, and
  changes the stamp of the next query.
- The newest entry of an interval falls back to an older one only where granules are forgotten, which end at or before
  `base`; what the head serves begins at `base` or later. Summaries outlive the head: therefore their number is what
  the pane has seen, which stays, and the parts' numbers stand in rows of their own. (The largest of all parts would not
  do: while one pane waits for its tick, another may already have seen the entry that made both dirty.)
- A pane's summary is a pure function of the samples up to what it has seen, and in the store before the book says so.
- A restart, after which ids can repeat what a power cut took away, begins with an empty cache.
- A step's value depends on no other step (`questions.why_not` names the expressions for which that is not so), nor on
  anything else that changes in a process: evaluation interval and features are the engine's.
- Label sets are copied into symbols of the cache's own, so nothing here keeps a replaced series table alive.

What evaluates with a warning or an info is not for keeping: to which steps a note belongs is not known.
"""

from collections import OrderedDict
from sys import getsizeof
from threading import Lock

import numpy as np

from precompute.evaluate.expr import Expr
from precompute.evaluate.values import Scalar, Vector
from precompute.samples import I64, Bool
from precompute.touched import Touched
from query.kept import Kept
from query.questions import Question
from query.tiers.head import looks
from query.tiers.summary import Steps

_SHARE = 4
"""One question takes at most this part of all bytes, so that making room for it lets go of older ones only."""


def head_stamp(touched: Touched, expr: Expr, steps: Steps, lookback_ms: int) -> I64:
    """Per step the newest log entry with a sample near what the expression's selectors look at; int64[s]."""
    newest = np.zeros(len(steps.times), np.int64)
    for look in looks(expr, steps, lookback_ms):
        np.maximum(newest, touched.newest(look.after, look.until), out=newest)
    return newest


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
