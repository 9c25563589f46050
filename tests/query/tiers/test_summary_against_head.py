"""Answers from summaries against exact ones on the same samples, at every pane end."""

import math
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from precompute.catalog import Coverage
from precompute.errors import ExecutionError
from precompute.evaluate.limits import Budget, Limits
from precompute.samples import STALE as STALE_NUMBER
from query.plan import plan
from query.promql.parse import parse
from query.tiers.summary import Steps
from tests.precompute import kept_expressions
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


@pytest.mark.parametrize(
    "text",
    [
        "topk(1, sum by (a, b) (m))",
        "bottomk(2, count by (a, b) (m))",
        "topk(1, sum by (b) (m))",
    ],
)
def test_of_equal_groups_the_same_are_chosen_as_on_the_head_where_some_lack_a_label(tmp_path: Path, text: str) -> None:
    core = Core(tmp_path, [aggregation("m", ["a", "b"])])
    for labels in ({"a": "x", "b": "y"}, {"b": "z"}, {"a": "w"}, {"a": "w", "b": "z"}):
        core.write([(series("m", **labels), START_MS, 1.0)])
    core.pass_time(4 * WIDTH_MS)
    core.tick()
    answer, times = core.instant(text, START_MS), np.array([START_MS])
    assert answer.tiers == ("summary",)
    exact = at_step(core.evaluate(parse(text), times), 0)
    assert list(at_step(answer.value, 0)) == list(exact) and exact  # type: ignore[arg-type]


JOINED = [
    aggregation("rate(c[1m]) * on (job) group_left (node) n", ["job", "node", "zone"]),
    aggregation("g + ignoring (zone) h", ["i", "job"]),
    aggregation("g and on (i) (h > 0)", ["job", "zone"]),
    aggregation("g unless on (i, job) c", [], without=True),
    aggregation("g or h", ["job", "zone"]),
    aggregation("max_over_time(rate(c[1m])[5m:30s])", ["zone"]),
    aggregation("g - g offset 5m", ["job"]),
    aggregation("histogram_quantile(0.9, rate(b[2m]))", ["job"]),
]
ASKED_OF_JOINED = (
    'rate(c{job=~"a|b"}[1m]) * on (job) group_left (node) n{job=~"a|b"}',
    'rate(c[1m]) * on (job) group_left (node) n{node="n1",job!=""}',
    'rate(c{zone!="x"}[1m] offset 30s) * on (job) group_left (node) n offset 30s',
    'g{job="a"} + ignoring (zone) h', 'g + ignoring (zone) h{job!=""}',
    'g{zone="x"} and on (i) (h > 0)', 'g{job="b"} and on (i) (h > 0)',
    'g{zone=~"x|y"} unless on (i, job) c', 'g{job="a"} unless on (i, job) c{job="a"}',
    'g{job="a"} or h{job="a"}', 'g or h',
    'max_over_time(rate(c{zone="x"}[1m])[5m:30s])', 'g{job="a"} - g{job="a"} offset 5m',
    'histogram_quantile(0.9, rate(b{job="a"}[2m]))',
)  # fmt: skip


def with_late_samples(folder: Path, random: Random) -> Core:
    """A drawn world, a tenth of which comes after its panes were made."""
    core = Core(folder, JOINED, max_future_ms=10 * worlds.LENGTH_MS)
    rows = [
        (labels, t, STALE_NUMBER if isinstance(v, Stale) else v)
        for labels, samples in kept_expressions.world(random, START_MS).items()
        for t, v in samples
    ]
    random.shuffle(rows)
    core.write(rows[len(rows) // 10 :])
    core.pass_time(worlds.LENGTH_MS + 60_000, beat_ms=10_000)
    core.tick()
    core.write(rows[: len(rows) // 10])
    core.tick()
    return core


def exact_at(core: Core, text: str, time_ms: int) -> dict[promql.Labels, float] | None:
    """None where the evaluation is an error."""
    try:
        value = at_step(core.evaluate(parse(text), np.array([time_ms])), 0)
    except ExecutionError:
        return None
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("seed", range(4))
def test_joins_sets_and_subqueries_from_summaries_are_the_heads_late_samples_and_failed_panes_included(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    core, tiers, failed = with_late_samples(tmp_path, random), Counter[tuple[str, ...]](), 0
    for expr in ASKED_OF_JOINED:
        for op in random.sample(("sum", "count", "min", "max", "avg"), 2):
            text = f"{op} ({expr})"
            for time_ms in random.sample(range(START_MS + 60_000, START_MS + worlds.LENGTH_MS, WIDTH_MS), 6):
                exact = exact_at(core, text, time_ms)
                if exact is None:
                    failed += 1
                    with pytest.raises(ExecutionError):
                        core.instant(text, time_ms)
                    continue
                answer = core.instant(text, time_ms)
                tiers[answer.tiers] += 1
                inner = exact_at(core, expr, time_ms) or {}
                size = sum(abs(v) for v in inner.values() if math.isfinite(v))
                expected = {key: Approximate(value, size) for key, value in exact.items()}
                wrong = differences(at_step(answer.value, 0), expected, 0.0 if op in ("count", "min", "max") else 1e-12)
                assert not wrong, f"{text} at {time_ms}: {wrong}"
    assert tiers["summary",] > 80 and (failed or tiers["head",] < 40), (tiers, failed)


def test_a_pane_that_fails_is_the_heads_error_and_the_panes_beside_it_are_served(tmp_path: Path) -> None:
    core = Core(tmp_path, JOINED[:1])
    for k in range(40):
        now_ms = core.clock.now_ms()
        rows = [(series("c", job="a", i="1"), now_ms, 30.0 * k), (series("n", job="a", node="x"), now_ms, 2.0)]
        twice = (series("n", job="a", node="y"), now_ms, 1.0 if k < 20 else STALE_NUMBER)
        core.write([*rows, twice] if 19 <= k <= 20 else rows)
        core.pass_time(WIDTH_MS)
        core.tick()
    text = "sum(rate(c[1m]) * on (job) group_left (node) n)"
    failing = START_MS + 19 * WIDTH_MS
    for time_ms in (failing - WIDTH_MS, failing + WIDTH_MS):
        answer = core.instant(text, time_ms)
        assert (answer.tiers, at_step(answer.value, 0)) == (("summary",), {(): pytest.approx(4.0)})
    with pytest.raises(ExecutionError, match="many-to-many matching not allowed"):
        core.instant(text, failing)
    with pytest.raises(ExecutionError, match="many-to-many matching not allowed"):
        core.range(text, failing - WIDTH_MS, failing + WIDTH_MS)


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
