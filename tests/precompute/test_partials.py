"""Summaries merged out of shards' parts are, to the bit, those that are made of all series at once."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from precompute.aggregations import Aggregation
from precompute.clock import ManualClock
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.head import Head
from precompute.labels import Labels, SeriesTable
from precompute.normal import normal, of_one_series, why_not_kept, with_steps
from precompute.partials import first_stage, merged, shard_summaries, why_not_by_shard
from precompute.samples import I64
from precompute.samples import STALE as STALE_NUMBER
from precompute.selection import Index
from precompute.sketches.base import Vectors
from precompute.sketches.registry import kept_of_vectors
from precompute.stores.blob import from_bytes, to_bytes
from precompute.summaries import FAILED, Summary, build, fold, select
from precompute.summarise import summarise
from query.promql.parse import parse
from tests.precompute.kept_expressions import Drawing, world
from tests.precompute.made_node import LOOKBACK_MS, START_MS, WIDTH_MS, aggregation, series
from tests.precompute.made_summaries import same
from tests.precompute.sketches.made import ODD, of_shard
from tests.reference import worlds
from tests.reference.promql import Stale

ENDS = np.arange(START_MS + 120_000, START_MS + 900_000, 4 * WIDTH_MS)
ENTRY = 7
OF_ONE_SERIES = ("g", "rate(c[1m])", "-(g > 0) * 8", "max_over_time(rate(c[1m])[5m:30s])")
IN_TWO_STAGES = (
    "g + h", "g * on (job) group_left (node) n", "rate(c[1m]) / on (i) h", "(g > 0) and on (job) n", "g or h",
    "g unless on (job) (n > 30)", 'label_replace(g, "new", "$1", "job", "(.+)")',
    'label_join(rate(c[1m]), "new", "-", "i", "zone")', "histogram_quantile(0.9, rate(b[2m]))",
    "histogram_quantile(scalar(n), rate(b[2m]) * on (job) group_left (node) n)", "absent(g)", 'absent(g{job="a"} > 2)',
    "absent_over_time(g[30s])", "absent_over_time((g > 0)[1m:15s])", "vector(scalar(n))", 'g * scalar(n{job="a"})',
    "g > time()", "time() - timestamp(g)", "timestamp(g + h)", "predict_linear(g[5m], 60) + g",
    "quantile_over_time(0.5, g[2m]) - on (i, job, zone) h", "clamp_min(g, scalar(h))", "g + g", "hour() + on () n",
    "max_over_time(rate(c[1m])[5m:30s]) > on (job) group_left () n", "vector(1) or g",
    "g - on (i, job, zone) g offset 1m",
)  # fmt: skip


def budget() -> Budget:
    return Budget(Limits(), ManualClock(), 60_000)


def source(series: worlds.World, shards: int) -> HeadSource:
    head = Head(SeriesTable(shards=shards), 1 << 24)
    rows = [
        (head.table.intern(labels), t, STALE_NUMBER if isinstance(v, Stale) else v)
        for labels, samples in series.items() for t, v in samples
    ]  # fmt: skip
    if rows:
        head.append(worlds.block(rows))
    return HeadSource(head, Index())


def by_shard(series: worlds.World, shards: int) -> list[worlds.World]:
    """The series of each shard."""
    table, out = SeriesTable(shards=shards), [worlds.World() for _ in range(shards)]
    for labels, samples in series.items():
        sid = table.intern(labels)
        out[int(table.shard_of(np.array([sid], np.int32))[0])][labels] = samples
    return out


class Sharded:
    """One world, read whole and shard by shard."""

    def __init__(self, series: worlds.World, shards: int) -> None:
        self.whole = source(series, shards)
        self.parts = [source(part, shards) for part in by_shard(series, shards)]

    def agree(self, kept: Aggregation, ends: I64 = ENDS) -> Summary:
        """The Summary, which both ways give; parts have gone through bytes."""
        (right,) = summarise([kept], ends, ENTRY, self.whole, budget())
        parts = [shard_summaries([kept], ends, ENTRY, part, budget())[0] for part in self.parts]
        assert all(same(from_bytes(to_bytes(part)), part) for part in parts), kept.expr
        made = merged(kept, [from_bytes(to_bytes(part)) for part in parts], budget())
        assert same(made, right) and made.keys == right.keys, kept.expr
        return made


def drawn(random: Random, shards: int) -> Sharded:
    return Sharded(world(random, START_MS), shards)


@pytest.mark.parametrize("shards", [1, 4, 16])
def test_shards_merged_are_the_whole_for_every_kind_of_expression(shards: int) -> None:
    random, rows = Random(shards), 0
    for _ in range(3):
        sharded = drawn(random, shards)
        for text in OF_ONE_SERIES + IN_TWO_STAGES:
            kept = aggregation(text, random.choice([["job"], ["i", "zone"], []]), random.random() < 0.5)
            assert not why_not_by_shard(kept.expr)
            assert of_one_series(kept.expr) == (not first_stage(kept)) == (text in OF_ONE_SERIES)
            rows += sharded.agree(kept).rows
    assert rows > 1000


@pytest.mark.parametrize("seed", range(6))
def test_shards_merged_are_the_whole_for_drawn_expressions(seed: int) -> None:
    random = Random(seed)
    sharded, drawing, agreed = drawn(random, random.choice((4, 16))), Drawing(random), 0
    for _ in range(40):
        expr = with_steps(parse(drawing.expression()), 60_000)
        if why_not_kept(expr) or why_not_by_shard(normal(expr).expr):
            continue
        kept = Aggregation(normal(expr).expr, ("job",), False, ("sum", "kll"), WIDTH_MS, LOOKBACK_MS, 1 << 40)
        sharded.agree(kept)
        agreed += 1
    assert agreed > 10


@pytest.mark.parametrize("name", [*kept_of_vectors(), "kll(k=8)", "req(k=4)", "tdigest(k=10)"])
@pytest.mark.parametrize("seed", range(4))
def test_groups_in_some_shards_only_are_merged_to_the_bits_of_one_build(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, groups, shards = (4000 if seed else 60, 3), 5, 6
    values = rng.normal(0, 10.0 ** rng.integers(-3, 6), shape) * rng.choice([1.0, 1e-5, 1e9], shape)
    values = np.where(rng.random(shape) < 0.1, rng.choice(ODD, shape), values)
    shard = np.sort(rng.integers(0, shards, shape[0])).astype(np.int32)
    group = (rng.integers(0, groups, shape[0]) // (1 + shard % 3)).astype(np.int32)
    whole = Vectors(values, rng.random(shape) < 0.8, group, shard, groups)
    merged_parts = fold([summary(of_shard(whole, s), name) for s in range(shards)])
    assert same(merged_parts, summary(whole, name))


def summary(vectors: Vectors, name: str) -> Summary:
    panes = np.arange(vectors.panes)
    keys = [(chr(97 + g),) for g in range(vectors.groups)]
    return build(vectors, keys, [name], panes, panes, panes, panes.astype(np.uint8) * 0)


def test_leaves_are_the_largest_parts_of_one_series_each_once() -> None:
    def leaves(text: str) -> list[str]:
        return list(map(str, first_stage(aggregation(text))))

    assert leaves("rate(m[5m])") == []
    assert leaves("(m > 0) * on (g) group_left (x) (8 * n)") == ["(m > 0)", "(8 * n)"]
    assert leaves("rate(m[5m]) / (rate(m[5m]) + n)") == ["rate(m[5m])", "n"]
    assert leaves("m > time()") == ["(m > time())"]
    assert leaves("absent(m) + timestamp(m)") == ["m", "timestamp(m)"]
    assert leaves("absent_over_time(m[5m])") == ["last_over_time(m[5m])"]
    assert leaves("m * scalar(n)") == ["m", "n"]


@pytest.mark.parametrize(("text", "why"), [
    ("max_over_time((m * on (g) n)[5m:1m])", "a subquery over several series together"),
    ("absent_over_time(absent(m)[5m:1m])", "a subquery over several series together"),
    ("m + quantile_over_time(scalar(n), m[5m])", "a parameter made of series"),
    ("predict_linear(m[5m:1m], scalar(n))", "a parameter made of series"),
    ("max_over_time(rate(m[5m])[5m:1m]) / n", ""),
])  # fmt: skip
def test_what_cannot_be_made_of_parts_is_told_with_its_reason(text: str, why: str) -> None:
    found = why_not_by_shard(aggregation(text).expr)
    assert why in found and bool(found) == bool(why)


def test_what_cannot_be_made_of_parts_fails_and_is_not_made_of_each_shard_alone() -> None:
    rows = [(series(name, g=str(g)), int(ENDS[0]), 1.0) for name in "mn" for g in range(9)]
    for text in ("max_over_time((m * on (g) n)[5m:1m])", "m + quantile_over_time(scalar(n), m[5m])"):
        kept = aggregation(text, ["g"])
        parts = [shard_summaries([kept], ENDS, ENTRY, part, budget())[0] for part in Sharded(samples(rows), 4).parts]
        for made in (*parts, merged(kept, parts, budget())):
            assert (made.flags & FAILED).all() and made.rows == 0


def samples(rows: Sequence[tuple[Labels, int, float]]) -> worlds.World:
    out = worlds.World()
    for labels, t_ms, value in rows:
        out.setdefault(labels, []).append((t_ms, value))
    return out


def test_a_join_of_sides_in_different_shards_fails_in_the_panes_where_it_fails_on_one_node() -> None:
    late = int(ENDS[3])
    rows = [(series("m", g="a", i=str(i)), int(ENDS[0]), 2.0) for i in range(9)]
    rows += [(series("n", g="a", x="1"), int(ENDS[0]), 3.0), (series("n", g="a", x="2"), late, 5.0)]
    made = Sharded(samples(rows), 16).agree(aggregation("m * on (g) group_left (x) n", ["x"]), ENDS[:5])
    assert np.flatnonzero(made.flags & FAILED).tolist() == [3, 4]
    assert np.diff(made.row_off).tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("text", ['label_replace(abs(m), "new", "$1", "i", "(.+)")', "abs(m) and on (i) k"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_equal_labels_from_two_shards_fail_where_they_do_on_one_node(text: str, seed: int) -> None:
    kinds = ("counter", "gauge", "unknown")
    rows = [(series("m", __type__=kind, i=str(seed)), int(ENDS[4 * k]), 2.0) for k, kind in enumerate(kinds)]
    rows += [(series("k", i=str(seed)), int(end), 1.0) for end in ENDS]
    made = Sharded(samples(rows), 16).agree(aggregation(text, ["i"]))
    assert np.flatnonzero(made.flags & FAILED).tolist() == [4, 8] and made.rows > 0


@pytest.mark.parametrize("text", ["m", "m + n"])
def test_a_pane_that_one_shard_could_not_make_has_failed_and_the_others_stand(text: str) -> None:
    rows = [(series(name, i=str(i)), int(ENDS[0]), float(i)) for name in "mn" for i in range(20)]
    sharded, kept = Sharded(samples(rows), 4), aggregation(text, ["i"])
    parts = [shard_summaries([kept], ENDS[:3], ENTRY, part, budget())[0] for part in sharded.parts]
    (failed,) = shard_summaries([kept], ENDS[1:2], ENTRY, sharded.parts[2], tiny())
    assert failed.flags.tolist() == [FAILED] and failed.rows == 0
    parts[2] = Summary(**{**vars(parts[2]), "flags": np.array([0, FAILED, 0], np.uint8)})
    made, (right,) = merged(kept, parts, budget()), summarise([kept], ENDS[:3], ENTRY, sharded.whole, budget())
    assert made.flags.tolist() == [0, FAILED, 0]
    assert np.diff(made.row_off).tolist() == [20, 0, 20]
    assert same(select(made, np.array([0, 2])), select(right, np.array([0, 2])))


def tiny() -> Budget:
    return Budget(Limits(max_matrix_bytes=9), ManualClock(), 60_000)


def test_a_second_stage_too_large_fails_and_does_not_raise() -> None:
    rows = [(series(name, i=str(i)), int(ENDS[0]), float(i)) for name in "mn" for i in range(20)]
    kept = aggregation("m + n", ["i"])
    parts = [shard_summaries([kept], ENDS, ENTRY, part, budget())[0] for part in Sharded(samples(rows), 4).parts]
    assert (merged(kept, parts, tiny()).flags & FAILED).all()


def test_a_merged_pane_has_seen_the_newest_entry_and_its_oldest_plan() -> None:
    sharded, kept = drawn(Random(3), 2), aggregation("g", ["job"])
    parts = [shard_summaries([kept], ENDS, 5 + k, part, budget())[0] for k, part in enumerate(sharded.parts)]
    parts[1] = Summary(**{**vars(parts[1]), "plan": parts[1].plan + 3})
    made = merged(kept, parts, budget())
    assert set(made.seen.tolist()) == {6} and made.plan.tolist() == parts[0].plan.tolist()


def test_parts_of_different_panes_are_refused() -> None:
    sharded, kept = drawn(Random(3), 2), aggregation("g", ["job"])
    parts = [
        shard_summaries([kept], ENDS[k:], ENTRY, part, budget())[0] for k, part in enumerate(sharded.parts)
    ]
    for wrong in (parts, []):
        with pytest.raises(ValueError, match="only summaries"):
            merged(kept, wrong, budget())
