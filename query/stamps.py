"""Stamps: what the value at a step is made from, as a column of numbers; equal stamps mean equal values.

    which tier serves each node of the plan                       so also a step that passes to another tier
    of a node served by summaries: its aggregation, and           so also a replaced summary
      the newest log entry that the step's pane has seen
    of a leaf served by the head: the newest log entry            so also late data
      near the step's windows

Late data changes the stamps of the steps that look at it, and at most those of steps that look up to a granule of
`Touched` beside it. Why equal stamps mean equal values:

- Entry ids grow. Samples are in the head before their entry is noted, and a stamp is taken before its value is
  evaluated; so the value is made from all entries up to the stamp's. What arrives meanwhile may or may not be in it,
  and changes the next stamp.
- The newest entry of an interval falls back to an older one only where granules are forgotten, which end at or before
  `base`; what the head serves begins at `base` or later. Summaries outlive the head: therefore theirs is the number
  that the pane has seen, which stays.
- Each node has a row of its own. The largest number of all would not do: while one pane still waits for its tick,
  another may already have seen the entry that made both dirty.
- Aggregations come and go while all runs. An id stands for the same values always, and what is covered otherwise is
  served otherwise; a row's place follows from the expression alone.
- A pane's summary is a pure function of the samples up to what it has seen, and in the store before the book says so.
- Of panes that were found wrong that does not hold, and those made in their place may have seen no more. So there is a
  last row, which is another one for all of the cache from then on.
- Log ids may come again after a restart, where a power cut took them away; no stamp outlives its process.
"""

from collections.abc import Callable

import numpy as np

from precompute.aggregations import Aggregation
from precompute.evaluate.expr import Aggregate, Expr
from precompute.samples import I64
from precompute.touched import Touched
from query.assign import HERE, SUMMARY, Codes
from query.plan import Node, Plan
from query.tiers.head import looks
from query.tiers.summary import Steps, pane_times


class Stamps:
    """Takes stamps of one node's state."""

    def __init__(
        self, touched: Touched, seen: Callable[[Aggregation, I64], I64], disowned: Callable[[], int]
    ) -> None:  # fmt: skip
        """seen: per pane end of an aggregation, int64[p], the newest entry in its summary. disowned: a number that is
        another one once panes were found wrong."""
        self._touched, self._seen, self._disowned = touched, seen, disowned

    def of(self, plan: Plan, codes: Codes, steps: Steps, lookback_ms: int) -> I64:
        """int64[k, s] for steps that are served as int8[nodes, s] says, none by an upstream; k is the plan's."""
        rows = [row.astype(np.int64) for row in codes]
        for node in plan.nodes:
            code = codes[node.number]
            if isinstance(node.expr, Aggregate):
                rows += self._of_summaries(node, code, steps)
            if node.selectors and not node.children:
                rows.append(np.where(code == HERE, self.newest(node.expr, steps, lookback_ms), 0))
        return np.stack([*rows, np.full_like(rows[0], self._disowned())])

    def _of_summaries(self, node: Node, code: Codes, steps: Steps) -> list[I64]:
        """Two rows, without coverage too: so a row means the same whatever aggregations are in force."""
        if node.coverage is None:
            return [np.zeros(len(code), np.int64)] * 2
        aggregation = node.coverage.aggregation
        seen = self._seen(aggregation, pane_times(node.coverage, steps))
        return [np.where(code == SUMMARY, number, 0) for number in (_number(aggregation), seen)]

    def newest(self, expr: Expr, steps: Steps, lookback_ms: int) -> I64:
        """Per step the newest log entry with a sample near what the expression's selectors look at; int64[s]."""
        newest = np.zeros(len(steps.times), np.int64)
        for look in looks(expr, steps, lookback_ms):
            np.maximum(newest, self._touched.newest(look.after, look.until), out=newest)
        return newest


def _number(aggregation: Aggregation) -> int:
    """Its id, 64 bits, as an int64."""
    return int.from_bytes(bytes.fromhex(aggregation.id), "big", signed=True)
