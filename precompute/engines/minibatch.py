"""The mini-batch engine of one node: sealed, dirty panes in, summaries out, pane by pane.

The order of one tick (the rules and why: docs/architecture.md, "Floor and final"):

    raise the floor  →  summarise dirty panes  →  final = floor, if all up to it are clean  →  trim

No sample at or before the floor is accepted, and the head holds every sample accepted before it was raised, so
a pane that is clean after that can never change.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from precompute.aggregations import Aggregation
from precompute.clock import Clock
from precompute.engines.base import Ground, Health, PrecomputeSink
from precompute.evaluate.context import Source
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.shared_source import SharedSource, readings
from precompute.log.base import Hole
from precompute.pane_book import PaneBook
from precompute.panes import ends_between, last_end
from precompute.samples import I64, Bool
from precompute.stores.base import SummaryStore
from precompute.summaries import HOLE, Summary
from precompute.summarise import summarise
from precompute.touched import Touched

logger = logging.getLogger(__name__)

_CELLS = 1 << 21
"""Series × panes of one batch: bounds its memory and how long a deadline may be overrun."""
_MOST_PANES = 240
_LARGEST_MATRIX = 1 << 31
"""Bytes of the largest matrix of a single pane's evaluation; a pane that takes more is marked failed."""
_REMAINS_MS = 3_600_000
"""How long the final panes of an aggregation that is no longer kept stay, in case it comes back."""
_BEGINNING_MS, _EVER_MS = -(1 << 62), 1 << 62


Summarise = Callable[[Sequence[Aggregation], I64, int, Source, Budget], list[Summary]]
"""As `summarise.summarise`."""


@dataclass(frozen=True)
class EngineLimits:
    """`kept_ms` is R, how far before `final` head and log keep samples; `tick_ms` the longest work of one tick."""

    acceptance_ms: int
    lateness_ms: int
    kept_ms: int
    max_reach_ms: int
    tick_ms: int


