"""Expressions of the corpus with the plan for all of it in force: a core that holds their series and summaries."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, Requirement, cover, requirements
from precompute.errors import QueryError
from precompute.evaluate.values import Scalar, Text, Value, Vector
from precompute.planner.cardinality import Unknown
from precompute.planner.plan import Plan, PlannerSettings
from precompute.samples import F64
from query.answers import Answer
from query.workloads.base import Workload, Zooms
from query.workloads.coverage import Covered, Language, covered
from query.workloads.files import read
from tests.corpus.reading import FILE, Question
from tests.corpus.worlds import LENGTH_MS, Place, apart
from tests.differential.outcomes import Asked, Outcome
from tests.precompute.made_node import LOOKBACK_MS, WIDTH_MS, Core

START_MS = 1_764_500_010_000
"""On the pane grid."""

EVALUATION_MS = 60_000
_DAY_MS = 86_400_000
_REACH_MS = 31 * _DAY_MS
"""As far as any expression looks back."""

_AFTER_MS = 2 * LENGTH_MS
"""The clock stands so far behind the start that what looks ahead finds sealed panes too."""

SETTINGS = PlannerSettings(WIDTH_MS, 15_000, _DAY_MS)


def workload(folder: Path) -> Workload:
    return read(folder / FILE, Zooms(WIDTH_MS, 15_000, (WIDTH_MS,)))


def planned(folder: Path, range_ms: int) -> Covered:
    """The plan for all of the corpus, cardinality unknown, budget and reach unlimited."""
    return covered(workload(folder).queries, SETTINGS, Unknown(), Language(LOOKBACK_MS, EVALUATION_MS, range_ms))


def _kept(questions: Iterable[Question], plan: Plan) -> tuple[Aggregation, ...]:
    """What of a plan serves these."""
    needs = [one for q in questions for one in requirements(q.expr, LOOKBACK_MS, EVALUATION_MS)]
    found = [cover(one, plan.aggregations) for one in needs if isinstance(one, Requirement)]
    return tuple({one.aggregation.id: one.aggregation for one in found if isinstance(one, Coverage)}.values())


def in_force(
    questions: Sequence[Question], plan: Plan, folder: Path, seed: int
) -> Iterator[tuple[Core, list[Question]]]:
    """Cores with the questions' series, sealed and summarised, and the questions of each."""
    for number, group in enumerate(apart(questions)):
        random = Random(f"{seed} {number}")
        place = Place.drawn(group, random, START_MS)
        core = Core(
            folder / str(number), _kept(group, plan), kept_ms=_REACH_MS, head_retention_ms=_REACH_MS,
            max_future_ms=2 * _AFTER_MS,
        )  # fmt: skip
        core.clock.advance(START_MS - core.clock.now_ms())
        core.intake.heartbeat()
        series = {pairs: samples for question in group for pairs, samples in place.known(question).items()}
        core.write([(pairs, t_ms, value) for pairs, samples in series.items() for t_ms, value in samples])
        core.pass_time(_AFTER_MS, beat_ms=10_000)
        core.tick()
        yield core, group


def asked(question: Question) -> Iterator[Asked]:
    """At a sealed pane's end, and at ten minutes of them."""
    end_ms = START_MS + LENGTH_MS - WIDTH_MS
    yield Asked(question.text, end_ms, end_ms, 0)
    yield Asked(question.text, end_ms - 10 * EVALUATION_MS, end_ms, EVALUATION_MS)


def answer(core: Core, one: Asked) -> tuple[Outcome, Answer | None]:
    """What the tiers make of it."""
    try:
        if one.step_ms:
            got = core.range(one.text, one.start_ms, one.end_ms, one.step_ms)
        else:
            got = core.instant(one.text, one.start_ms)
    except QueryError as error:
        return Outcome(type(error).__name__), None
    return _outcome(got.value, one), got


def exactly(core: Core, one: Asked, question: Question) -> Outcome:
    """The same evaluated on the samples themselves."""
    try:
        return _outcome(core.evaluate(question.expr, np.array(one.times(), np.int64)), one)
    except QueryError as error:
        return Outcome(type(error).__name__)


def _outcome(value: Value, one: Asked) -> Outcome:
    if isinstance(value, Text):
        return Outcome(kind="string", text=value.text)
    times = list(one.times())
    rows = [((), value.values)] if isinstance(value, Scalar) else list(_rows(value))
    points = {(labels, times[k]): float(v) for labels, row in rows for k, v in enumerate(row) if not np.isnan(v)}
    return Outcome(kind=type(value).__name__, points=points)


def _rows(value: Value) -> Iterator[tuple[tuple[tuple[str, str], ...], F64]]:
    assert isinstance(value, Vector)
    for row in range(len(value)):
        yield value.frame.labels(row), np.where(value.present[row], value.values[row], np.nan)
