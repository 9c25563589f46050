"""Answers from summaries against exact ones on the same samples, at every pane end."""

import math
from pathlib import Path
from random import Random

import numpy as np
import pytest

from precompute.catalog import Coverage
from precompute.evaluate.limits import Budget, Limits
from precompute.samples import STALE as STALE_NUMBER
from query.plan import plan
from query.promql.parse import parse
from query.tiers.summary import Steps
from tests.precompute.made_node import LOOKBACK_MS, START_MS, WIDTH_MS, Core, aggregation, series
from tests.reference import promql, worlds
from tests.reference.compare import at_step, close, differences
from tests.reference.promql import Stale
from tests.reference.ranges import Approximate, quantile

ALPHA = 0.01
KEPT = [
    aggregation("g", ["job", "zone"]),
    aggregation("rate(c[1m])", ["job", "zone"]),
    aggregation('increase(c{zone!="y"}[5m])', ["job"]),
    aggregation("h", ["i"], without=True),
    aggregation("h > 0", [], without=True),
    aggregation("-(2 * avg_over_time(g[75s]))", ["zone"]),
]
EXACT = ("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar")
COVERED = (
    ("g", ("", "by (job)", "by (zone, job)"), ("", '{job="a"}', '{job!=""}', '{zone=~"x|"}', '{job="",zone!="y"}')),
    ("rate(c{}[1m])", ("", "by (zone)"), ("", '{job=~"a|b"}')),
    ('increase(c{zone!="y"}[5m])', ("", "by (job)"), ("",)),
    ("h", ("", "by (job)", "without (i)", "without (i, job)"), ("", '{zone=""}')),
    ("h > 0", ("by (i)", "without ()", "without (zone)"), ("",)),
    ("-(2 * avg_over_time(g[75s]))", ("by (zone)",), ("",)),
)


def covered_queries() -> list[tuple[str, str, str]]:
    """(expression, grouping, filtered expression), each covered by one of KEPT."""
    out = []
    for expr, groupings, filters in COVERED:
        for grouping in groupings:
            for chosen in filters:
                filtered = expr.replace("{}", chosen) if "{}" in expr else expr + chosen
                out.append((expr, grouping, filtered))
    return out


def filled(folder: Path, seed: int) -> tuple[Core, dict[promql.Labels, promql.Samples]]:
    """A core with a drawn world in it, all of it sealed and summarised."""
    random = Random(seed)
    world = worlds.world(random, START_MS, 12)
    core = Core(folder, KEPT, max_future_ms=10 * worlds.LENGTH_MS)
    rows = [
        (labels, t, STALE_NUMBER if isinstance(v, Stale) else v)
        for labels, samples in world.items()
        for t, v in samples
    ]
    core.write(rows)
    core.pass_time(worlds.LENGTH_MS + 900_000, beat_ms=10_000)
    core.tick()
    return core, worlds.sorted_samples(world)


@pytest.mark.parametrize("seed", range(6))
def test_exact_statistics_are_the_references_at_every_pane_end(tmp_path: Path, seed: int) -> None:
    core, held = filled(tmp_path, seed)
    random = Random(seed)
    steps = 90
    for _, grouping, filtered in covered_queries():
        op = random.choice(EXACT)
        text = f"{op} {grouping} ({filtered})"
        answer = core.range(text, START_MS, START_MS + (steps - 1) * WIDTH_MS)
        assert set(answer.tiers) <= {"summary", "head"} and answer.tiers[0] == "summary", (text, answer)
        for step in random.sample(range(steps), 12):
            at = promql.At(held, START_MS + step * WIDTH_MS, LOOKBACK_MS, START_MS, START_MS)
            wrong = differences(at_step(answer.value, step), promql.evaluate(parse(text), at), 1e-11)
            assert not wrong, f"{text} at step {step}: {wrong[:3]}"


@pytest.mark.parametrize("seed", range(4))
def test_counts_and_extremes_are_the_heads_to_the_bit_and_sums_within_1e_12(tmp_path: Path, seed: int) -> None:
    core, _ = filled(tmp_path, 50 + seed)
    times = np.arange(START_MS, START_MS + 60 * WIDTH_MS, WIDTH_MS)
    steps = Steps(times, int(times[0]), int(times[-1]))
    for expr, grouping, filtered in covered_queries():
        squares = parse(f"sum {grouping} (({filtered}) * ({filtered}))")
        magnitude = core.evaluate(squares, times)
        for op in ("count", "min", "max", "group", "sum"):
            text = f"{op} {grouping} ({filtered})"
            (coverage,) = plan(parse(text), KEPT, LOOKBACK_MS, 60_000).covered
            assert isinstance(coverage, Coverage), expr
            got, right = core.summary_tier.read(coverage, steps, Budget(Limits(), core.clock, 60_000))
            assert right.all()
            exact = core.evaluate(parse(text), times)
            for step in range(len(times)):
                a, b = at_step(got, step), at_step(exact, step)
                assert isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys(), (text, step)
                size = at_step(magnitude, step)
                assert isinstance(size, dict)
                for key, value in a.items():
                    if op == "sum" and math.isfinite(value):
                        root = math.sqrt(abs(next(iter(size.values())) if len(size) == 1 else size.get(key, 0.0)))
                        assert abs(value - b[key]) <= 1e-12 * 12 * max(root, abs(value)), (text, step, key)
                    else:
                        assert value == b[key] or (math.isnan(value) and math.isnan(b[key])), (text, step, key)


