"""Which tier answers which step, and what the answer says about it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from precompute.errors import BadExpression, ExecutionError, LimitExceeded, Unsupported
from precompute.evaluate.limits import Limits
from precompute.evaluate.values import Scalar, Text
from query.answers import Forwarded
from query.engine import HOLE_WARNING
from tests.precompute.made_node import (
    HOUR_MS,
    LATENESS_MS,
    LOOKBACK_MS,
    START_MS,
    WIDTH_MS,
    Core,
    aggregation,
    series,
)  # fmt: skip
from tests.reference.compare import at_step

KEPT = [aggregation("m", ["g"]), aggregation("rate(c[1m])", ["g"], accumulators=["sum", "count"])]
FORWARDED = Forwarded(200, b"{}", "application/json")


class Elsewhere:
    """An upstream that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    def query(self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str], timeout_ms: int) -> Forwarded:
        assert timeout_ms > 0
        self.asked.append((path, parameters))
        return FORWARDED


def running(folder: Path, minutes: int = 10, **changed: object) -> Core:
    """Scraped every 15 s on the pane grid, ticked as often."""
    core = Core(folder, KEPT, **changed)  # type: ignore[arg-type]
    for k in range(4 * minutes):
        core.pass_time(WIDTH_MS)
        now_ms = core.clock.now_ms()
        core.write([(series("m", g=g, i=i), now_ms, float(k)) for g in "ab" for i in "12"])
        core.write([(series("c", g="a"), now_ms, 10.0 * k), (series("odd"), now_ms, 1.0)])
        core.tick()
    return core


def test_a_step_on_a_sealed_pane_is_the_summarys_and_one_off_the_grid_the_heads(tmp_path: Path) -> None:
    core = running(tmp_path)
    sealed_ms = core.engine.sealed_ms() // WIDTH_MS * WIDTH_MS
    assert core.instant("sum by (g) (m)", sealed_ms).tiers == ("summary",)
    assert core.instant("sum by (g) (m)", sealed_ms + 1).tiers == ("head",)
    assert core.instant("sum by (g) (m)", sealed_ms - 1).tiers == ("head",)
    assert core.instant("sum by (g) (m)", sealed_ms + WIDTH_MS).tiers == ("head",)


def test_a_range_is_answered_step_by_step_from_the_best_tier_and_joined(tmp_path: Path) -> None:
    core = running(tmp_path)
    now_ms = core.clock.now_ms()
    answer = core.range("sum by (g) (m)", START_MS + WIDTH_MS, now_ms)
    assert answer.tiers == ("summary", "head")
    assert answer.bound.startswith("exact; not sealed after ")
    for step, t in enumerate(answer.times.tolist()):
        k = (t - START_MS) // WIDTH_MS - 1
        assert at_step(answer.value, step) == {(("g", "a"),): 2.0 * k, (("g", "b"),): 2.0 * k}
    assert core.range("sum by (g) (m)", START_MS, START_MS + 20 * WIDTH_MS).bound == "exact"


def test_a_range_between_the_grids_steps_is_the_heads_alone(tmp_path: Path) -> None:
    core = running(tmp_path)
    assert core.range("sum(m)", START_MS + 1, START_MS + 300_001).tiers == ("head",)
    assert core.range("sum(m)", START_MS, START_MS + 300_000, 10_000).tiers == ("summary", "head")


def test_offset_and_at_choose_the_pane(tmp_path: Path) -> None:
    core = running(tmp_path)
    t = START_MS + 20 * WIDTH_MS
    shifted = core.instant("sum(m offset 1m)", t)
    assert (shifted.tiers, at_step(shifted.value, 0)) == (("summary",), {(): 4.0 * 15})
    assert core.instant("sum(m offset 7s)", t).tiers == ("head",)
    assert core.instant("sum(m offset 7s)", t + 7000).tiers == ("summary",)
    assert core.instant("sum(m offset -1h)", t).tiers == ("head",)
    fixed = core.range(f"sum(m @ {t / 1000})", t, t + 100_000, 1000)
    assert (fixed.tiers, at_step(fixed.value, 37)) == (("summary",), {(): 4.0 * 19})


def test_expressions_over_covered_parts_are_computed_here(tmp_path: Path) -> None:
    core = running(tmp_path)
    t = START_MS + 20 * WIDTH_MS
    answer = core.instant("100 * (sum by (g) (m) - on (g) count by (g) (m)) / 2 > 1", t)
    assert answer.tiers == ("summary",)
    assert at_step(answer.value, 0) == {(("g", g),): 100 * (2.0 * 19 - 2) / 2 for g in "ab"}
    exact = core.instant("sum(m) / sum(rate(c[1m]))", t + 1)
    assert exact.tiers == ("head",)
    assert core.instant("sum(m) / sum(rate(c[1m]))", t).tiers == ("summary",)


