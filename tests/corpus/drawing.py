"""Series for one expression: what its selectors select, so that groups have several members and matches partners."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from random import Random

import numpy as np

from precompute.evaluate.expr import Expr, Matcher, Selector, walk
from precompute.samples import F64, STALE
from tests.corpus.needs import Alone, LabelSet, Need, key_labels, named_labels, needs
from tests.corpus.patterns import FREE, accepted, candidates, metrics, texts
from tests.corpus.values import bucket_values, counter_values, gauge_values, time_values

Pairs = tuple[tuple[str, str], ...]
Series = dict[Pairs, F64]
"""Values at equal distances in time; a series that ends early has fewer, the last of which is a staleness marker."""

SAMPLES = 121
INTERVAL_S = 15
ENTITIES = FREE
"""Things of which each selector finds one series."""

_GROUPS = 3
"""Values of a label that nothing is matched by."""

_DECOYS = 2
_BOUNDS = ("0.1", "0.5", "1", "2.5", "10", "+Inf")
_ENDING = 0.05
_SCALES = 64
_OWN = "replica"
"""A label that no expression speaks of: it makes members of a group out of what would be one series."""


def draw(expr: Expr, random: Random, at_s: float) -> Series:
    """The series; `at_s` is about when the expression will be asked, in seconds since the epoch."""
    wanted = needs(expr)
    things = _Things(expr, random)
    made: dict[Pairs, tuple[Need, int]] = {}
    for need in wanted:
        _add(made, need, things, all(other.absent for other in wanted if _same_metric(other, need)))
    kept = _matchable(list(made), wanted)
    return _values({pairs: made[pairs] for pairs in kept}, _bounds(expr), random, at_s)


def _same_metric(a: Need, b: Need) -> bool:
    return bool(set(metrics(a.selector)) & set(metrics(b.selector)))


class _Things:
    """Label names and values of the things that an expression speaks of."""

    def __init__(self, expr: Expr, random: Random) -> None:
        self.named, keys = named_labels(expr), key_labels(expr)
        by_name: defaultdict[str, list[Matcher]] = defaultdict(list)
        for node in walk(expr):
            for matcher in node.matchers if isinstance(node, Selector) else ():
                by_name[matcher.name].append(matcher)
        self._pools = {name: candidates(name, by_name[name]) for name in {*self.named, _OWN}}
        self._common = {name: set(accepted(by_name[name], pool)) for name, pool in self._pools.items()}
        self._places = {
            name: list(range(ENTITIES)) if name in keys else [random.randrange(_GROUPS) for _ in range(ENTITIES)]
            for name in sorted(self._pools)
        }
        self._places[_OWN] = list(range(ENTITIES))

    def of(self, need: Need, metric: str, entity: int) -> dict[str, str] | None:
        """A series that the selector finds; None where none can be."""
        own = [m for m in need.selector.matchers if m.name != "__name__"]
        names = self.named | {_OWN} if need.exact is None else need.exact | {m.name for m in own}
        labels = {"__name__": metric}
        for name in sorted(names - {"le", "__name__"}):
            value = self._value(name, entity, [m for m in own if m.name == name])
            if value is None:
                return None
            labels[name] = value
        return {name: value for name, value in labels.items() if value}

    def _value(self, name: str, entity: int, own: list[Matcher]) -> str | None:
        pool = self._pools.get(name) or candidates(name, [])
        fits = accepted(own, pool)
        best = [value for value in fits if value in self._common.get(name, ())] or fits
        if not best:
            return "" if accepted(own, [""]) else None
        places = self._places.get(name) or list(range(ENTITIES))
        return best[places[entity] % len(best)]

    def decoy(self, need: Need, labels: Mapping[str, str], number: int) -> dict[str, str] | None:
        """The same series with one label that the selector refuses."""
        matched = [m for m in need.selector.matchers if m.name not in ("__name__", "le")]
        if not matched:
            return None
        matcher = matched[number % len(matched)]
        pool = [*self._pools[matcher.name], "other"]
        refused = [value for value in pool if not accepted([matcher], [value])]
        return {**labels, matcher.name: refused[number % len(refused)]} if refused else None


def _add(made: dict[Pairs, tuple[Need, int]], need: Need, things: _Things, nothing: bool) -> None:
    """The series of one selector; with `nothing` only those beside it."""
    names = metrics(need.selector)
    for entity in range(1 if need.half else 0, ENTITIES, 2 if need.half else 1):
        found = things.of(need, names[entity % len(names)], entity)
        if found is None:
            return
        if not (need.absent and nothing):
            made.setdefault(_pairs(found), (need, entity))
        if entity < _DECOYS and (beside := things.decoy(need, found, entity)):
            made.setdefault(_pairs(beside), (need, entity))


def _pairs(labels: Mapping[str, str]) -> Pairs:
    return tuple(sorted(labels.items()))


def _matchable(series: list[Pairs], wanted: list[Need]) -> list[Pairs]:
    """Without those that would have two partners where a match allows one."""
    for need in wanted:
        for rule in need.alone:
            series = list(_without_doubles(series, need, rule))
    return series


def _without_doubles(series: list[Pairs], need: Need, rule: Alone) -> Iterator[Pairs]:
    shown: dict[Pairs, Pairs] = {}
    for pairs in series:
        labels = dict(pairs)
        if not all(accepted([m], [labels.get(m.name, "")]) for m in need.selector.matchers if m.name != "le"):
            yield pairs
            continue
        key, rest = rule.key.of(labels), (rule.shown or LabelSet()).of(labels)
        if shown.setdefault(key, rest) == rest:
            yield pairs


def _bounds(expr: Expr) -> list[str]:
    """Upper bounds of buckets: the usual ones and those that the expression names."""
    matchers = [m for node in walk(expr) if isinstance(node, Selector) for m in node.matchers if m.name == "le"]
    named = {text for m in matchers for text in texts(m) if _is_number(text)}
    return sorted({*_BOUNDS, *named}, key=float)


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _values(made: Mapping[Pairs, tuple[Need, int]], bounds: list[str], random: Random, at_s: float) -> Series:
    out: Series = {}
    for pairs, (need, entity) in made.items():
        rng = np.random.default_rng(random.randrange(1 << 32))
        scale = 1 + entity / _SCALES if need.ranked else 1.0
        if _is_bucketed(pairs, need):
            for bound, column in zip(bounds, scale * bucket_values(rng, len(bounds), SAMPLES), strict=True):
                out[_pairs({**dict(pairs), "le": bound})] = column
        else:
            values = scale * _column(rng, dict(pairs)["__name__"], need, entity, at_s)
            out[pairs] = _ended(random, values) if entity > ENTITIES // 2 else values
    return out


def _column(rng: np.random.Generator, metric: str, need: Need, entity: int, at_s: float) -> F64:
    match need.kind:
        case "counter":
            return counter_values(rng, need.near, entity, SAMPLES, INTERVAL_S)
        case "time":
            return time_values(need.near, entity, SAMPLES, at_s)
    return gauge_values(rng, need.near, entity, SAMPLES, metric)


def _is_bucketed(pairs: Pairs, need: Need) -> bool:
    matched = any(m.name == "le" for m in need.selector.matchers)
    return need.bucketed or matched or dict(pairs)["__name__"].endswith("_bucket")


def _ended(random: Random, values: F64) -> F64:
    """Now and then a series that ends."""
    if random.random() >= _ENDING:
        return values
    end = random.randrange(2, len(values))
    return np.append(values[:end], STALE)