def spread_values(random: Random, count: int) -> list[float]:
    kind = random.choice(("gauss", "wide", "tiny", "same", "signs", "special"))
    draw = {
        "gauss": lambda: random.gauss(100, 10), "wide": lambda: random.choice((-1, 1)) * 10 ** random.uniform(-9, 12),
        "tiny": lambda: random.uniform(-1, 1) * 1e-300, "same": lambda: 0.1, "signs": lambda: random.gauss(0, 1),
        "special": lambda: random.choice((math.nan, math.inf, -math.inf, 0.0, -0.0, random.gauss(0, 1))),
    }[kind]  # fmt: skip
    return [draw() for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 100, 8000])
def test_quantiles_keep_their_bound_and_special_values_are_promqls(tmp_path: Path, count: int) -> None:
    random = Random(count)
    kept = aggregation("q", ["g"], accumulators=["quantile", "count"])
    core = Core(tmp_path, [kept])
    groups = {f"{k}": spread_values(random, count) for k in range(12 if count < 1000 else 3)}
    for name, values in groups.items():
        core.write([(series("q", g=name, i=str(i)), START_MS, v) for i, v in enumerate(values)])
    core.pass_time(60_000)
    core.tick()
    for phi in (0, 0.01, 0.25, 0.5, 0.9, 0.99, 1, 7):
        answer = core.instant(f"quantile by (g) ({phi}, q)", START_MS)
        assert answer.tiers == ("summary",)
        got = at_step(answer.value, 0)
        assert isinstance(got, dict)
        for name, values in groups.items():
            exact = quantile(phi, values)
            ordered = sorted((v for v in values if math.isfinite(v)), key=abs)
            rank = phi * (len(values) - 1)
            by_value = sorted(values, key=lambda v: (not math.isnan(v), 0.0 if math.isnan(v) else v))
            near = [by_value[min(len(values) - 1, max(0, int(k)))] for k in (math.floor(rank), math.floor(rank) + 1)]
            scale = max((abs(v) for v in near if math.isfinite(v)), default=0.0)
            value = got[(("g", name),)]
            assert close(value, Approximate(exact, scale * ALPHA), 1.0 + 1e-9) or (
                math.isfinite(exact) and abs(value - exact) <= ALPHA * scale * (1 + 1e-9)
            ), (name, phi, value, exact, ordered[-3:])


@pytest.mark.parametrize(
    ("kept", "bound"),
    [
        ("kll(k=400)", "0.006776 rank at 0.99 confidence"),
        ("req", "0.03266 upper rank at 0.997 confidence"),
        ("quantile(alpha=0.005)", "0.005 relative"),
        ("tdigest", "0.01571 rank at 0.99 confidence"),
        ("le(bounds=-1.0 0.0 1.0)", "bucket"),
    ],
)
def test_a_quantile_is_read_from_the_sketch_that_is_kept_and_says_its_bound(
    tmp_path: Path, kept: str, bound: str
) -> None:
    random = Random(3)
    values = [random.gauss(0, 1) for _ in range(3000)]
    core = Core(tmp_path, [aggregation("q", ["g"], accumulators=[kept])])
    core.write([(series("q", g=str(i % 2), i=str(i)), START_MS, v) for i, v in enumerate(values)])
    core.pass_time(60_000)
    core.tick()
    answer = core.instant("quantile(0.9, q)", START_MS)
    assert (answer.tiers, answer.bound) == (("summary",), bound)
    got = at_step(answer.value, 0)
    assert isinstance(got, dict)
    assert abs(sum(v <= got[()] for v in values) / len(values) - 0.9) < 0.1


def test_an_average_whose_sum_overflows_is_not_served_from_summaries(tmp_path: Path) -> None:
    core = Core(tmp_path, [aggregation("m", [])])
    core.write([(series("m", i=str(i)), START_MS, 1.5e308) for i in range(3)])
    core.pass_time(60_000)
    core.tick()
    answer = core.instant("avg(m)", START_MS)
    assert answer.tiers == ("head",)
    assert at_step(answer.value, 0) == {(): pytest.approx(1.5e308)}
    assert core.instant("sum(m)", START_MS).tiers == ("summary",)
    assert at_step(core.instant("sum(m)", START_MS).value, 0) == {(): math.inf}