def test_what_no_aggregation_covers_is_the_heads_to_the_last_step(tmp_path: Path) -> None:
    core = running(tmp_path)
    t = START_MS + 20 * WIDTH_MS
    for text in ("m", "sum by (i) (m)", "sum(rate(c[2m]))", "sum(odd)", "max(rate(c[1m]))"):
        assert core.instant(text, t).tiers == ("head",), text


def test_numbers_and_strings_need_no_samples(tmp_path: Path) -> None:
    core = Core(tmp_path)
    number, text = core.instant("1 + 1", START_MS).value, core.instant('"x"', START_MS).value
    assert isinstance(number, Scalar) and number.values.tolist() == [2.0]
    assert text == Text("x")
    many = core.range("2 ^ 3", START_MS, START_MS + 30_000).value
    assert isinstance(many, Scalar) and many.values.tolist() == [8.0] * 3


def test_what_the_head_let_go_is_served_from_summaries_or_refused_with_a_reason(tmp_path: Path) -> None:
    core = running(
        tmp_path, 60, acceptance_ms=300_000, kept_ms=LOOKBACK_MS, segment_ms=60_000, head_retention_ms=600_000
    )
    old = START_MS + 20 * WIDTH_MS
    assert core.instant("sum(m)", old).tiers == ("summary",)
    with pytest.raises(ExecutionError, match=r"are not held, and there is no upstream"):
        core.instant("sum(m)", old + 1)
    with pytest.raises(ExecutionError, match="are not held"):
        core.instant("sum(rate(c[30s]))", old)
    partly = core.range("sum(rate(c[30s]))", old, core.clock.now_ms())
    assert partly.tiers == ("head",)
    assert any("are left out" in warning for warning in partly.warnings)
    assert at_step(partly.value, 0) == {}
    assert at_step(partly.value, len(partly.times) - 1) != {}


