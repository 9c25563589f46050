"""Which requirements queries have, how often and at which steps they ask: what a planner plans from.

Requirements that one aggregation would serve alike are one: they may differ in φ and in the values of filters that a
dashboard's variables fill in. One that was met for the first time is *new*; what comes again, a third time within a
part of the half-life, is *repeated*, and planned for. What an aggregation in force covers is repeated at once, so that
a restart, which forgets all counts, lets go of no aggregation whose queries go on. If that has a pane at each of its
steps, the plan of all that comes next is soon enough.

Requirements whose range follows the step, as `$__rate_interval` does, are one family if nothing else tells them apart.
What joins a family that has a repeated one is repeated itself: the query comes again, at another zoom.

Both kinds are bounded, and what comes once pushes out nothing that comes again: where there is no room among the
repeated ones, what is covered or joins a family has to come a third time too. Then it takes the place of the one that
weighs least.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from precompute.aggregations import LONGEST_RETENTION_MS
from precompute.catalog import Requirement
from precompute.clock import Clock
from precompute.evaluate.expr import EQUAL, MATCHES
from precompute.planner.demand import Asking, Demand, Member
from precompute.samples import I64
from query.answers import Told
from query.plan import Plan
from query.tiers.summary import Steps, times_read
from query.zooms import joined, without_zoom

HOUR_MS = 3_600_000

REPEATED = 2.5
"""The weight at which a requirement is repeated: three times within about half of a half-life."""
FORGOTTEN = 0.5
"""The weight below which it is so no longer."""
LONGEST_TEXT = 4096
"""Of a query; longer ones are not counted."""
_MOST_USED = 4096
"""Of so many aggregations it is known when they were used last; those used longest ago are forgotten first."""
_SPANS = 3
"""What is kept for a long time is what was looked back at so often in a row."""

Kind = tuple[object, ...]


@dataclass(frozen=True)
class TrackerOptions:
    """window_ms: the default pane width. scrape_ms: the scrape interval. capacity: of each kind, new and repeated.
    half_life_ms: of all weights."""

    window_ms: int
    scrape_ms: int
    capacity: int
    half_life_ms: int


@dataclass(frozen=True)
class Tracked:
    """One requirement as it was asked.

    requirement     its last one
    weight          times asked, as of last_ms; each counts half after a half-life
    step_ms         the widest pane width that has an end at each step that was asked
    spans_ms        how far back the last queries looked
    family          equal for what is the same at another zoom; its kind where its range follows none
    """

    requirement: Requirement
    text: str
    first_ms: int
    last_ms: int
    weight: float
    step_ms: int
    spans_ms: tuple[int, ...]
    family: Kind


class Tracker:
    """Counts; any thread may call it."""

    def __init__(self, options: TrackerOptions, clock: Clock) -> None:
        self._options, self._clock = options, clock
        self._new: OrderedDict[Kind, Tracked] = OrderedDict()
        self._repeated: dict[Kind, Tracked] = {}
        self._used: OrderedDict[str, int] = OrderedDict()
        self._changes = 0
        self._lock = Lock()

    @property
    def changes(self) -> int:
        """Grows whenever something became repeated, or is asked at steps that it was not asked at before; not if an
        aggregation in force has a pane at each of them."""
        return self._changes

    def counts(self) -> tuple[int, int]:
        """Requirements held that are new, and that are repeated."""
        return len(self._new), len(self._repeated)

    def note(self, told: Told) -> None:
        """A query was answered, by whomever."""
        if told.plan is not None and len(told.text) <= LONGEST_TEXT:
            self.count(told.text, told.plan, told.steps)

    def count(self, text: str, plan: Plan, steps: Steps, asked: int = 1) -> None:
        """A query was asked so often, at last at these steps; those off the pane grid need no summaries."""
        covered = [node.coverage for node in plan.nodes if node.coverage is not None]
        self._use([one.aggregation.id for one in covered])
        widths_ms = {kind_of(one.requirement): one.aggregation.width_ms for one in covered}
        for need in plan.needs:
            times = times_read(need.normal, steps)
            on_grid = times[times % self._options.window_ms == 0]
            if len(on_grid):
                self._count(need, text, on_grid, widths_ms.get(kind_of(need)), asked)

    def used_ms(self, aggregation_id: str) -> int | None:
        """When a query was last given this aggregation, here or elsewhere; None where that is not known."""
        with self._lock:
            return self._used.get(aggregation_id)

    def demands(self) -> list[Demand]:
        """All that is repeated, for the planner; what has become rare is let go of."""
        now_ms = self._clock.now_ms()
        with self._lock:
            for kind, one in list(self._repeated.items()):
                if self._decayed(one, now_ms) < FORGOTTEN:
                    del self._repeated[kind]
            held = list(self._repeated.values())
        return joined((one.family, self._demand(one, now_ms)) for one in held)

    def _use(self, names: Sequence[str]) -> None:
        now_ms = self._clock.now_ms()
        with self._lock:
            for name in names:
                self._used[name] = now_ms
                self._used.move_to_end(name)
            while len(self._used) > _MOST_USED:
                self._used.popitem(last=False)

    def _count(self, need: Requirement, text: str, times: I64, width_ms: int | None, asked: int) -> None:
        """width_ms: of the panes of the aggregation that covers it; None without one."""
        kind, now_ms, options = kind_of(need), self._clock.now_ms(), self._options
        step_ms = options.window_ms if len(times) == 1 else math.gcd(int(np.gcd.reduce(times)), HOUR_MS)
        span_ms = min(max(0, now_ms - int(times[0])), LONGEST_RETENTION_MS)
        with self._lock:
            was = self._repeated.pop(kind, None)
            known = was or self._new.pop(kind, None)
            one = Tracked(need, text, now_ms, now_ms, float(asked), step_ms, (span_ms,), kind)
            if known is not None:
                one = replace(
                    one, first_ms=known.first_ms, weight=self._decayed(known, now_ms) + asked,
                    step_ms=math.gcd(step_ms, known.step_ms), spans_ms=(*known.spans_ms, span_ms)[-_SPANS:],
                )  # fmt: skip
            one = replace(one, family=family_of(need, one.step_ms, options.scrape_ms))
            self._hold(kind, one, was, covered=width_ms is not None, served=_on_panes(times, width_ms))

    def _hold(self, kind: Kind, one: Tracked, was: Tracked | None, covered: bool, served: bool) -> None:
        """was: how it stood among the repeated ones. covered: by an aggregation; served: at each of its steps."""
        if was is None and one.weight < REPEATED and not (self._has_room() and (covered or self._joins(one))):
            self._new[kind] = one
            if len(self._new) > self._options.capacity:
                self._new.popitem(last=False)
            return
        if not served and (was is None or was.step_ms != one.step_ms):
            self._changes += 1
        if not self._has_room():
            del self._repeated[min(self._repeated, key=lambda k: self._decayed(self._repeated[k], one.last_ms))]
        self._repeated[kind] = one

    def _has_room(self) -> bool:
        return len(self._repeated) < self._options.capacity

    def _joins(self, one: Tracked) -> bool:
        """Whether a repeated one is of its family."""
        return any(one.family == other.family for other in self._repeated.values())

    def _decayed(self, one: Tracked, now_ms: int) -> float:
        return one.weight * float(0.5 ** (max(0, now_ms - one.last_ms) / self._options.half_life_ms))

    def _demand(self, one: Tracked, now_ms: int) -> Demand:
        age_ms = max(self._options.window_ms, min(now_ms - one.first_ms, self._options.half_life_ms / math.log(2)))
        asking = Asking(self._decayed(one, now_ms) * HOUR_MS / age_ms, min(one.spans_ms), origin="queries")
        return Demand((Member(one.step_ms, one.requirement),), asking)


def _on_panes(times: I64, width_ms: int | None) -> bool:
    return width_ms is not None and bool((times % width_ms == 0).all())


def kind_of(need: Requirement) -> Kind:
    """Equal for requirements that are counted as one."""
    node, normal = need.node, need.normal
    filters = tuple((m.name, m.op, "" if m.op in (EQUAL, MATCHES) else m.value) for m in normal.matchers)
    return normal.text, need.lookback_ms, node.op, node.without, node.labels, filters


def family_of(need: Requirement, step_ms: int, scrape_ms: int) -> Kind:
    """Equal for what is one query at different zooms; its kind where its range follows none."""
    kind, text = kind_of(need), without_zoom(need.normal.expr, step_ms, scrape_ms)
    return kind if text is None else ("zoomed", text, *kind[1:])
