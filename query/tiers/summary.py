"""The summary tier: panes read, filtered, grouped and estimated, pane by pane where they are provably right."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from precompute.aggregations import Aggregation, labels_of
from precompute.catalog import Coverage
from precompute.engines.base import Panes
from precompute.evaluate.expr import Matcher
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Frame, Vector
from precompute.labels import METRIC_NAME, Labels
from precompute.matchers import Condition
from precompute.normal import Normal
from precompute.progress import Progress
from precompute.runs import SymbolTable
from precompute.samples import F64, I32, I64, Bool
from precompute.stores.base import StoreError
from precompute.summaries import FAILED, GroupKey, Summary, only, regroup, select

logger = logging.getLogger(__name__)

_REMEMBERED, _REMEMBERED_KEYS = 128, 5_000
"""How many regroupings of key tables are kept, and the most keys of one: some 200 MB at the very most."""


@dataclass(frozen=True)
class Steps:
    """A query's steps, int64[s], what `@ start()` and `@ end()` mean in it, and the steps' distance (0: one time)."""

    times: I64
    start_ms: int
    end_ms: int
    step_ms: int = 0

    def at(self, times: I64) -> "Steps":
        """Some of the steps, of the same query."""
        return replace(self, times=times)


class SummaryTier:
    """Answers covered aggregation operators from kept summaries."""

    def __init__(self, panes: Panes, progress: Callable[[], Progress], has_upstream: bool) -> None:
        """has_upstream: it could do better where samples are missing; without one they are served with a warning."""
        self._panes, self._progress, self._has_upstream = panes, progress, has_upstream

    def servable(self, coverage: Coverage, steps: Steps) -> tuple[Bool, str]:
        """At which steps the pane is there and right, bool[s]; and why not at the first one where it is not."""
        aggregation, times = coverage.aggregation, pane_times(coverage, steps)
        on_grid = times % aggregation.width_ms == 0
        ends = np.where(on_grid, times, 0)
        sealed = ends <= self._panes.sealed_ms()
        clean = ~self._panes.dirty(aggregation, ends)
        whole = self._received(aggregation, ends) if self._has_upstream else np.ones(len(ends), np.bool_)
        good = on_grid & sealed & clean & whole
        if good.all():
            return good, ""
        first = int(np.flatnonzero(~good)[0])
        why = (
            f"off the pane grid by {times[first] % aggregation.width_ms / 1000:g} s" if not on_grid[first]
            else "not sealed yet" if not sealed[first]
            else self._panes.why_dirty(aggregation, int(ends[first])) if not clean[first]
            else "samples of it are known to be missing"
        )  # fmt: skip
        return good, f"pane {clock_text(int(times[first]))} {why}"

    def read(self, coverage: Coverage, steps: Steps, budget: Budget) -> tuple[Vector, Bool]:
        """The operator's value at servable steps, and at which of them it holds its bound, bool[s].

        A pane that turns out to be gone or failed, and one with a group whose estimate is not covered, is
        false there. Raises LimitExceeded before a matrix of groups × panes grows past the budget.
        """
        aggregation, times = coverage.aggregation, pane_times(coverage, steps)
        try:
            summary = self._panes.store.get(aggregation.id, int(times.min()) - 1, int(times.max()))
        except StoreError as error:
            logger.error("summaries of %s cannot be read: %s", aggregation.id, error)
            return _nothing(len(times)), np.zeros(len(times), np.bool_)
        pane = np.searchsorted(summary.ends_ms, times)
        there = pane < summary.panes
        pane[~there] = 0
        if not there.any():
            return _nothing(len(times)), there
        there &= (summary.ends_ms[pane] == times) & ((summary.flags[pane] & FAILED) == 0)
        asked, pane[there] = np.unique(pane[there], return_inverse=True)
        pane[~there] = 0
        if not len(asked):
            return _nothing(len(times)), there
        return self._estimate(coverage, select(summary, asked), pane, there, budget)

    def touches_hole(self, coverage: Coverage, steps: Steps) -> bool:
        """Whether samples of one of these panes are known to be missing."""
        return bool(self._in_hole(coverage.aggregation, pane_times(coverage, steps)).any())

    def _received(self, aggregation: Aggregation, ends: I64) -> Bool:
        """Whether all samples that the panes look at came here, as far as is known."""
        received_since = self._progress().received_since
        if not set(aggregation.metrics) <= set(received_since):
            return np.zeros(len(ends), np.bool_)
        since_ms = max(received_since[metric] for metric in aggregation.metrics)
        return ~self._in_hole(aggregation, ends) & (ends - aggregation.reach_ms >= since_ms - 1)

    def _in_hole(self, aggregation: Aggregation, ends: I64) -> Bool:
        touched = np.zeros(len(ends), np.bool_)
        for hole in self._progress().holes:
            if hole.metric in ("", *aggregation.metrics):
                touched |= (ends > hole.after_ms) & (ends - aggregation.reach_ms < hole.until_ms)
        return touched

    def _estimate(
        self, coverage: Coverage, summary: Summary, pane: I64, there: Bool, budget: Budget
    ) -> tuple[Vector, Bool]:
        node = coverage.requirement.node
        statistic = coverage.statistic
        regrouped = _new_groups if len(summary.keys) <= _REMEMBERED_KEYS else _new_groups.__wrapped__
        into, keys, frame = regrouped(
            coverage.aggregation.labels, coverage.aggregation.without, coverage.filters, node.labels, node.without,
            summary.keys,
        )  # fmt: skip
        budget.cells(len(keys), summary.panes)
        grouped = regroup(only(summary, statistic.needs), into, keys)
        budget.merged(summary.panes, summary.rows)
        phi = getattr(node.parameter, "value", 0.0)
        rows = grouped.pane_of_row()
        values, present = np.zeros((len(keys), summary.panes)), np.zeros((len(keys), summary.panes), np.bool_)
        values[grouped.group, rows] = statistic.estimate(grouped.states, phi)
        present[grouped.group, rows] = True
        uncovered = np.zeros(summary.panes, np.bool_)
        uncovered[rows[~statistic.covered(grouped.states)]] = True
        return _at_steps(frame, values, present, pane, there), there & ~uncovered[pane]


def pane_times(coverage: Coverage, steps: Steps) -> I64:
    """The pane end that each step reads, int64[s]."""
    return times_read(coverage.requirement.normal, steps)


def times_read(normal: Normal, steps: Steps) -> I64:
    """The time at which each step reads an expression's value, int64[s]."""
    if normal.at is None:
        return steps.times - normal.offset_ms
    fixed = {"start": steps.start_ms, "end": steps.end_ms}.get(normal.at) if isinstance(normal.at, str) else normal.at
    assert fixed is not None
    return np.full(len(steps.times), fixed - normal.offset_ms, np.int64)


