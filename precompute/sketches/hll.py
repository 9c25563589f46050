"""How many distinct keys: the keys themselves while a row has few, then HyperLogLog's registers.

A row is exact while its keys take no more bytes than its registers would: 2^p / 8 keys. So it is a function of its set
of keys: merging is free of order, and merging parts gives the bits of building the whole.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from precompute.errors import BlobError
from precompute.samples import F64, I32, I64, U8, U64, Bool
from precompute.sketches.base import Accumulator, Bound, Column, Items, State
from precompute.sketches.columns import runs_rise
from precompute.sketches.family import Family, Parameter, Value
from precompute.sketches.hll_kernels import estimates, fill_registers, merge_registers
from precompute.sketches.keyed import full_runs, rows_of_runs, runs_of

CONFIDENCE, DEVIATIONS = 0.99, 2.576
"""The bound is 2.576 standard errors of 1.04 / sqrt(2^p): 99 % of normally distributed errors are smaller."""
LEAST_P, MOST_P = 7, 18


@dataclass(frozen=True)
class HyperLogLog:
    """The accumulator with 2^p registers."""

    name: str = "hll"
    p: int = 14
    version: int = 1
    columns: tuple[Column, ...] = (
        Column("key_off", "<i8"),
        Column("key", "<u8", "key_off"),
        Column("reg_off", "<i8"),
        Column("reg", "|u1", "reg_off"),
    )
    """key: ascending. A row has either keys or 2^p registers; an empty one neither."""
    feeds: ClassVar[type[Items]] = Items
    seams: ClassVar[bool] = False

    @property
    def answers(self) -> Mapping[str, Bound]:
        return {"distinct": Bound("relative", DEVIATIONS * 1.04 / math.sqrt(1 << self.p), CONFIDENCE)}

    @property
    def few(self) -> int:
        """The largest number of keys that are kept as they are."""
        return (1 << self.p) // 8

    def build(self, items: Items) -> State:
        nothing = np.zeros((0, 1 << self.p), np.uint8)
        return self._state(items.row, items.key, nothing, np.zeros(0, np.int64), items.rows)

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        owners = full_runs(state["reg_off"])
        keys = rows_of_runs(state["key_off"], into), state["key"]
        return self._state(*keys, self._registers(state), into[owners].astype(np.int64), n_rows)

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        distinct = np.diff(state["key_off"]).astype(np.float64)
        distinct[full_runs(state["reg_off"])] = estimates(self._registers(state), self.p)
        return distinct

    def check(self, state: State) -> None:
        keys, registers = np.diff(state["key_off"]), np.diff(state["reg_off"])
        either = (registers == 0) | ((registers == 1 << self.p) & (keys == 0))
        ranks = int(state["reg"].max(initial=0)) <= 65 - self.p
        if not (bool(either.all()) and bool((keys <= self.few).all()) and ranks):
            raise BlobError(f"columns of {self.name} do not fit each other")
        if not runs_rise(state["key"], state["key_off"]):
            raise BlobError(f"keys of {self.name} are not in order")

    def _registers(self, state: State) -> U8:
        return np.ascontiguousarray(state["reg"]).reshape(-1, 1 << self.p)

    def _state(self, row: I32 | I64, key: U64, source: U8, targets: I64, rows: int) -> State:
        """Of single keys, and of registers that are merged into the rows `targets`."""
        over: Bool = np.zeros(rows, np.bool_)
        over[targets] = True
        runs = runs_of(row, key, rows, self.few, over)
        registers = np.zeros((int(runs.over.sum()), 1 << self.p), np.uint8)
        fill_registers(key, runs.order, runs.ends, runs.dense, self.p, registers)
        merge_registers(source, runs.dense[targets], registers)
        reg_off = np.concatenate([[0], np.cumsum(runs.over.astype(np.int64) << self.p)])
        return {"key_off": runs.off, "key": runs.keys, "reg_off": reg_off, "reg": registers.ravel()}


def _fit(error: float) -> Mapping[str, Value]:
    return {"p": min(max(math.ceil(2 * math.log2(DEVIATIONS * 1.04 / error)), 10), MOST_P)}


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, HyperLogLog)
    return 16 + (8 * n if n <= found.few else 1 << found.p)


FAMILY = Family(
    "hll",
    "number of distinct keys, by HyperLogLog once they are many",
    HyperLogLog,
    _row_bytes,
    (Parameter("p", 14, LEAST_P, MOST_P, "2^p registers"),),
    _fit,
    few=(1 << 14) // 8,
)
