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


def clusters(
    family: Sequence[Demand], fixed: tuple[Matcher, ...], shape: Shape | None, largest_share: float
) -> Iterator[Cluster | Refused]:
    """A family put together as far as that keeps no more groups; shape: of what is kept, None where it is not known.

    largest_share: groups for each series, from which on nothing is gained.
    """
    without = family[0].finest.node.without
    by_labels = defaultdict[Labels, list[Demand]](list)
    for demand in family:
        by_labels[_labels(demand, fixed)].append(demand)
    found: list[Cluster] = []
    for labels, demands in sorted(by_labels.items(), key=lambda item: (-len(item[0]), sorted(item[0]))):
        groups = None if shape is None else shape.groups(tuple(sorted(labels)), without)
        if why := _why_not(labels, without):
            yield Refused(tuple(demands), why)
        elif shape is not None and groups is not None and groups > largest_share * shape.series:
            yield Refused(tuple(demands), NOT_SMALLER, f"{groups} groups of {shape.series} series")
        else:
            own = Cluster(tuple(Wanted(d, labels) for d in demands), labels, without, fixed, groups)
            _take_in(found, own, shape, largest_share)
    yield from found


def _labels(demand: Demand, fixed: tuple[Matcher, ...]) -> Labels:
    node = demand.finest.node
    filtered = {m.name for m in _filters(demand) if m not in fixed}
    return frozenset(node.labels) - filtered if node.without else frozenset(node.labels) | filtered


def _why_not(labels: Labels, without: bool) -> str:
    if without:
        return "" if labels - set(OF_THE_METRIC) else PER_SERIES
    return BY_NAME if labels & set(OF_THE_METRIC) else ""


def _take_in(found: list[Cluster], own: Cluster, shape: Shape | None, largest_share: float) -> None:
    """Join the one that grows least by it, if together they keep no more groups than apart; else stand alone."""
    best: tuple[float, int, Cluster] | None = None
    for place, other in enumerate(found):
        joined = _joined(other, own, shape)
        if joined is None:
            continue
        growth = _size(joined) - _size(other)
        fits = shape is None or _size(joined) <= largest_share * shape.series
        if fits and growth <= _size(own) and (best is None or growth < best[0]):
            best = growth, place, joined
    if best is None:
        found.append(own)
    else:
        found[best[1]] = best[2]


def _joined(a: Cluster, b: Cluster, shape: Shape | None) -> Cluster | None:
    """Both in one; None where that would be a copy of each series."""
    labels = a.labels & b.labels if a.without else a.labels | b.labels
    if _why_not(labels, a.without):
        return None
    known = next((one.groups for one in (a, b) if one.labels == labels), None)
    if shape is not None and known is None:
        known = shape.groups(tuple(sorted(labels)), a.without)
    return Cluster(a.wanted + b.wanted, labels, a.without, a.fixed, known)


def _size(cluster: Cluster) -> float:
    return 0.0 if cluster.groups is None else cluster.groups


def width_ms(steps_ms: Iterable[int], window_ms: int) -> int:
    """The widest pane that has an end at each of the steps at which the default one has; 0: a step at any time."""
    return math.gcd(*(step if step and step % window_ms == 0 else window_ms for step in steps_ms))
