"""The exact top k: the k keys with the largest values, or the smallest, and those values.

A key that comes several times counts with its best value. The k best of a whole are among the k best of its parts, so
this is exact however the parts were cut, for every k up to its own. As in PromQL any number is better than NaN; of
equal values the smaller key wins, so that the order of arrival does not matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.kernels import kernel
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import EXACT, Accumulator, Bound, Column, Items, State
from precompute.sketches.family import Family, Parameter
from precompute.sketches.keyed import best_of_runs, nth_of_runs, rows_of_runs, runs_of

WORST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class TopK:
    """The accumulator; `largest` false: the smallest values are best."""

    name: str = "topk"
    k: int = 10
    largest: bool = True
    version: int = 1
    columns: tuple[Column, ...] = (
        Column("key_off", "<i8"),
        Column("key", "<u8", "key_off"),
        Column("value", "<f8", "key_off"),
    )
    """Best first."""
    feeds: ClassVar[type[Items]] = Items
    seams: ClassVar[bool] = False

    @property
    def answers(self) -> Mapping[str, Bound]:
        """topk or bottomk: the value of rank `parameter`, from 1 for the best to k."""
        return {"topk" if self.largest else "bottomk": EXACT}

    def build(self, items: Items) -> State:
        return self._best(items.row.astype(np.int64), items.key, items.value, items.rows)

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        return self._best(rows_of_runs(state["key_off"], into), state["key"], state["value"], n_rows)

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        return nth_of_runs(state["key_off"], state["value"], parameter)

    def check(self, state: State) -> None:
        off, score, key = state["key_off"], self._scores(state["value"]), state["key"]
        same_row = np.ones(max(len(key) - 1, 0), np.bool_)
        same_row[off[(off > 0) & (off < len(key))] - 1] = False
        falls = (score[1:] < score[:-1]) | ((score[1:] == score[:-1]) & (key[1:] > key[:-1]))
        if not (bool((falls | ~same_row).all()) and bool((np.diff(off) <= self.k).all())):
            raise BlobError(f"columns of {self.name} do not fit each other")

    def _scores(self, value: F64) -> I64:
        """Whole numbers that rise as values get better; NaN is the worst."""
        bits = np.ascontiguousarray(value).view(np.int64)
        rising = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
        return np.where(np.isnan(value), WORST, rising if self.largest else ~rising)

    def _values(self, score: I64) -> F64:
        """The values of scores."""
        rising = score if self.largest else ~score
        bits = np.where(rising < 0, rising ^ np.iinfo(np.int64).max, rising)
        return np.where(score == WORST, np.nan, bits.view(np.float64))

    def _best(self, row: I64, key: U64, value: F64, rows: int) -> State:
        runs = runs_of(row, key, rows)
        score = _best_scores(runs.place, self._scores(value), len(runs.keys))
        picks, off = best_of_runs(runs.off, score, self.k)
        return {"key_off": off, "key": runs.keys[picks], "value": self._values(score[picks])}


@kernel
def _best_scores(place: I64, score: I64, n: int) -> I64:
    best = np.full(n, WORST)
    for i in range(len(place)):
        best[place[i]] = max(best[place[i]], score[i])
    return best


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, TopK)
    return 8 + 16 * min(n, found.k)


K = (Parameter("k", 10, 1, 10_000, "how many keys"),)
FAMILIES = (
    Family("topk", "the k keys with the largest values, exactly", TopK, _row_bytes, K),
    Family("bottomk", "the k keys with the smallest values, exactly", partial(TopK, largest=False), _row_bytes, K),
)
