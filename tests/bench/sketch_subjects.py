"""What `make bench-sketches` measures: our accumulators over columns, and others' objects in a Python loop."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import datasketches
import numpy as np
from ddsketch import DDSketch

from precompute.samples import F64, I32, I64
from precompute.sketches.base import Items, State, build_of
from precompute.sketches.columns import concat_columns, row_count, size_bytes
from precompute.sketches.registry import FAMILIES, accumulator

PHI = 0.99


def keys_of(value: F64) -> I64:
    """Keys of which some come often: thousandths."""
    return np.floor(value * 1000).astype(np.int64)


@dataclass(frozen=True)
class Input:
    """Values, each of one group, sorted by group for those who take a group at a time."""

    value: F64
    group: I32
    groups: int

    def runs(self) -> Sequence[F64]:
        """The values group by group."""
        return np.split(self.value, np.searchsorted(self.group, np.arange(1, self.groups)))


class Subject(Protocol):
    """One implementation of one statistic."""

    @property
    def title(self) -> str:
        """For the table."""

    @property
    def most_values(self) -> int:
        """How many values it is given; loops are given fewer."""

    @property
    def most_groups(self) -> int:
        """More groups would not fit into memory."""

    def build(self, data: Input) -> Any:
        """State of all groups."""

    def merge(self, a: Any, b: Any) -> Any:
        """Both states, group by group; `a` may change."""

    def estimate(self, state: Any) -> None:
        """An answer for each group."""

    def size_bytes(self, state: Any) -> int:
        """Bytes of all groups; 0 where it does not say."""


@dataclass(frozen=True)
class Columns:
    """One of our accumulators."""

    name: str
    statistic: str
    parameter: float | tuple[float, float] = 0.0
    most_values: int = 1_000_000
    most_groups: int = 100_000

    @property
    def title(self) -> str:
        return f"`{self.name}`"

    def build(self, data: Input) -> State:
        times, keys = np.arange(len(data.value)), keys_of(data.value).view(np.uint64)
        return build_of(accumulator(self.name), Items(data.group, data.value, times, keys, data.groups))

    def merge(self, a: State, b: State) -> State:
        kept = accumulator(self.name)
        rows = np.arange(row_count(kept.columns, a))
        return kept.merge(concat_columns(kept.columns, [a, b]), np.tile(rows, 2), len(rows))

    def estimate(self, state: State) -> None:
        accumulator(self.name).estimate(state, self.statistic, np.array(self.parameter))

    def size_bytes(self, state: State) -> int:
        return size_bytes(state)


@dataclass(frozen=True)
class Loop:
    """Objects of a package, one per group."""

    title: str
    make: Callable[[], Any]
    add: Callable[[Any, F64], None]
    """(object, values of its group)"""
    ask: Callable[[Any], Any]
    size: Callable[[Any], int]
    join: Callable[[Any, Any], Any] = lambda a, b: a.merge(b) or a
    most_values: int = 1_000_000
    most_groups: int = 100_000

    def build(self, data: Input) -> list[Any]:
        made = [self.make() for _ in range(data.groups)]
        for one, values in zip(made, data.runs(), strict=True):
            self.add(one, values)
        return made

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [self.join(x, y) for x, y in zip(a, b, strict=True)]

    def estimate(self, state: list[Any]) -> None:
        for one in state:
            self.ask(one)

    def size_bytes(self, state: list[Any]) -> int:
        return sum(map(self.size, state))


def _update(sketch: Any, values: F64) -> None:
    sketch.update(values)


def _add_each(sketch: DDSketch, values: F64) -> None:
    for value in values.tolist():
        sketch.add(value)


def _add_keys(sketch: Any, values: F64) -> None:
    for key in keys_of(values).tolist():
        sketch.update(key)


def _united(make: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    """Sketches without a merge need a union object."""

    def join(a: Any, b: Any) -> Any:
        union = make()
        union.update(a)
        union.update(b)
        return union.get_result()

    return join


def _quantile(sketch: Any) -> Any:
    return None if sketch.is_empty() else sketch.get_quantile(PHI)


def _serialized(sketch: Any) -> int:
    return len(sketch.serialize())


def _bins(sketch: DDSketch) -> int:
    return 8 * (len(sketch._store.bins) + len(sketch._negative_store.bins))


PARAMETERS: dict[str, float | tuple[float, float]] = {
    "quantile": PHI,
    "topk": 1,
    "bottomk": 1,
    "increase": (2.0**40, 2.0**41),
}
"""What a statistic is asked for, where that matters: the window holds all samples."""

OTHERS: dict[str, Loop] = {
    "quantile": Loop(
        "ddsketch 3.0.1, α = 1 %", lambda: DDSketch(0.01), _add_each, lambda s: s.get_quantile_value(PHI), _bins,
        most_values=200_000,
    ),
    "kll": Loop(
        "datasketches KLL, k = 200", lambda: datasketches.kll_doubles_sketch(200), _update, _quantile, _serialized
    ),
    "req": Loop(
        "datasketches REQ, k = 12 (float32)", lambda: datasketches.req_floats_sketch(12),
        lambda s, values: s.update(values.astype(np.float32)), _quantile, _serialized,
    ),
    "tdigest": Loop(
        "datasketches t-digest, k = 200", lambda: datasketches.tdigest_double(200), _update, _quantile, _serialized
    ),
    "hll": Loop(
        "datasketches HLL, p = 14", lambda: datasketches.hll_sketch(14, datasketches.HLL_8), _add_keys,
        lambda s: s.get_estimate(), lambda s: len(s.serialize_compact()), _united(lambda: datasketches.hll_union(14)),
        200_000,
    ),
    "theta": Loop(
        "datasketches theta, lg k = 12", lambda: datasketches.update_theta_sketch(12), _add_keys,
        lambda s: s.get_estimate(), lambda s: len(s.compact().serialize()),
        _united(lambda: datasketches.theta_union(12)), 200_000,
    ),
    "countmin": Loop(
        "datasketches count-min, 5 × 2719", lambda: datasketches.count_min_sketch(5, 2719), _add_keys,
        lambda s: s.get_estimate(1), _serialized, most_values=200_000, most_groups=1000,
    ),
    "frequent": Loop(
        "datasketches frequent items, lg k = 8", lambda: datasketches.frequent_items_sketch(8), _add_keys,
        lambda s: s.get_estimate(1), lambda s: len(s.serialize(datasketches.PyLongsSerDe())), most_values=200_000,
    ),
}  # fmt: skip
"""Other packages' objects, by the family of ours that they stand beside."""


def _subjects() -> Iterator[Subject]:
    for name in FAMILIES:
        statistic = next(iter(accumulator(name).answers))
        yield Columns(name, statistic, PARAMETERS.get(statistic, 0.0))
        if name in OTHERS:
            yield OTHERS[name]


SUBJECTS: tuple[Subject, ...] = tuple(_subjects())
