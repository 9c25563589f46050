"""How many distinct keys, by the theta sketch of `datasketches`.

A row keeps the 2^lg_k smallest hashes of its keys and is exact up to that many keys. It is trimmed to that number
whenever it is made, so it is a function of its set of keys: merging is free of order, and merging parts gives the bits
of building the whole. The library takes one key a call, which is made once for each distinct key of a row; `hll` is
the faster and smaller choice, while theta's bytes are what other systems of the same library read.

Source: A. Dasgupta, K. Lang, L. Rhodes, J. Thaler 2016, "A framework for estimating stream expression cardinalities".
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from datasketches import compact_theta_sketch, theta_union, update_theta_sketch

from precompute.errors import BlobError
from precompute.samples import F64, I32, I64, U64
from precompute.sketches.base import Accumulator, Bound, Column, Items, State
from precompute.sketches.family import Family, Parameter, Value
from precompute.sketches.keyed import runs_of
from precompute.sketches.log_kernels import by_target

CONFIDENCE, DEVIATIONS = 0.99, 2.576
"""The bound is 2.576 standard errors of 1 / sqrt(2^lg_k - 1): 99 % of normally distributed errors are smaller."""


@dataclass(frozen=True)
class Theta:
    """The accumulator."""

    name: str = "theta"
    lg_k: int = 12
    version: int = 1
    columns: tuple[Column, ...] = (Column("sketch_off", "<i8"), Column("sketch", "|u1", "sketch_off"))
    """sketch: a compact theta sketch, its hashes in order, as `datasketches` writes it; an empty row has no bytes."""
    feeds: ClassVar[type[Items]] = Items
    seams: ClassVar[bool] = False

    @property
    def answers(self) -> Mapping[str, Bound]:
        return {"distinct": Bound("relative", DEVIATIONS / math.sqrt((1 << self.lg_k) - 1), CONFIDENCE)}

    def build(self, items: Items) -> State:
        runs = runs_of(items.row, items.key, items.rows)
        edges, keys = runs.off.tolist(), runs.keys.view(np.int64)
        return _state(self._sketched(keys[a:b]) for a, b in zip(edges, edges[1:], strict=False))

    def merge(self, state: State, into: I32 | I64, n_rows: int) -> State:
        order, ends = by_target(into.astype(np.int64), n_rows)
        runs, edges = _runs(state), ends.tolist()
        targets = (order[a:b].tolist() for a, b in zip(edges, edges[1:], strict=False))
        return _state(self._united([runs[i] for i in sources if runs[i]]) for sources in targets)

    def estimate(self, state: State, statistic: str, parameter: float | F64 | U64 = 0.0) -> F64:
        found = (compact_theta_sketch.deserialize(run).get_estimate() if run else 0.0 for run in _runs(state))
        return np.fromiter(found, np.float64, len(state["sketch_off"]) - 1)

    def check(self, state: State) -> None:
        for run in filter(None, _runs(state)):
            if not self._sound(run):
                raise BlobError(f"bytes of {self.name} are no sketch of its size")

    def _sketched(self, keys: I64) -> bytes:
        """A sketch of distinct keys."""
        if not len(keys):
            return b""
        sketch = update_theta_sketch(self.lg_k)
        for key in keys.tolist():
            sketch.update(key)
        sketch.trim()
        return bytes(sketch.compact().serialize())

    def _united(self, runs: list[bytes]) -> bytes:
        if len(runs) < 2:
            return runs[0] if runs else b""
        union = theta_union(self.lg_k)
        for run in runs:
            union.update(compact_theta_sketch.deserialize(run))
        return bytes(union.get_result().serialize())

    def _sound(self, run: bytes) -> bool:
        """Whether these are the bytes of a sketch of rising hashes below its theta, no more than it may keep."""
        try:
            sketch = compact_theta_sketch.deserialize(run)
        except (ValueError, IndexError, RuntimeError):
            return False
        n = sketch.num_retained
        if not (0 < n <= 1 << self.lg_k and sketch.is_ordered() and bytes(sketch.serialize()) == run):
            return False
        hashes = np.frombuffer(run[-8 * n :], "<u8")
        return bool(hashes[0] > 0 and hashes[-1] < sketch.theta64 and (hashes[1:] > hashes[:-1]).all())


def _runs(state: State) -> list[bytes]:
    data, edges = state["sketch"].tobytes(), state["sketch_off"].tolist()
    return [data[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def _state(rows: Iterable[bytes]) -> State:
    runs = list(rows)
    off = np.zeros(len(runs) + 1, np.int64)
    np.cumsum([len(run) for run in runs], out=off[1:])
    return {"sketch_off": off, "sketch": np.frombuffer(b"".join(runs), np.uint8).copy()}


def _fit(error: float) -> Mapping[str, Value]:
    return {"lg_k": min(max(math.ceil(math.log2((DEVIATIONS / error) ** 2 + 1)), 10), 18)}


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, Theta)
    return 32 + 8 * min(n, 1 << found.lg_k)


FAMILY = Family(
    "theta",
    "number of distinct keys, by a theta sketch of datasketches",
    Theta,
    _row_bytes,
    (Parameter("lg_k", 12, 5, 18, "2^lg_k hashes"),),
    _fit,
    few=1 << 12,
)
