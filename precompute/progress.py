"""What a node must remember beside its log: how far time is settled, and where samples are missing.

    floor    samples at or before it are refused
    final    panes ending at or before it never change; always <= floor
    base     the log holds every accepted sample after it; panes whose reach begins earlier are gaps
    alive    when the node last listened
    entries  the first and the last one that the log must hold: what is not there was lost
    holes    intervals in which samples are known to be missing

The rules are pure functions from one Progress to the next. Who calls them holds the node's write lock, and
saves what they return before acting on it (`ProgressFile.save`), so that a crash never finds a lower floor,
final or base than was acted upon. A pane is final in three steps, in this order: `raise_floor`; summarise every
dirty pane up to that floor; `settle` at that floor, if all were clean. Finality judged in any other order can
miss a sample that was let in meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from precompute.log.base import Hole

Constant = int | str

MAX_HOLES = 1000
"""More holes than this are made fewer by joining neighbours."""

FURTHEST_AHEAD_MS = 2 * 86_400_000
"""No upstream holds samples further ahead: Prometheus takes them up to 10 minutes, VictoriaMetrics up to 2 days."""


@dataclass(frozen=True)
class Progress:
    """See the module's text. All times in milliseconds since the epoch."""

    floor_ms: int
    final_ms: int
    base_ms: int
    alive_ms: int
    holes: tuple[Hole, ...] = ()
    histogram_metrics: frozenset[str] = frozenset()
    """Metrics that also arrived as native histograms, which the head does not hold."""
    partial_metrics: frozenset[str] = frozenset()
    """Metrics some series of which were refused; kept only where an upstream has them."""
    received_since: Mapping[str, int] = field(default_factory=dict)
    """By metric the time of its first sample here; kept only where an upstream has what came before."""
    refused_until_ms: int = 0
    """Without an upstream: samples up to this time may have been refused, for which there is no hole."""
    first_entry: int = 0
    """The log's first entry once what lies at or before `base_ms` has left it; 0 where none was noted, as below."""
    last_entry: int = 0
    """The newest entry that was synced; those after it may be there, too."""
    fixed: Mapping[str, Constant] | None = None
    """Settings under which the data was written."""


def first_start(now_ms: int, acceptance_ms: int, has_upstream: bool) -> Progress:
    """A new install. Without an upstream nothing exists that the log does not have, so it is complete since 0."""
    floor_ms = now_ms - acceptance_ms
    base_ms = now_ms if has_upstream else 0
    return Progress(floor_ms, floor_ms, base_ms, now_ms)


def after_loss(now_ms: int, acceptance_ms: int) -> Progress:
    """An install whose progress was lost, with or without its log: complete only from now on.

    The entries that are left are still read, but no answer may rest on there being no others.
    """
    return first_start(now_ms, acceptance_ms, has_upstream=True)


def restarted(progress: Progress, now_ms: int, lateness_ms: int) -> Progress:
    """After a stop. One longer than the allowed lateness leaves a hole: nobody was listening.

    A clock that went back by more than that says nothing about how long the stop was: then anything since the floor
    may be missing.
    """
    stopped_ms = now_ms - progress.alive_ms
    if stopped_ms > lateness_ms:
        progress = add_hole(progress, Hole(progress.alive_ms, now_ms))
    elif stopped_ms < -lateness_ms:
        progress = add_hole(progress, Hole(min(progress.floor_ms, now_ms), progress.alive_ms))
    return replace(progress, alive_ms=now_ms)


def beside_upstream(progress: Progress) -> Progress:
    """With an upstream from now on, which may have what was refused while there was none."""
    return replace(add_hole(progress, Hole(0, progress.refused_until_ms)), refused_until_ms=0)


def raise_floor(progress: Progress, now_ms: int, acceptance_ms: int, clock_trusted: bool) -> Progress:
    """The floor follows the clock and never goes down, also when the acceptance age has grown."""
    if not clock_trusted:
        return progress
    return replace(progress, floor_ms=max(progress.floor_ms, now_ms - acceptance_ms))


def settle(progress: Progress, clean_to_ms: int) -> Progress:
    """Panes up to `clean_to_ms` are final: it was the floor before they were looked at, and all were clean."""
    if clean_to_ms > progress.floor_ms:
        raise ValueError(f"cannot settle {clean_to_ms}, past the floor {progress.floor_ms}")
    return replace(progress, final_ms=max(progress.final_ms, clean_to_ms))


def trimmed(progress: Progress, before_ms: int) -> Progress:
    """Samples at or before `before_ms` may leave log and head; saved before they do."""
    return replace(progress, base_ms=max(progress.base_ms, before_ms))


def add_hole(progress: Progress, hole: Hole) -> Progress:
    """With one more hole, joined with those of the same metric that it meets."""
    return add_holes(progress, (hole,))


def add_holes(progress: Progress, more: Iterable[Hole]) -> Progress:
    """With more holes, each joined with those of the same metric that it meets."""
    some = [hole for hole in more if hole.after_ms < hole.until_ms]
    if not some:
        return progress
    holes = _joined(sorted((*progress.holes, *some), key=_by_metric))
    return replace(progress, holes=holes if len(holes) <= MAX_HOLES else _fewer(holes))


def cut_holes(progress: Progress, now_ms: int, max_future_ms: int) -> Progress:
    """Without what reaches further ahead than samples of an upstream: only an earlier version noted that.

    Such a hole ends where samples do that are taken now.
    """
    furthest_ms, until_ms = now_ms + FURTHEST_AHEAD_MS, now_ms + max_future_ms
    cut = (replace(h, until_ms=min(h.until_ms, until_ms)) if h.until_ms > furthest_ms else h for h in progress.holes)
    return replace(progress, holes=tuple(hole for hole in cut if hole.after_ms < hole.until_ms))


def prune_holes(progress: Progress, before_ms: int) -> Progress:
    """Without the holes that lie at or before `before_ms`."""
    return replace(progress, holes=tuple(hole for hole in progress.holes if hole.until_ms > before_ms))


def _by_metric(hole: Hole) -> tuple[str, int, int]:
    return hole.metric, hole.after_ms, hole.until_ms


def _joined(ordered: list[Hole]) -> tuple[Hole, ...]:
    joined: list[Hole] = []
    for hole in ordered:
        last = joined[-1] if joined else None
        if last and last.metric == hole.metric and hole.after_ms <= last.until_ms:
            joined[-1] = replace(last, until_ms=max(last.until_ms, hole.until_ms))
        else:
            joined.append(hole)
    return tuple(joined)


def _fewer(holes: tuple[Hole, ...]) -> tuple[Hole, ...]:
    """Half as many holes or fewer that cover the same and more: of all metrics, joined over the smallest distances."""
    every = _joined(sorted((Hole(hole.after_ms, hole.until_ms) for hole in holes), key=_by_metric))
    distances = sorted(after.after_ms - before.until_ms for before, after in pairwise(every))
    if len(every) <= MAX_HOLES // 2:
        return every
    near_ms = distances[len(every) - MAX_HOLES // 2 - 1]
    stretched = [Hole(hole.after_ms, hole.until_ms + near_ms) for hole in every]
    ends = {hole.until_ms + near_ms: hole.until_ms for hole in every}
    return tuple(replace(hole, until_ms=ends[hole.until_ms]) for hole in _joined(stretched))