def test_a_hole_is_served_with_a_warning_where_there_is_no_upstream(tmp_path: Path) -> None:
    core = running(tmp_path)
    core.clock.advance(120_000)
    core = core.reopened()
    core.pass_time(600_000)
    core.tick()
    hole = core.intake.progress.holes[0]
    assert HOLE_WARNING in core.instant("sum(m)", hole.until_ms // WIDTH_MS * WIDTH_MS).warnings
    assert HOLE_WARNING in core.instant("m", hole.until_ms).warnings
    assert core.instant("sum(m)", START_MS + 20 * WIDTH_MS).warnings == ()


def test_with_an_upstream_gaps_holes_and_unknown_metrics_go_there_whole(tmp_path: Path) -> None:
    elsewhere = Elsewhere()
    core = running(tmp_path, 10, has_upstream=True, upstream=elsewhere)

    def forwarded(text: str, t: int) -> bool:
        return isinstance(core.queries.instant(text, t), Forwarded)

    inside = START_MS + LOOKBACK_MS + 4 * WIDTH_MS
    assert core.instant("sum(m)", inside).tiers == ("summary",)
    assert core.instant("m", inside + 1).tiers == ("head",)
    assert forwarded("sum(m)", START_MS + LOOKBACK_MS - WIDTH_MS)
    assert forwarded("nosuch", inside)
    assert forwarded('{g="a"}', inside)
    assert forwarded("start_timestamp(m)", inside)
    assert forwarded("rate(m[5m] anchored)", inside)
    assert forwarded("absent(nosuch)", inside)
    assert isinstance(core.queries.range("m", START_MS, inside, WIDTH_MS), Forwarded)
    path, asked = elsewhere.asked[-1]
    assert path == "query_range"
    assert asked == {"query": "m", "start": str(START_MS // 1000), "end": str(inside // 1000), "step": "15"}
    core.intake.note_histograms(["m"])
    assert forwarded("m", inside)
    assert forwarded("sum(m)", inside)


def test_without_an_upstream_a_missing_feature_is_named(tmp_path: Path) -> None:
    core = Core(tmp_path)
    for text, feature in (("start_timestamp(m)", "start_timestamp"), ("rate(m[5m] anchored)", "anchored")):
        with pytest.raises(Unsupported, match=feature):
            core.instant(text, START_MS)


def test_a_metric_that_also_has_histograms_is_refused_by_summaries_too(tmp_path: Path) -> None:
    core = running(tmp_path)
    t = START_MS + 20 * WIDTH_MS
    assert core.instant("sum(m)", t).tiers == ("summary",)
    core.intake.note_histograms(["m"])
    with pytest.raises(ExecutionError, match="native histogram"):
        core.instant("sum(m)", t)


def test_broken_queries_are_bad_expressions(tmp_path: Path) -> None:
    core = Core(tmp_path)
    for text in ("sum(", "", "m{", 'm{a=~"("}', "rate(m)", "sum(m[5m])"):
        with pytest.raises(BadExpression):
            core.instant(text, START_MS)
    with pytest.raises(BadExpression, match="range vector"):
        core.range("m[5m]", START_MS, START_MS + 1)
    with pytest.raises(BadExpression, match="string"):
        core.range('"x"', START_MS, START_MS + 1)


def test_joins_that_are_not_one_to_one_are_execution_errors(tmp_path: Path) -> None:
    core = running(tmp_path)
    with pytest.raises(ExecutionError, match="many-to-many"):
        core.instant("m + on (g) m", core.clock.now_ms())
    core.write([(series("odd", g="a"), core.clock.now_ms(), 1.0)])
    with pytest.raises(ExecutionError, match="same labelset"):
        core.instant('-{__name__=~"c|odd"}', core.clock.now_ms())


def test_nearest_moves_an_instant_query_to_the_last_sealed_pane_and_says_so(tmp_path: Path) -> None:
    core = running(tmp_path, nearest=True)
    now_ms = core.clock.now_ms()
    answer = core.instant("sum(m)", now_ms)
    assert answer.times.tolist() == [now_ms - LATENESS_MS]
    assert answer.tiers == ("summary",)
    assert answer.infos == ("moved back by 15s to the pane grid (query_engine.alignment: nearest)",)
    past = START_MS + 20 * WIDTH_MS
    assert core.instant("sum(m)", past).infos == ()
    moved = core.instant("sum(m)", past + 14_999)
    assert (moved.times.tolist(), moved.tiers) == ([past], ("summary",))
    everything = core.instant("m", past + 1)
    assert everything.times.tolist() == [past]


def test_nearest_moves_a_range_down_as_a_whole_and_leaves_unsealed_steps_to_the_head(tmp_path: Path) -> None:
    core = running(tmp_path, nearest=True)
    now_ms = core.clock.now_ms()
    answer = core.range("sum(m)", START_MS + 301_000, now_ms + 1000)
    assert answer.times[0] == START_MS + 300_000
    assert answer.times[-1] == now_ms
    assert answer.tiers == ("summary", "head")
    assert answer.infos


def test_samples_trimmed_while_a_query_reads_are_not_silently_missed(tmp_path: Path) -> None:
    core = running(tmp_path, 60, acceptance_ms=HOUR_MS // 12, kept_ms=LOOKBACK_MS, segment_ms=60_000)
    edge = core.intake.progress.base_ms + LOOKBACK_MS
    instant = core.source.instant

    def trimming(*args: object) -> object:
        core.source.instant = instant  # type: ignore[method-assign]  # the ticks read through it, too
        core.pass_time(90_000)
        core.write([(series("m", g="a", i="1"), core.clock.now_ms(), 1.0)])
        for _ in range(2):
            core.tick()
        return instant(*args)  # type: ignore[arg-type]

    assert core.instant("m", edge + 1).tiers == ("head",)
    core.source.instant = trimming  # type: ignore[method-assign,assignment]
    with pytest.raises(ExecutionError, match="are not held"):
        core.instant("m", edge + 1)


def test_a_few_steps_of_a_long_range_read_only_their_panes(tmp_path: Path) -> None:
    core = running(tmp_path)
    answer = core.range("sum by (g) (m)", START_MS, START_MS + 30 * WIDTH_MS, 10 * WIDTH_MS)
    assert answer.tiers == ("summary",)
    assert [at_step(answer.value, step).get((("g", "a"),)) for step in range(4)] == [None, 18.0, 38.0, 58.0]  # type: ignore[union-attr]


def test_more_groups_and_panes_than_the_limit_are_refused_before_they_are_read(tmp_path: Path) -> None:
    core = running(tmp_path)
    tight = replace(core.queries._options, limits=Limits(max_matrix_bytes=500))
    core.queries._options = tight
    assert core.instant("sum by (g) (m)", START_MS + 20 * WIDTH_MS).tiers == ("summary",)
    with pytest.raises(LimitExceeded, match="2 series × 30 steps"):
        core.range("sum by (g) (m)", START_MS + 2 * WIDTH_MS, START_MS + 31 * WIDTH_MS)


def test_an_upstream_is_asked_for_the_time_before_a_metric_came_here(tmp_path: Path) -> None:
    core = running(tmp_path, 20, has_upstream=True, upstream=Elsewhere())
    began_ms = core.clock.now_ms()
    core.pass_time(10 * 60_000)
    core.write([(series("n", g="a"), began_ms + 60_000, 1.0)])
    assert isinstance(core.queries.instant("n", began_ms + 9 * 60_000), Forwarded), "before it is noted"
    core.pass_time(10_000)
    assert isinstance(core.queries.instant("n", began_ms + 5 * 60_000), Forwarded)
    assert core.instant("n", began_ms + 60_000 + LOOKBACK_MS).tiers == ("head",)
    assert isinstance(core.reopened().queries.instant("n", began_ms + 5 * 60_000), Forwarded)


def test_an_upstream_that_is_added_later_is_asked_for_what_was_before_the_install(tmp_path: Path) -> None:
    alone = running(tmp_path)
    before_ms = START_MS - WIDTH_MS
    assert alone.instant("sum(m)", before_ms).tiers == ("summary",)
    core = replace_upstream(alone)
    core.pass_time(5000)
    assert isinstance(core.queries.instant("sum(m)", before_ms), Forwarded)
    assert isinstance(core.queries.instant("m", before_ms + 1), Forwarded)
    assert core.instant("sum(m)", START_MS + WIDTH_MS + LOOKBACK_MS).tiers == ("summary",)


def replace_upstream(core: Core) -> Core:
    """The same install, started again with an upstream."""
    core.has_upstream, core.upstream = True, Elsewhere()
    return core.reopened()


def test_a_metric_some_series_of_which_were_refused_is_asked_of_the_upstream(tmp_path: Path) -> None:
    core = running(tmp_path, has_upstream=True, upstream=Elsewhere())
    inside = START_MS + LOOKBACK_MS + 4 * WIDTH_MS
    assert core.instant("sum(m)", inside).tiers == ("summary",)
    core.intake.note_partial(["m"])
    assert isinstance(core.queries.instant("sum(m)", inside), Forwarded)
    assert isinstance(core.queries.instant("m", inside + 1), Forwarded)
    assert isinstance(core.reopened().queries.instant("m", inside + 1), Forwarded)
    alone = running(tmp_path / "alone")
    alone.intake.note_partial(["m"])
    assert alone.instant("sum(m)", inside).tiers == ("summary",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(m @ 0)", {}), ("m @ -100000000", {}), ("absent(m offset 60y)", {(): 1.0}),
        ("sum(m) - (sum(m offset 60y) or vector(0))", {(): 80.0}), ("sum(count_over_time(m[100y]))", {(): 84.0}),
        ("count_over_time(m[60y:1y])", {}),
    ],
)  # fmt: skip
def test_before_there_were_samples_is_nothing_in_an_install_without_an_upstream(
    tmp_path: Path, text: str, expected: dict[object, float]
) -> None:
    core = running(tmp_path)
    answer = core.instant(text, START_MS + 21 * WIDTH_MS)
    assert (at_step(answer.value, 0), answer.bound) == (expected, "exact")
    assert not core.instant("sum(m)", 0).value


OF_NOTES = [
    aggregation(expr, ["job"])
    for expr in ("m", "rate(m[1m])", "quantile_over_time(-0.5, m[1m])", "histogram_quantile(2, b) * on (job) n")
]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("quantile(2, m)", ["2"]), ("quantile by (job) (-1, m)", ["-1"]), ("quantile(NaN, m)", ["NaN"]),
        ("quantile(0.5, m)", []), ("sum(rate(m[1m]))", []), ("sum(quantile_over_time(-0.5, m[1m]))", ["-0.5"]),
        ('sum(quantile_over_time(-0.5, m{job="none"}[1m]))', []), ("sum(m) + sum(quantile(3, m))", ["3"]),
        ("sum(histogram_quantile(2, b) * on (job) n)", ["2"]),
    ],
)  # fmt: skip
def test_what_is_told_of_an_expression_is_the_same_from_summaries_and_from_the_head(
    tmp_path: Path, text: str, told: list[str]
) -> None:
    near, far = Core(tmp_path / "near", OF_NOTES), Core(tmp_path / "far")
    for _ in range(4):
        for core in (near, far):
            now_ms = core.clock.now_ms()
            core.write([(series("m", job="a", i=i), now_ms, 1.0) for i in "12"])
            core.write([(series("b", job="a", le=le), now_ms, float(k)) for k, le in enumerate(("1", "2", "+Inf"))])
            core.write([(series("n", job="a"), now_ms, 1.0)])
            core.pass_time(WIDTH_MS)
            core.tick()
    kept, exact = (core.instant(text, START_MS + 2 * WIDTH_MS) for core in (near, far))
    assert "summary" in kept.tiers and exact.tiers == ("head",)
    assert (kept.warnings, kept.infos) == (exact.warnings, exact.infos)
    assert [text.rpartition(" ")[2] for text in kept.warnings] == told
