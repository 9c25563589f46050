"""Demands that one aggregation can serve, put together.

Of one normal form, lookback and grouping mode, queries differ in grouping, filters, operators and parameters. What is
kept for all of them groups by every label that one of them groups or filters by. Where the groups of that are more than
those of several aggregations with fewer labels, there are several.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from precompute.evaluate.expr import EQUAL, MATCHES, Matcher
from precompute.evaluate.values import OF_THE_METRIC
from precompute.matchers import accepts_everything
from precompute.planner.cardinality import Shape
from precompute.planner.demand import Demand

Labels = frozenset[str]

PER_SERIES = "a copy of each series is no summary"
BY_NAME = "grouping by the metric name"
NOT_SMALLER = "it would keep about as many groups as there are series"


@dataclass(frozen=True)
class Wanted:
    """A demand, and the labels that must be told apart for it; those left out where the grouping is `without`."""

    demand: Demand
    labels: Labels


@dataclass(frozen=True)
class Cluster:
    """Demands that share what is kept."""

    wanted: tuple[Wanted, ...]
    labels: Labels
    without: bool
    fixed: tuple[Matcher, ...]
    """Matchers that all demands have and that stay in the expression."""
    groups: int | None
    """None where it is not known."""


@dataclass(frozen=True)
class Refused:
    """Demands that nothing is kept for, why, and the figures behind it."""

    demands: tuple[Demand, ...]
    why: str
    detail: str = ""


def families(demands: Iterable[Demand]) -> list[list[Demand]]:
    """Demands by normal form, lookback and grouping mode, in order of their texts.

    What a grouping `without` leaves out can be no filter of its groups. Filters of that stay in the expression, if
    they look like no variable's, and only demands that share them are alike.
    """
    found = defaultdict[tuple[str, int, bool, tuple[Matcher, ...]], list[Demand]](list)
    for demand in demands:
        need = demand.finest
        left_out = [m for m in _filters(demand) if need.node.without and m.name in need.node.labels]
        held = tuple(m for m in left_out if not _looks_filled_in(m))
        found[need.normal.text, need.lookback_ms, need.node.without, held].append(demand)
    return [found[key] for key in sorted(found)]


def _looks_filled_in(matcher: Matcher) -> bool:
    """Whether a dashboard's variable may stand in it: those filter with = and =~, while `image!=""` is written so."""
    return matcher.op in (EQUAL, MATCHES)


def fixed_matchers(family: Sequence[Demand]) -> tuple[Matcher, ...]:
    """What stays in the expression: matchers that all demands have, on labels that nothing else needs. Those that a
    variable may stand in are left to the groups, since queries of tomorrow have other values there."""
    common = set(family[0].finest.normal.matchers)
    for demand in family:
        common &= set(demand.finest.normal.matchers)
    needed = set[str]()
    for demand in family:
        node = demand.finest.node
        needed |= set() if node.without else set(node.labels)
        needed |= {m.name for m in _filters(demand) if m not in common or _looks_filled_in(m)}
    fixed = tuple(sorted(m for m in common if not _looks_filled_in(m) and m.name not in needed))
    return fixed if len({str(demand.finest.normal.but(fixed)) for demand in family}) == 1 else ()


def _filters(demand: Demand) -> list[Matcher]:
    return [m for m in demand.finest.normal.matchers if not accepts_everything(m)]


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of an expression, and how many groups of them are worth keeping.

    shape           None where it was not measured
    labels          all labels that they are said to have; None where nothing is said
    largest_share   groups for each series, from which on nothing is gained
    """

    shape: Shape | None
    labels: Labels | None
    largest_share: float

    def groups(self, labels: Labels, without: bool) -> int | None:
        return None if self.shape is None else self.shape.groups(tuple(sorted(labels)), without)

    def worth(self, groups: float | None) -> bool:
        """Whether so many groups are few enough; what is not known is."""
        return self.shape is None or groups is None or groups <= self.largest_share * self.shape.series


def clusters(family: Sequence[Demand], fixed: tuple[Matcher, ...], rows: Rows) -> Iterator[Cluster | Refused]:
    """A family put together as far as that keeps no more groups."""
    without = family[0].finest.node.without
    by_labels = defaultdict[Labels, list[Demand]](list)
    for demand in family:
        by_labels[_labels(demand, fixed)].append(demand)
    found: list[Cluster] = []
    for labels, demands in sorted(by_labels.items(), key=lambda item: (-len(item[0]), sorted(item[0]))):
        groups = rows.groups(labels, without)
        if why := _why_not(labels, without, rows.labels):
            yield Refused(tuple(demands), why)
        elif rows.shape is not None and not rows.worth(groups):
            yield Refused(tuple(demands), NOT_SMALLER, f"{groups} groups of {rows.shape.series} series")
        else:
            _take_in(found, Cluster(tuple(Wanted(d, labels) for d in demands), labels, without, fixed, groups), rows)
    yield from found


def _labels(demand: Demand, fixed: tuple[Matcher, ...]) -> Labels:
    node = demand.finest.node
    filtered = {m.name for m in _filters(demand) if m not in fixed}
    return frozenset(node.labels) - filtered if node.without else frozenset(node.labels) | filtered


def _why_not(labels: Labels, without: bool, all_labels: Labels | None) -> str:
    """Why groups by these labels, or without them, of rows that have `all_labels` are nothing to keep."""
    if not without and labels & set(OF_THE_METRIC):
        return BY_NAME
    left_out = labels - set(OF_THE_METRIC) if without else None
    if all_labels is not None:
        left_out = all_labels & labels if without else all_labels - labels
    return PER_SERIES if left_out is not None and not left_out else ""


def _take_in(found: list[Cluster], own: Cluster, rows: Rows) -> None:
    """Join the one that grows least by it, if together they keep no more groups than apart; else stand alone."""
    best: tuple[float, int, Cluster] | None = None
    for place, other in enumerate(found):
        joined = _joined(other, own, rows)
        if joined is None:
            continue
        growth = _size(joined) - _size(other)
        if rows.worth(joined.groups) and growth <= _size(own) and (best is None or growth < best[0]):
            best = growth, place, joined
    if best is None:
        found.append(own)
    else:
        found[best[1]] = best[2]


def _joined(a: Cluster, b: Cluster, rows: Rows) -> Cluster | None:
    """Both in one; None where that would be a copy of each series."""
    labels = a.labels & b.labels if a.without else a.labels | b.labels
    if _why_not(labels, a.without, rows.labels):
        return None
    known = next((one.groups for one in (a, b) if one.labels == labels), None)
    known = rows.groups(labels, a.without) if known is None else known
    return Cluster(a.wanted + b.wanted, labels, a.without, a.fixed, known)


def _size(cluster: Cluster) -> float:
    return 0.0 if cluster.groups is None else cluster.groups


def width_ms(steps_ms: Iterable[int], window_ms: int) -> int:
    """The widest pane that has an end at each of the steps at which the default one has; 0: a step at any time."""
    return math.gcd(*(step if step and step % window_ms == 0 else window_ms for step in steps_ms))