class MiniBatchEngine:
    """See the module's text.

    `aggregations` are those in force and `books` their panes, by id. `replace` puts others in their place; whoever
    reads one of them sees all of a change or none of it.
    """

    def __init__(
        self, intake: Ground, source: HeadSource, store: SummaryStore, aggregations: Sequence[Aggregation],
        limits: EngineLimits, clock: Clock, summarise: Summarise = summarise,
    ) -> None:  # fmt: skip
        """summarise: what makes the summaries: of all series, or of a shard's."""
        self.intake, self.source, self.store = intake, source, store
        self.aggregations, self.limits, self.clock = tuple(aggregations), limits, clock
        self._summarise = summarise
        self.books = {a.id: PaneBook(a.width_ms) for a in aggregations}
        self.switches, self.disowned = 0, 0
        self._switching = threading.Lock()  # held while panes are committed or let go, too
        self._remains: dict[str, int] = {}
        self.skipped, self.completed, self.committed, self.cpu_s = 0, 0, 0, 0.0
        self._running, self._stopping = threading.Lock(), False
        self._completed_ms: int | None = None
        self._behind = 0

    def load(self, wrong: Collection[str] = ()) -> None:
        """Take over the panes that the store holds, but for those of the ids `wrong`, which it lets go of; called once,
        before the first tick.

        An open pane that has seen more than the log ever held was made from another log, and is none of ours.
        """
        with self._switching:
            self.books = {a.id: self._stored(a) for a in self.aggregations}
            gone = set(self.store.aggregations()) - self.books.keys()
            self._remains = self._left_of(gone, wrong)

    def discard_stale(self) -> None:
        """Let go of final panes that lack a sample of the log; called once, after `load`.

        The store may have lost what replaced one, or `final` was lost and is another one now. What can be computed
        is made again.
        """
        with self._switching:
            for aggregation in self.aggregations:
                self._discard_dirty(aggregation, _BEGINNING_MS, self.intake.progress.final_ms)

    def _discard_dirty(self, aggregation: Aggregation, after_ms: int, until_ms: int) -> None:
        """Let go of the dirty panes with ends in `(after_ms, until_ms]`."""
        ends = self.book(aggregation).ends(after_ms, until_ms)
        dirty = ends[self.dirty(aggregation, ends)]
        if len(dirty):
            self.store.discard(aggregation.id, dirty)
            self.books[aggregation.id].drop(dirty)

    def replace(self, aggregations: Sequence[Aggregation], wrong: Collection[str] = ()) -> None:
        """Keep these from now on and no others; the next tick fills the new ones, as far back as the samples go.

        Of what goes, only panes that can no longer change are left in the store: nobody replaces the others. They
        are taken over if it comes back within the hour; of what is `wrong`, none is. Raises StoreError, and then all
        is as it was.
        """
        new = {a.id: a for a in aggregations}
        with self._switching:
            gone = self.books.keys() - new.keys()
            books = {name: self.books[name] if name in self.books else self._stored(a) for name, a in new.items()}
            left = {**self._remains, **self._left_of(gone, wrong)}
            self.books = books  # first: whoever plans with an aggregation finds its book
            self.aggregations = tuple(new.values())
            self._remains = {name: since_ms for name, since_ms in left.items() if name not in new}
            self.switches += 1
            self.disowned += any(name in wrong for name in gone)

    def _left_of(self, gone: Collection[str], wrong: Collection[str]) -> dict[str, int]:
        """Those of what is kept no longer that leave panes which can no longer change, and since when: now."""
        for name in gone:
            if name in wrong:
                self.store.drop(name, _EVER_MS)
            else:
                self._rewind(name)
        return {name: self._time_ms() for name in gone if name not in wrong}

    def _stored(self, aggregation: Aggregation) -> PaneBook:
        """The book of what the store holds; panes past their retention may be packed with later ones."""
        book = PaneBook(aggregation.width_ms)
        gone_ms = self._gone_ms(aggregation, self._time_ms())
        ends, seen, _ = self.store.seen(aggregation.id, gone_ms, self.clock.now_ms())
        ours = (ends <= self.intake.progress.final_ms) | (seen <= self.intake.applied)
        if ours.any():
            book.commit(ends[ours], seen[ours])
        return book

    def _rewind(self, aggregation_id: str) -> None:
        """Let go of the panes that late samples may still change."""
        final_ms = self.intake.progress.final_ms
        if aggregation_id in self.books:
            self.books[aggregation_id].rewind(final_ms)
        self.store.rewind(aggregation_id, final_ms)

    @property
    def touched(self) -> Touched:
        return self.intake.touched

    def book(self, aggregation: Aggregation) -> PaneBook:
        """The book of an aggregation; one without panes if it went while a query was under way."""
        return self.books.get(aggregation.id) or PaneBook(aggregation.width_ms)

    def run(self, sink: PrecomputeSink) -> None:
        """One tick; see the contract."""
        if not self._running.acquire(blocking=False):
            self.skipped += 1
            return
        try:
            if not self._stopping:
                self._tick(sink)
        finally:
            self._running.release()

    def shutdown(self) -> None:
        """Waits for the batch in hand; later ticks do nothing."""
        self._stopping = True
        with self._running:
            pass

    def health(self) -> Health:
        return Health(self._completed_ms, self._behind)

    def sealed_ms(self) -> int:
        """Panes that end at or before this time may be summarised."""
        return self._time_ms() - self.limits.lateness_ms

    def _time_ms(self) -> int:
        """Now; never later than samples were listened for: a clock that runs ahead lets go of nothing too early."""
        return min(self.intake.progress.alive_ms, self.clock.now_ms())

    def dirty(self, aggregation: Aggregation, ends_ms: I64) -> Bool:
        """Which of these panes have no summary, or one that lacks a sample; bool[p]."""
        newest = self.intake.touched.newest(ends_ms - aggregation.reach_ms, ends_ms)
        return self.book(aggregation).dirty(ends_ms, newest)

    def why_dirty(self, aggregation: Aggregation, end_ms: int) -> str:
        return "not summarised yet"

    def seen(self, aggregation: Aggregation, ends_ms: I64) -> I64:
        """Per pane end, int64[p], the newest log entry in its summary; `pane_book.NONE` where it has none."""
        return self.book(aggregation).seen(ends_ms)

    def newest_ms(self, aggregation: Aggregation) -> int | None:
        return self.book(aggregation).newest_ms()

    def ends(self, aggregation: Aggregation) -> I64:
        return self.book(aggregation).ends(_BEGINNING_MS, _EVER_MS)

    # -- one tick

    def _tick(self, sink: PrecomputeSink) -> None:
        deadline_s = self.clock.monotonic_s() + self.limits.tick_ms / 1000
        cpu_s = time.thread_time()
        entry, floor_ms = self.intake.begin(self.limits.acceptance_ms)
        for aggregations, ends, source in self._batches():
            if self._stopping or self.clock.monotonic_s() > deadline_s:
                break
            self._commit(aggregations, ends, entry, source, sink)
        self._behind = sum(len(self._waiting(a)) for a in self.aggregations)
        self._make_final(floor_ms)
        self._trim()
        self._completed_ms = self.clock.now_ms()
        self.completed += 1
        self.cpu_s += time.thread_time() - cpu_s

    def _batches(self) -> Iterator[tuple[list[Aggregation], I64, Source]]:
        """What is to be computed: everyone's newest panes, then the oldest; aggregations of one expression together."""
        families = defaultdict(list)
        for aggregation in self.aggregations:
            families[aggregation.expr, aggregation.width_ms, aggregation.lookback_ms].append(aggregation)
        size, work = self._panes_at_once(), [part for family in families.values() for part in self._work(family)]
        yield from self._sharing([(kept, ends[-size:]) for kept, ends in work])
        older = [(kept, ends[:-size]) for kept, ends in work]
        for first in range(0, max((len(ends) for _, ends in older), default=0), size):
            yield from self._sharing([(kept, ends[first : first + size]) for kept, ends in older if first < len(ends)])

    def _sharing(self, work: list[tuple[list[Aggregation], I64]]) -> Iterator[tuple[list[Aggregation], I64, Source]]:
        """The same, with a source that reads once what several of them look at."""
        expected = [
            reading for kept, ends in work for reading in readings(kept[0].expr, ends, kept[0].lookback_ms)
        ]
        source = SharedSource(self.source, expected)
        yield from ((kept, ends, source) for kept, ends in work)

    def _work(self, family: list[Aggregation]) -> list[tuple[list[Aggregation], I64]]:
        """What waits, in parts that wait for the same panes: a new aggregation waits for more than the others do."""
        waiting = [self._waiting(aggregation) for aggregation in family]
        ends = np.unique(np.concatenate(waiting))
        wanted, which = np.unique([np.isin(ends, one) for one in waiting], axis=1, return_inverse=True)
        return [
            ([a for a, wants in zip(family, column, strict=True) if wants], ends[which.ravel() == place])
            for place, column in enumerate(wanted.T)
        ]

    def _panes_at_once(self) -> int:
        series = self.intake.head.series_count()
        return int(max(1, min(_MOST_PANES, _CELLS // max(1, series))))

    def _waiting(self, aggregation: Aggregation) -> I64:
        """Ends of the aggregation's panes that are sealed and dirty and can be computed, ascending."""
        progress, reach_ms = self.intake.progress, aggregation.reach_ms
        oldest_ms = self.intake.oldest_ms()
        first_ms = progress.final_ms if oldest_ms is None else min(progress.final_ms, oldest_ms - 1)
        first_ms = max(first_ms, progress.base_ms + reach_ms - 1, self._time_ms() - aggregation.retention_ms)
        ends = np.array(ends_between(first_ms, self.sealed_ms(), aggregation.width_ms), np.int64)
        older = ends <= progress.final_ms
        missing = self.book(aggregation).seen(ends) < 0
        return ends[np.where(older, missing, self.dirty(aggregation, ends))]

    def _commit(
        self, aggregations: list[Aggregation], ends: I64, entry: int, source: Source, sink: PrecomputeSink
    ) -> None:
        limits = Limits(max_samples=1 << 62, max_matrix_bytes=_LARGEST_MATRIX)
        budget = Budget(limits, self.clock, timeout_ms=10 * self.limits.tick_ms, of_work=True)
        summaries = self._summarise(aggregations, ends, entry, source, budget)
        made = [(a.id, self._with_holes(a, s)) for a, s in zip(aggregations, summaries, strict=True)]
        with self._switching:
            output = [(name, summary) for name, summary in made if name in self.books]
            sink.send(output)
            for name, summary in output:
                self.books[name].commit(summary.ends_ms, summary.seen)
                self.committed += summary.panes

    def _with_holes(self, aggregation: Aggregation, summary: Summary) -> Summary:
        holes = self.intake.progress.holes
        for pane, end_ms in enumerate(summary.ends_ms.tolist()):
            after_ms = end_ms - aggregation.reach_ms
            if any(touches_hole(holes, after_ms, end_ms, metric) for metric in aggregation.metrics):
                summary.flags[pane] |= HOLE
        return summary

    def _make_final(self, floor_ms: int) -> None:
        with self._switching:
            for aggregation in self.aggregations:
                waiting = self._waiting(aggregation)
                if len(waiting) and waiting[0] <= floor_ms:
                    return
            for aggregation in self.aggregations:  # what is dirty and does not wait can never be computed
                self._discard_dirty(aggregation, self.intake.progress.final_ms, floor_ms)
            self.intake.settle(floor_ms)

    def _trim(self) -> None:
        """Let go of samples that no pane to come can need, and of summaries past their retention."""
        now_ms = self._time_ms()
        self.intake.trim(self.intake.progress.final_ms - self.limits.kept_ms)
        with self._switching:
            self._trim_summaries(now_ms)
        if not self._remains:  # whose panes a hole may touch however old it is
            self._forget_holes(now_ms)

    def _forget_holes(self, now_ms: int) -> None:
        """Of holes that nobody can look at. A pane past its retention counts while it is in the store: packed with
        later ones, it comes back with a longer retention."""
        longest_ms = max([a.retention_ms + a.reach_ms for a in self.aggregations] + [self.limits.kept_ms])
        before_ms = now_ms - longest_ms
        if any(hole.until_ms <= before_ms for hole in self.intake.progress.holes):
            oldest = [(a, self.store.ends(a.id, 0, self._gone_ms(a, now_ms))[:1]) for a in self.aggregations]
            looks = [int(end) - a.reach_ms for a, ends in oldest for end in ends]
            self.intake.forget_holes(min([before_ms, *looks]))

    def _gone_ms(self, aggregation: Aggregation, now_ms: int) -> int:
        """Panes that end then or earlier are past their retention."""
        return last_end(now_ms - aggregation.retention_ms, aggregation.width_ms)

    def _trim_summaries(self, now_ms: int) -> None:
        for aggregation in self.aggregations:
            gone_ms = self._gone_ms(aggregation, now_ms)
            self.store.drop(aggregation.id, gone_ms)
            self.books[aggregation.id].forget(gone_ms)
            self.store.seal(aggregation.id, self.intake.progress.final_ms)
        for name in [name for name, since_ms in self._remains.items() if now_ms - since_ms >= _REMAINS_MS]:
            self.store.drop(name, _EVER_MS)
            del self._remains[name]


def touches_hole(holes: Sequence[Hole], after_ms: int, until_ms: int, metric: str) -> bool:
    """Whether a look at `(after_ms, until_ms]` of a metric ("" for any) meets one of the holes."""
    return any(hole.touches(after_ms, until_ms, metric) for hole in holes)
