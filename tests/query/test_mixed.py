"""One query from several tiers: each part of each step from the best that covers it, and every step right."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from precompute.errors import TimedOut
from precompute.evaluate.expr import Expr
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Scalar, Vector
from query.answers import Answer, Forwarded
from query.errors import NotJoinable
from query.promql.parse import parse
from query.tiers.summary import Steps
from query.tiers.upstream_parts import Part
from tests.precompute.made_node import LOOKBACK_MS, START_MS, WIDTH_MS, Core, aggregation, series
from tests.reference.compare import at_step

KEPT = [aggregation("m", ["g"]), aggregation("rate(c[1m])", ["g"], accumulators=["sum", "count"])]
MINUTES = 20
SINCE_MS = START_MS + WIDTH_MS + LOOKBACK_MS
"""From here on the near side knows what it needs of the metrics that it receives."""


@dataclass
class Behind:
    """An upstream that holds everything, and remembers which parts it was asked for."""

    whole: Core
    semantics: bool = True
    asked: list[tuple[str, int]] = field(default_factory=list)
    fails: type[Exception] | None = None

    def query(self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str], timeout_ms: int) -> Forwarded:
        return Forwarded(200, "application/json", parameters["query"].encode())

    def takes_parts(self, headers: Mapping[str, str], budget: Budget) -> bool:
        return self.semantics

    def read(
        self, expr: Expr, steps: Steps, lookback_ms: int, budget: Budget, headers: Mapping[str, str]
    ) -> Part:  # fmt: skip
        if self.fails is not None:
            raise self.fails("the upstream there")
        self.asked.append((str(expr), len(steps.times)))
        value = self.whole.evaluate(expr, steps.times)
        assert isinstance(value, (Vector, Scalar))
        return Part(value)


def pair(folder: Path, **changed: bool) -> tuple[Core, Core, Behind]:
    """Near and far: both get `m`, `c` and `n`, the near one `n` only from the tenth minute on, and never `b`."""
    far = Core(folder / "far")
    behind = Behind(far, **changed)
    near = Core(folder / "near", KEPT, has_upstream=True, upstream=behind, parts=behind)
    for k in range(4 * MINUTES):
        for core in (far, near):
            core.pass_time(WIDTH_MS)
            now_ms = core.clock.now_ms()
            rows = [(series("m", g=g, i=i), now_ms, float(k + len(g))) for g in ("a", "b") for i in "12"]
            rows += [(series("c", g=g), now_ms, 10.0 * k) for g in ("a", "b")]
            rows += [(series("n", g="a"), now_ms, float(-k))] if core is far or k >= 2 * MINUTES else []
            rows += [(series("b", g=g, i="1"), now_ms, float(k % 7)) for g in ("a", "b")] if core is far else []
            core.write(rows)
            core.tick()
    return near, far, behind


def check(near: Core, far: Core, text: str, start_ms: int, end_ms: int, step_ms: int) -> Answer:
    """The answer of the near side, every step of which is what the far side's samples give."""
    answer = near.range(text, start_ms, end_ms, step_ms)
    right = far.evaluate(parse(text), answer.times)
    for step in range(len(answer.times)):
        got, expected = at_step(answer.value, step), at_step(right, step)
        assert got == pytest.approx(expected, rel=1e-12, nan_ok=True), (text, answer.times[step])
    return answer


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Core, Core, Behind]:
    """A pair for tests that only ask."""
    return pair(tmp_path_factory.mktemp("pair"))


INSIDE_MS = SINCE_MS + 8 * WIDTH_MS


@pytest.mark.parametrize(
    ("text", "tiers", "asked"),
    [
        ("sum(m) / on () count(m)", ("summary",), []),
        ("sum by (g) (m) + on (g) max by (g) (b)", ("summary", "upstream"), ["max by (g)(b)"]),
        ("sum(rate(c[1m])) / on () count(m > 3)", ("summary", "head"), []),
        ("m * on (g, i) b", ("head", "upstream"), ["b"]),
        ("sum(m * on (g, i) group_left () b)", ("head", "upstream"), ["b"]),
        ("topk(1, sum by (g) (m) - on (g) sum by (g) (rate(b[1m])))", ("summary", "upstream"),
         ["sum by (g)(rate(b[1m]))"]),
        ("scalar(b{g='a'}) * m", ("head", "upstream"), ['scalar(b{g="a"})']),
        ("absent(b) or m", ("head", "upstream"), ["absent(b)"]),
        ("max(m) + max((b + 1) / 0) - max((b + 1) / -0)", ("summary", "upstream"),
         ["max(((b + 1) / 0))", "max(((b + 1) / -0.0))"]),
        ("max_over_time((m + on (g, i) b)[1m:15s]) + on (g) group_left () sum by (g) (m)", ("summary", "upstream"),
         ["max_over_time(((m + on (g, i) b))[1m:15s])"]),
    ],
)  # fmt: skip
def test_each_part_comes_from_the_best_tier_that_covers_it(
    shared: tuple[Core, Core, Behind], text: str, tiers: tuple[str, ...], asked: list[str]
) -> None:
    near, far, behind = shared
    behind.asked.clear()
    answer = check(near, far, text, INSIDE_MS, INSIDE_MS + 4 * WIDTH_MS, WIDTH_MS)
    assert answer.tiers == tiers
    assert [part for part, _ in behind.asked] == asked


