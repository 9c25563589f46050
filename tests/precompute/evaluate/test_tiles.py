"""Aggregations in tiles of steps: the same to the bit as all at once, in bounded memory."""

from itertools import chain
from random import Random

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.evaluate import tiles
from precompute.evaluate.context import Evaluation
from precompute.evaluate.evaluator import evaluate
from precompute.evaluate.expr import Aggregate
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.head import Head
from precompute.labels import Labels, SeriesTable
from precompute.selection import Index
from query.promql.parse import parse
from tests.reference.worlds import LENGTH_MS, blocks, world

QUERIES = (
    "sum by (job) (rate(c[5m]))", "avg(g)", "quantile by (zone) (0.9, g)", "stddev without (i) (g)", "count(g > 0)",
    "max by (job) (g @ end())", 'count_values by (job) ("v", g)', "min(sum by (i) (h))", "group by (i) (g)",
    "sum by (job) (sum_over_time((g * 2)[3m:20s]))", "quantile(scalar(count(g)) / 10, h)", "sum(time() - g)",
)  # fmt: skip


@pytest.fixture(scope="module")
def source() -> HeadSource:
    random, table = Random(7), SeriesTable()
    head = Head(table, 1 << 26)
    for block in blocks(random, world(random, 0, 40), table):
        head.append(block)
    return HeadSource(head, Index())


def evaluated(source: HeadSource, text: str, limits: Limits | None = None) -> Vector:
    times = np.arange(7_000, LENGTH_MS + 120_000, 11_000, dtype=np.int64)
    budget = Budget(limits or Limits(), ManualClock(), 60_000)
    value = evaluate(parse(text), Evaluation(source, times, 300_000, budget, int(times[0]), int(times[-1])))
    assert isinstance(value, Vector)
    return value


def bits(value: Vector) -> dict[Labels, tuple[bytes, bytes]]:
    """Each row's presence and values."""
    values = np.where(value.present, value.values, 0.0)
    return {value.frame.labels(k): (value.present[k].tobytes(), values[k].tobytes()) for k in range(len(value))}


@pytest.mark.parametrize("text", QUERIES)
def test_tiles_change_no_bit(source: HeadSource, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evaluated(source, text)
    monkeypatch.setattr(tiles, "TILE_CELLS", 1)
    tiled = evaluated(source, text)
    assert bits(whole) == bits(tiled)


def test_no_stretch_is_a_single_step(source: HeadSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "TILE_CELLS", 1)
    node = parse("sum(sort(g))")
    assert isinstance(node, Aggregate)
    for steps in range(9, 200):
        times = np.arange(steps, dtype=np.int64) * 1000
        at = Evaluation(source, times, 300_000, Budget(Limits(), ManualClock(), 60_000), 0, int(times[-1]))
        stretches = [here.times.tolist() for _, here in tiles.tiles(node, at)]
        assert list(chain(*stretches)) == times.tolist()
        assert 1 < min(map(len, stretches)) <= max(map(len, stretches)) <= 8


def test_an_aggregation_needs_no_room_for_all_steps_at_once(
    source: HeadSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "TILE_CELLS", 1)
    assert len(evaluated(source, "sum(g)", Limits(max_matrix_bytes=40 * 8 * 9)))