def clock_text(t_ms: int) -> str:
    """A time of day, UTC: 12:00:15."""
    seconds, ms = divmod(t_ms, 1000)
    text = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{ms:03}" if ms else text


@lru_cache(_REMEMBERED)
def _new_groups(
    kept: tuple[str, ...], kept_without: bool, filters: tuple[Matcher, ...], wanted: tuple[str, ...], without: bool,
    keys: tuple[GroupKey, ...],
) -> tuple[I32, tuple[Labels, ...], Frame]:  # fmt: skip
    """Per kept group the group of the answer that takes it, -1 where a filter leaves it out; and the new keys, twice.

    kept, kept_without: the aggregation's grouping; wanted, without: the answer's. Remembered, since the same groups
    come pane after pane; so callers change nothing of it.
    """
    conditions = [Condition(f) for f in filters]
    targets: list[Labels | None] = []
    for key in keys:
        labels = labels_of(key, kept, kept_without)
        if not all(c.accepts(labels.get(c.matcher.name, "")) for c in conditions):
            targets.append(None)
        else:
            targets.append(_answer_key(labels, wanted, without))
    names = tuple(sorted({name for target in targets if target for name, _ in target}))
    texts = {t: tuple(dict(t).get(name, "") for name in names) for t in targets if t is not None}
    new = tuple(sorted(texts, key=texts.__getitem__))  # as Frame.key_order has it: of equal values topk takes the first
    place = {key: i for i, key in enumerate(new)}
    return np.array([-1 if t is None else place[t] for t in targets], np.int32), new, _frame(names, new, texts)


def _answer_key(labels: Mapping[str, str], wanted: tuple[str, ...], without: bool) -> Labels:
    kept = {n: v for n, v in labels.items() if v and (n in wanted) != without and n != METRIC_NAME}
    return tuple(sorted(kept.items()))


def _frame(names: tuple[str, ...], keys: Sequence[Labels], texts: Mapping[Labels, tuple[str, ...]]) -> Frame:
    symbols = SymbolTable()
    rows = [list(map(symbols.intern, texts[key])) for key in keys]
    return Frame(names, np.array(rows, np.int32).reshape(len(keys), len(names)), symbols)


def _at_steps(frame: Frame, values: F64, present: Bool, pane: I64, there: Bool) -> Vector:
    shown = present[:, pane] & there
    return Vector(frame, np.ascontiguousarray(values[:, pane]), shown, np.zeros(len(frame), np.int32)).seen()


def _nothing(steps: int) -> Vector:
    frame = Frame((), np.zeros((0, 0), np.int32), SymbolTable())
    return Vector(frame, np.zeros((0, steps)), np.zeros((0, steps), np.bool_), np.zeros(0, np.int32))