def test_what_is_known_nowhere_here_goes_upstream_whole_and_comes_back_as_it_is(tmp_path: Path) -> None:
    near, _, behind = pair(tmp_path)
    for text in ("b", "sum(b) / count(b)", "b[1m]", "start_timestamp(m)"):
        made = near.queries.instant(text, INSIDE_MS)
        assert isinstance(made, Forwarded) and made.body == text.encode()
    assert behind.asked == []


def test_steps_before_a_metric_came_here_are_the_upstreams_and_later_ones_ours(
    shared: tuple[Core, Core, Behind],
) -> None:
    near, far, behind = shared
    behind.asked.clear()
    answer = check(near, far, "sum by (g) (m)", START_MS, INSIDE_MS, WIDTH_MS)
    assert answer.tiers == ("summary", "upstream")
    assert behind.asked == [("sum by (g)(m)", (SINCE_MS - START_MS) // WIDTH_MS)]
    behind.asked.clear()
    answer = check(near, far, "sum(m) + sum(n)", START_MS, START_MS + MINUTES * 60_000, WIDTH_MS)
    assert answer.tiers == ("summary", "head", "upstream")
    assert {part for part, _ in behind.asked} == {"(sum(m) + sum(n))", "sum(n)"}


def test_a_hole_is_filled_from_the_upstream_step_by_step(tmp_path: Path) -> None:
    near, far, behind = pair(tmp_path)
    for core in (near, far):
        core.clock.advance(120_000)
    near = near.reopened()
    for k in range(60):
        for core in (near, far):
            core.pass_time(WIDTH_MS)
            core.write([(series("m", g=g, i="1"), core.clock.now_ms(), float(k)) for g in "ab"])
            core.tick()
    hole = near.intake.progress.holes[0]
    answer = check(near, far, "sum(m)", hole.after_ms // WIDTH_MS * WIDTH_MS - 300_000, near.clock.now_ms(), WIDTH_MS)
    assert set(answer.tiers) == {"summary", "head", "upstream"}
    assert 0 < sum(steps for _, steps in behind.asked) < len(answer.times)
    assert answer.warnings == ()


def test_an_upstream_that_means_something_else_gets_whole_queries_only(tmp_path: Path) -> None:
    near, _, behind = pair(tmp_path, semantics=False)
    assert isinstance(near.queries.instant("sum(m) + sum(b)", INSIDE_MS), Forwarded)
    assert isinstance(near.queries.range("sum(m)", START_MS, INSIDE_MS, WIDTH_MS), Forwarded)
    assert near.instant("sum(m)", INSIDE_MS).tiers == ("summary",)
    assert behind.asked == []


def test_what_cannot_join_goes_upstream_whole(tmp_path: Path) -> None:
    near, _, behind = pair(tmp_path)
    behind.fails = NotJoinable
    assert isinstance(near.queries.instant("sum(m) + sum(b)", INSIDE_MS), Forwarded)


def test_an_upstream_that_fails_fails_the_query_and_not_those_that_need_none(tmp_path: Path) -> None:
    near, _, behind = pair(tmp_path)
    behind.fails = TimedOut
    with pytest.raises(TimedOut, match="the upstream there"):
        near.instant("sum(m) + sum(b)", INSIDE_MS)
    assert near.instant("sum(m)", INSIDE_MS).tiers == ("summary",)


def test_a_pane_that_is_gone_when_it_is_read_is_the_next_tiers(tmp_path: Path) -> None:
    near, far, _ = pair(tmp_path)
    near.store.drop(KEPT[0].id, INSIDE_MS + WIDTH_MS)
    answer = check(near, far, "sum(m)", INSIDE_MS, INSIDE_MS + 4 * WIDTH_MS, WIDTH_MS)
    assert answer.tiers == ("summary", "head")
    assert answer.told is not None and answer.told.account.of(1, "head").steps == 2


LEAVES = (
    "m", "n", "b", 'm{g="a"}', "rate(c[1m])", "m offset 2m", "max_over_time(b[2m])", "avg_over_time(n[1m:15s])",
    "sum by (g) (m)", "sum by (g) (rate(c[1m]))", "count(m)", "timestamp(n)", "vector(3)", "m @ end()",
)  # fmt: skip


def drawn(random: Random, depth: int) -> str:
    if depth == 0:
        return random.choice(LEAVES)
    first, second = (drawn(random, depth - 1 - (random.random() < 0.3)) if depth > 1 else drawn(random, 0)
                     for _ in range(2))  # fmt: skip
    return random.choice((
        f"sum by (g) ({first})", f"max({first})", f"-({first})", f"({first}) > 1", f"abs({first})",
        f"sum by (g) ({first}) + on (g) max by (g) ({second})", f"({first}) or ({second})", f"absent({first})",
        f"({first}) unless on (g) ({second})", f"({first}) and on (g) ({second})", f"scalar({first}) + ({second})",
        f"sum({first}) / count({second})", f"label_replace({first}, 'x', '$1', 'g', '(.*)')",
    ))  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_random_expressions_at_random_steps_are_what_all_samples_together_give(
    shared: tuple[Core, Core, Behind], seed: int
) -> None:
    near, far, _ = shared
    random, mixed = Random(seed), 0
    for _ in range(120):
        text = drawn(random, random.randint(1, 3))
        start_ms = START_MS + random.randrange(0, MINUTES * 60_000, random.choice((WIDTH_MS, 1000)))
        step_ms = random.choice((WIDTH_MS, 2 * WIDTH_MS, 7000))
        made = near.queries.range(text, start_ms, start_ms + 12 * step_ms, step_ms)
        if isinstance(made, Answer):
            mixed += len(made.tiers) > 1
            check(near, far, text, start_ms, start_ms + 12 * step_ms, step_ms)
    assert mixed > 20
