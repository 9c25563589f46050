"""The result cache on a whole node: with it and without it every answer is the same to the byte, whatever happens.

`CACHE_SEEDS` in the environment is how many stories are told of each kind; without it, as many as take some seconds.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest

from precompute.compaction import compact
from precompute.errors import QueryError
from precompute.labels import Labels
from precompute.samples import I64, STALE
from query.answers import Answer, Forwarded
from query.api import encode
from query.cache import ResultCache
from query.engine import Request
from tests.differential.grammar import Grammar
from tests.differential.sides import translated
from tests.precompute.made_node import LATENESS_MS, START_MS, WIDTH_MS, Core, aggregation, series
from tests.query.test_mixed import Behind

SEEDS = range(int(os.environ.get("CACHE_SEEDS", "3")))
MINUTE_MS = 60_000
KEPT = [
    aggregation("g", ["job", "zone"], retention_ms=25 * MINUTE_MS),
    aggregation("rate(c_total[1m])", ["job"]),
    aggregation("rate(b_bucket[2m])", ["le", "job"], accumulators=["sum"]),
    aggregation("h", ["i"], without=True),
    aggregation("max_over_time(g[1m]) > 0", ["zone"], accumulators=["sum", "count"]),
]
COVERED = (
    "sum by (job) (g)", "quantile by (job) (0.9, g)", "avg(g)", "max without (i) (h)", "stddev(h)", "sum(g offset 2m)",
    "sum by (job) (rate(c_total[1m]))", "histogram_quantile(0.9, sum by (le) (rate(b_bucket[2m])))",
    "sum by (job) (g) / on (job) count by (job) (h)", "topk(1, sum by (job) (g) - on (job) sum by (job) (g offset 1m))",
    "sum(g @ start()) - on () sum(g)", "sum by (zone) (max_over_time(g[1m]) > 0)", "scalar(sum(g)) + h",
    "max_over_time(sum(g)[2m:30s]) or sum(h)", "g * on (job) group_left () sum by (job) (h)",
    "absent(g) or sum by (zone) (g)", 'count_values("v", count by (job) (h))',
    "sum by (zone) (h) unless on (zone) sum by (zone) (g) > 0",
)  # fmt: skip


class Watched(ResultCache):
    """Tells at which steps something was kept."""

    def __init__(self) -> None:
        super().__init__(1 << 24)
        self.kept: list[int] = []

    def keep(self, asked, times: I64, *made) -> None:  # type: ignore[no-untyped-def]
        self.kept += times.tolist()
        super().keep(asked, times, *made)


Span = tuple[int, int, int]


def told(core: Core, text: str, span: Span, cached: bool) -> tuple[object, ...]:
    """All that a caller sees of an answer, or of an error."""
    try:
        made = core.queries.range(text, *span, Request(cached=cached))
    except QueryError as error:
        return type(error), str(error)
    return (made.body,) if isinstance(made, Forwarded) else (encode.answer(made), made.tiers, made.bound)


def steps_from_cache(core: Core, text: str, span: Span) -> int:
    made = core.queries.range(text, *span)
    assert isinstance(made, Answer) and made.told is not None
    return made.told.account.cached


class Story:
    """A node, and with `behind` an upstream that holds all that was ever sent; and what befalls them, drawn."""

    def __init__(self, folder: Path, random: Random, behind: bool) -> None:
        self.random, self.far, self.upstream = random, None, None
        if behind:
            self.far = Core(folder / "far", acceptance_ms=10_000 * MINUTE_MS, kept_ms=10_000 * MINUTE_MS)
            self.upstream = Behind(self.far)
        self.near = Core(
            folder / "near", KEPT, acceptance_ms=6 * MINUTE_MS, kept_ms=10 * MINUTE_MS, segment_ms=2 * MINUTE_MS,
            has_upstream=behind, upstream=self.upstream, parts=self.upstream, head_retention_ms=17 * MINUTE_MS,
            new_cache=Watched,
        )  # fmt: skip
        self.targets = [self.target(i) for i in range(5)]
        self.counter = 0.0
        drawn = Grammar(random, (START_MS + 5 * MINUTE_MS, START_MS + 12 * MINUTE_MS))
        self.texts = ["g @ start() + g", "sum(g @ end()) - on () count(h)", *random.sample(COVERED, 6)]
        self.texts += [translated(drawn.ranged()) for _ in range(6)]
        self.asked = list[tuple[str, Span]]()
        for _ in range(40):
            self.scrape()

    @property
    def cores(self) -> list[Core]:
        return [self.near] if self.far is None else [self.near, self.far]

    def target(self, i: int) -> dict[str, str]:
        return {"i": str(i), "job": self.random.choice("ab"), "zone": self.random.choice("xy")}

    def rows(self, t_ms: int, targets: Sequence[dict[str, str]]) -> list[tuple[Labels, int, float]]:
        """One scrape of these targets, some of which may be down."""
        self.counter += self.random.randint(0, 5)
        out, value = list[tuple[Labels, int, float]](), self.random.randint
        for target in targets:
            down = self.random.random() < 0.05
            odd = self.random.choice((np.nan, -0.0, np.inf)) if self.random.random() < 0.02 else None
            points = [("g", value(-8, 8) / 4), ("h", odd or value(0, 3)), ("c_total", self.counter)]
            out += [(series(name, **target), t_ms, STALE if down else float(point)) for name, point in points]
        out += [
            (series("b_bucket", le=le, **target), t_ms, self.counter * (k + 1))
            for target in targets[:2] for k, le in enumerate(("0.5", "1", "+Inf"))
        ]  # fmt: skip
        return out

    # -- what may happen

    def write(self, rows: Sequence[tuple[Labels, int, float]]) -> None:
        for core in self.cores:
            core.write(rows)

    def scrape(self) -> None:
        for core in self.cores:
            core.pass_time(WIDTH_MS)
        self.write(self.rows(self.near.clock.now_ms() - self.random.choice((0, 0, 0, 300, 2000)), self.targets))
        if self.random.random() < 0.6:
            self.near.tick()

    def late(self) -> None:
        """Often of a target that was never seen before, which all steps of the next minutes see."""
        t_ms = self.near.clock.now_ms() - self.random.randrange(7 * MINUTE_MS)
        self.write(self.rows(t_ms, [self.random.choice((self.target(self.random.randrange(100)), *self.targets[:1]))]))

    def churn(self) -> None:
        self.targets[self.random.randrange(5)] = self.target(self.random.randrange(100))

    def pause(self) -> None:
        """Nobody listens for some time; or nothing is sent."""
        for core in self.cores:
            if self.random.random() < 0.5 or core is self.far:
                core.pass_time(3 * MINUTE_MS)
            else:
                core.clock.advance(3 * MINUTE_MS)

    def kill(self) -> None:
        """It comes back with other aggregations."""
        self.near = self.near.reopened(self.random.sample(KEPT, self.random.randint(2, len(KEPT))))

    def compact(self) -> None:
        compact(self.near.intake)

    def happen(self) -> None:
        what = (self.scrape, self.late, self.tick, self.churn, self.compact, self.pause, self.kill)
        self.random.choices(what, (45, 30, 15, 3, 3, 2, 2))[0]()

    def tick(self) -> None:
        self.near.tick()

    # -- what is asked

    def question(self) -> tuple[str, Span]:
        """Often one of the last, or one of the last at other times."""
        if not self.asked or self.random.random() < 0.4:
            text = self.random.choice([*self.texts, *(text for text, _ in self.asked)])
            self.asked = [*self.asked[-3:], (text, self.span())]
        return self.random.choice(self.asked)

    def span(self) -> Span:
        step_ms = self.random.choice((WIDTH_MS, WIDTH_MS, 2 * WIDTH_MS, 20_000, 7000))
        now_ms = self.near.clock.now_ms() // step_ms * step_ms
        end_ms = now_ms - step_ms * self.random.choice((0, 0, 0, 1, 20, -2))
        return end_ms - step_ms * self.random.choice((0, 1, 10, 40, 80)), end_ms, step_ms

    def ask(self) -> None:
        """With the cache, without it, and with it again, which now has what could be kept."""
        (text, span), cache = self.question(), self.near.cache
        assert isinstance(cache, Watched)
        cache.kept.clear()
        answers = {told(self.near, text, span, cached) for cached in (True, False, True)}
        assert len(answers) == 1, (text, span)
        assert max(cache.kept, default=0) <= self.near.clock.now_ms() - LATENESS_MS

    def ask_while_something_happens(self) -> None:
        """After its stamps were taken, after panes were read, or after all was evaluated."""
        near, (text, span) = self.near, self.question()
        event = self.random.choice((self.late, self.late, self.tick, self.scrape, self.compact))
        moments = ((near.cache, "find"), (near.summary_tier, "read"), (near.head_tier, "still_held"))
        with once_after(*self.random.choice(moments), lambda: (event(), self.random.choice((self.tick, int))())):
            told(near, text, span, True)
        assert len({told(near, text, span, cached) for cached in (True, False)}) == 1, (text, span)


@contextmanager
def once_after(owner: object, name: str, event: Callable[[], object]) -> Iterator[None]:
    """Inside, the event happens at the end of the first call of that method."""
    whole, events = getattr(owner, name), [event]

    def then(*asked: object) -> object:
        found = whole(*asked)
        while events:
            events.pop()()
        return found

    setattr(owner, name, then)
    try:
        yield
    finally:
        delattr(owner, name)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("behind", [False, True])
def test_with_and_without_the_cache_every_answer_is_the_same_to_the_byte(
    tmp_path: Path, behind: bool, seed: int
) -> None:
    random = Random(seed)
    story, hits = Story(tmp_path, random, behind), 0
    for _ in range(120):
        before = story.near.cache
        random.choices((story.happen, story.ask, story.ask_while_something_happens), (4, 4, 1))[0]()
        hits += before.hits if before is not story.near.cache else 0
    assert hits + story.near.cache.hits > 50, "hardly anything came from the cache"


LOOKS = {
    "g": [(0, 300)],
    "sum by (job) (g)": [(0, 300)],
    "sum by (job) (rate(c_total[1m]))": [(0, 60)],
    "sum(g offset 2m) or topk(1, sum by (job) (g))": [(120, 420), (0, 300)],
    "sum(g) / on () count(max_over_time(h[30s] offset 8m))": [(0, 300), (480, 510)],
    "g * on (job, zone, i) group_left () rate(c_total[45s] offset 3m)": [(0, 300), (180, 225)],
    "max_over_time(rate(c_total[1m])[2m:15s])": [(0, 180)],
}
"""Queries, and what their step t looks at: `(t - far, t - near]` for each `(near, far)`, in seconds."""


def looking(text: str, times: Sequence[int], sample_ms: int) -> list[int]:
    """The steps that look at the granule `(end - width, end]` of a sample."""
    end_ms = -(-sample_ms // WIDTH_MS) * WIDTH_MS
    return [
        t for t in times
        if any(t - 1000 * far < end_ms and t - 1000 * near > end_ms - WIDTH_MS for near, far in LOOKS[text])
    ]  # fmt: skip


def kept_anew(core: Core, text: str, span: Span) -> list[int]:
    """The steps that one query evaluated and kept, while all others that are old enough came from the cache."""
    cache, settled = core.cache, core.clock.now_ms() - LATENESS_MS
    assert isinstance(cache, Watched)
    cache.kept.clear()
    found = steps_from_cache(core, text, span)
    assert found + len(cache.kept) == len([t for t in range(span[0], span[1] + 1, span[2]) if t <= settled])
    return sorted(cache.kept)


@pytest.mark.parametrize("text", LOOKS)
@pytest.mark.parametrize("step_ms", [WIDTH_MS, 7000])
def test_a_late_sample_lets_exactly_the_steps_that_look_at_it_be_evaluated_again(
    tmp_path: Path, text: str, step_ms: int
) -> None:
    random = Random(text)
    core = Story(tmp_path, random, behind=False).near
    core.tick()
    now_ms = core.clock.now_ms()
    span = (now_ms - 40 * step_ms, now_ms + 2 * step_ms, step_ms)
    times = list(range(*span))
    settled = [t for t in times if t <= now_ms - LATENESS_MS]
    assert kept_anew(core, text, span) == settled
    assert kept_anew(core, text, span) == []
    for _ in range(4):
        late_ms = now_ms - random.randrange(5 * MINUTE_MS)
        core.write([(series("g", job="a", zone="x", i="0"), late_ms, 5.0)])
        again = [t for t in looking(text, times, late_ms) if t <= now_ms - LATENESS_MS]
        assert kept_anew(core, text, span) == again
        assert kept_anew(core, text, span) == []
        core.tick()
        assert set(kept_anew(core, text, span)) <= set(again)
        assert kept_anew(core, text, span) == []


def test_a_tick_lets_the_steps_of_replaced_summaries_be_evaluated_again(tmp_path: Path) -> None:
    core = Story(tmp_path, Random(1), behind=False).near
    core.tick()
    now_ms, text = core.clock.now_ms(), "sum by (job) (g)"
    span = (now_ms - 40 * WIDTH_MS, now_ms, WIDTH_MS)
    kept_anew(core, text, span)
    core.write([(series("other"), now_ms - 5 * MINUTE_MS, 1.0)])
    from_head = kept_anew(core, text, span)
    core.tick()
    assert kept_anew(core, text, span) == from_head != []


def test_time_that_passes_adds_steps_and_changes_none(tmp_path: Path) -> None:
    story = Story(tmp_path, Random(2), behind=False)
    text, core = "sum by (job) (g) + on (job) count by (job) (h)", story.near
    core.tick()
    for _ in range(5):
        now_ms = core.clock.now_ms()
        kept_anew(core, text, (now_ms - 40 * WIDTH_MS, now_ms, WIDTH_MS))
        story.write(story.rows(now_ms + 1, story.targets))
        core.pass_time(WIDTH_MS)
        span = (now_ms - 39 * WIDTH_MS, now_ms + WIDTH_MS, WIDTH_MS)
        assert kept_anew(core, text, span) == [now_ms]
        core.tick()
        assert kept_anew(core, text, span) == [now_ms]


def test_steps_with_a_part_from_the_upstream_are_asked_for_each_time(tmp_path: Path) -> None:
    story = Story(tmp_path, Random(3), behind=True)
    core, upstream = story.near, story.upstream
    assert upstream is not None
    story.far.write([(series("only_there", job=job), story.far.clock.now_ms(), 1.0) for job in "ab"])  # type: ignore[union-attr]
    now_ms = core.clock.now_ms()
    core.tick()
    for text, some in (("sum by (job) (g)", True), ("sum by (job) (g) * on (job) max by (job) (only_there)", False)):
        span = (START_MS - WIDTH_MS, now_ms, WIDTH_MS)
        asked = list[int]()
        for cached in (False, True, True):
            upstream.asked.clear()
            core.queries.range(text, *span, Request(cached=cached))
            asked.append(sum(steps for _, steps in upstream.asked))
        assert asked[0] == asked[1] == asked[2] > 0
        assert (steps_from_cache(core, text, span) > 0) == some
