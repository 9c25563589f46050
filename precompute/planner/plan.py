"""The planner: demands in, aggregations out, each with cost, saving and bound, each refusal with its reason.

    demands → families of one normal form → clusters that share their labels → candidates with costs
            → within the budget, best benefit first

What is not known is not weighed: without a measured cardinality everything that can be proved is kept.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from precompute.aggregations import LONGEST_RETENTION_MS, Aggregation
from precompute.catalog import Requirement
from precompute.evaluate.expr import duration_text
from precompute.normal import metrics, of_one_series
from precompute.partials import why_not_by_shard
from precompute.planner.cardinality import Cardinality, Shape
from precompute.planner.cost import FREE, HOUR_MS, Cost, evaluation_ns, keeping, reading_ns
from precompute.planner.demand import Demand, Member
from precompute.planner.finer import finer
from precompute.planner.merge import Cluster, Refused, Rows, clusters, families, fixed_matchers, width_ms
from precompute.sketches.registry import STATISTICS, best, fitted

NOT_BY_SHARD = "a cluster's workers, who have a shard's series each, cannot make it"
TOO_FAR = "it looks back further than engine.minibatch.max_reach"
FAILS = "it cannot be evaluated"
DEAR = "to read its groups costs more than to read the series that its queries select"
FAST_ENOUGH = "the head answers within the latency asked for, and keeping it costs more than it saves"
OVER_BUDGET = "the budget is used by what saves more"
TOO_ACCURATE = "no sketch is as accurate as that"

_NEGLIGIBLE_NS = 1e6
"""A query's time in summaries that is worth no thought."""
_IN_FORCE = 1.5
"""So many times as much must another save for its cost to take the place of what is in force: that has a history, which
is lost, and figures that change a little with every plan are no reason for that."""


@dataclass(frozen=True)
class PlannerSettings:
    """What the planner keeps to. None: no limit."""

    window_ms: int
    scrape_ms: int
    retention_ms: int
    """At least so long are summaries kept, and longer where queries look further back."""
    accuracy_sla: float = 0.99
    largest_share: float = 0.5
    """Groups for each series, from which on nothing is gained."""
    max_bytes: float | None = None
    max_cpu_share: float | None = None
    max_reach_ms: int | None = None
    quantile: str = "quantile"
    """The accumulator that quantiles are to come from, if it is as accurate as asked for."""
    by_shard: bool = False
    """Whether summaries are made shard by shard, as in a cluster: not every expression can be."""
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """All labels that metrics are said to have, by the metrics' names; what is measured says more."""

    def with_quantile(self, name: str) -> "PlannerSettings":
        return replace(self, quantile=name)

    def unlimited(self) -> "PlannerSettings":
        """The same with no limit of reach and budget."""
        return replace(self, max_bytes=None, max_cpu_share=None, max_reach_ms=None)


@dataclass(frozen=True)
class Weight:
    """What was measured of something to keep."""

    series: int
    """That one evaluation reads."""
    groups: int
    costs: tuple[Cost, ...]
    """Of each aggregation."""
    saved_share: float
    """Of a core that queries need no more; negative where the groups are dearer to read than the series."""

    @property
    def cost(self) -> Cost:
        return sum(self.costs, FREE)

    @property
    def benefit(self) -> float:
        """What is saved for what it costs."""
        return self.saved_share / max(self.cost.cpu_share, 1e-12)


@dataclass(frozen=True)
class Kept:
    """Aggregations that stand or fall together, the finest first."""

    aggregations: tuple[Aggregation, ...]
    demands: tuple[Demand, ...]
    weight: Weight | None
    """None where it is not known."""
    bound: str
    shorter: "Kept | None" = None
    """The same for queries that look no further back than `planner.retention`, where some do."""
    why_shorter: str = ""
    """Why it is not kept for as long as queries look back; empty if it is."""

    @property
    def cost(self) -> Cost:
        """As far as it is known."""
        return self.weight.cost if self.weight else FREE


@dataclass(frozen=True)
class Plan:
    """What to keep, best benefit first, and what not."""

    kept: tuple[Kept, ...]
    refused: tuple[Refused, ...]

    @property
    def aggregations(self) -> tuple[Aggregation, ...]:
        """All that is to be kept, without what a finer one beside it answers as well; of one that is wanted twice, the
        longest."""
        found = dict[str, Aggregation]()
        for kept in self.kept:
            for a in kept.aggregations:
                found[a.id] = max(a, found.get(a.id, a), key=lambda one: one.retention_ms)
        alike = defaultdict[str, list[Aggregation]](list)
        for aggregation in found.values():
            alike[aggregation.normal.text].append(aggregation)
        return tuple(a for a in found.values() if not any(finer(b, a) for b in alike[a.normal.text]))

    @property
    def cost(self) -> Cost:
        """Of all that is to be kept, as far as it is known."""
        return sum((one.cost for one in self.kept), FREE)

    @property
    def costs(self) -> dict[str, Cost]:
        """Of each aggregation, by its id, where it is known."""
        known = [(one.aggregations, one.weight.costs) for one in self.kept if one.weight]
        return {a.id: cost for several, costs in known for a, cost in zip(several, costs, strict=True)}


def plan(
    demands: Sequence[Demand], settings: PlannerSettings, cardinality: Cardinality, in_force: Set[str] = frozenset()
) -> Plan:
    """What to keep for these demands. in_force: ids of what is kept by now, which goes first if benefits are close."""
    candidates, refused = list[Kept](), list[Refused]()
    makeable = _makeable(demands, settings, refused)
    for family in families(_within_reach(makeable, settings, refused)):
        for found in _candidates(family, settings, cardinality):
            (candidates if isinstance(found, Kept) else refused).append(found)  # type: ignore[arg-type]
    candidates.sort(key=lambda one: (-_standing(one, in_force), one.aggregations[0].id))
    kept = list(_affordable(candidates, settings, refused))
    return Plan(tuple(kept), tuple(refused))


def _standing(one: Kept, in_force: Set[str]) -> float:
    """Its benefit, and more if some of it is in force."""
    benefit = one.weight.benefit if one.weight else 0.0
    if any(a.id in in_force for a in one.aggregations):
        return max(benefit * _IN_FORCE, benefit / _IN_FORCE)  # one that is negative, too, becomes larger
    return benefit


def _makeable(demands: Sequence[Demand], settings: PlannerSettings, refused: list[Refused]) -> Iterator[Demand]:
    """The demands that can be made shard by shard, where they have to be."""
    for demand in demands:
        why = why_not_by_shard(demand.finest.normal.expr) if settings.by_shard else ""
        if why:
            refused.append(Refused((demand,), NOT_BY_SHARD, f"it has {why}"))
        else:
            yield demand


def _within_reach(demands: Iterable[Demand], settings: PlannerSettings, refused: list[Refused]) -> Iterator[Demand]:
    """The demands that can be kept so far back; of those whose range follows the zoom, the members that can."""
    limit_ms = settings.max_reach_ms
    for demand in demands:
        fits = [m for m in demand.members if limit_ms is None or m.requirement.reach_ms <= limit_ms]
        if fits:
            yield replace(demand, members=tuple(fits))
        else:
            refused.append(Refused((demand,), TOO_FAR, f"it looks back {duration_text(demand.finest.reach_ms)}"))


def _candidates(
    family: Sequence[Demand], settings: PlannerSettings, cardinality: Cardinality
) -> Iterator[Kept | Refused]:
    fixed, finest = fixed_matchers(family), family[0].finest
    shape = cardinality.shape(finest.normal.but(fixed) if fixed else finest.normal.expr, finest.lookback_ms)
    if isinstance(shape, str):
        yield Refused(tuple(family), FAILS, shape)
        return
    said = _labels_said(finest, settings) if shape is None else None
    for cluster in clusters(family, fixed, Rows(shape, said, settings.largest_share)):
        yield _candidate(cluster, shape, settings, cardinality) if isinstance(cluster, Cluster) else cluster


def _labels_said(need: Requirement, settings: PlannerSettings) -> frozenset[str] | None:
    """The labels of the rows, where each is made of one series of one metric of which they are known."""
    named = metrics(need.normal.expr)
    if len(named) != 1 or not of_one_series(need.normal.expr):
        return None
    return settings.labels.get(named[0]) or None


def _candidate(
    cluster: Cluster, shape: Shape | None, settings: PlannerSettings, cardinality: Cardinality
) -> Kept | Refused:
    """With a shorter one beside it where queries look back far."""
    demands = tuple(wanted.demand for wanted in cluster.wanted)
    recent = tuple(_recent(demand, settings) for demand in demands)
    one = _made(cluster, demands, shape, settings, cardinality)
    short = _made(cluster, recent, shape, settings, cardinality) if recent != demands else one
    if isinstance(one, Refused) or isinstance(short, Refused) or short.aggregations == one.aggregations:
        return one
    return replace(one, shorter=replace(short, demands=demands))


def _recent(demand: Demand, settings: PlannerSettings) -> Demand:
    """The same, looking back no further than is kept at least."""
    return replace(demand, asking=replace(demand.asking, span_ms=min(demand.asking.span_ms, settings.retention_ms)))


def _made(
    cluster: Cluster, demands: tuple[Demand, ...], shape: Shape | None, settings: PlannerSettings,
    cardinality: Cardinality,
) -> Kept | Refused:  # fmt: skip
    try:
        aggregations = tuple(_aggregations(cluster, demands, settings))
    except ValueError as error:
        return Refused(demands, TOO_ACCURATE, str(error))
    bound = _bound(demands, aggregations[0])
    if shape is None or cluster.groups is None:
        return Kept(aggregations, demands, None, bound)
    costs = tuple(keeping(a, shape.series, cluster.groups, settings.scrape_ms) for a in aggregations)
    saved_ns = sum(d.asking.per_hour * _saved_ns(d, cluster.groups, settings, cardinality) for d in demands)
    weight = Weight(shape.series, cluster.groups, costs, saved_ns / (HOUR_MS * 1e6))
    if why := _why_not_worth(demands, weight, settings, cardinality):
        return Refused(demands, *why)
    return Kept(aggregations, demands, weight, bound)


# -- what is kept


def _aggregations(cluster: Cluster, demands: Sequence[Demand], settings: PlannerSettings) -> Iterator[Aggregation]:
    """One for each expression among the members, the finest first. Raises ValueError where no sketch is fit."""
    members = defaultdict[str, list[tuple[Demand, Member]]](list)
    for demand in demands:
        for member in demand.members:
            members[member.requirement.normal.text].append((demand, member))
    for alike in members.values():
        need = alike[0][1].requirement
        yield Aggregation(
            need.normal.but(cluster.fixed) if cluster.fixed else need.normal.expr,
            tuple(sorted(cluster.labels)), cluster.without, _accumulators([d for d, _ in alike], settings),
            width_ms((member.step_ms for _, member in alike), settings.window_ms), need.lookback_ms,
            _retention_ms(alike, settings),
        )  # fmt: skip


def _accumulators(demands: Sequence[Demand], settings: PlannerSettings) -> tuple[str, ...]:
    """What answers all of their operators. Raises ValueError where no sketch is as accurate as asked for."""
    names = {name for demand in demands for name in STATISTICS[demand.finest.node.op].needs}
    asked = [d.asking.accuracy_sla or settings.accuracy_sla for d in demands if d.finest.node.op == "quantile"]
    if asked:
        names = names - {"quantile"} | {_quantiles(settings.quantile, max(asked))}
    return tuple(sorted(names))


def _quantiles(name: str, accuracy_sla: float) -> str:
    """The accumulator of that name, if it is as accurate as asked for; else the default one, fitted."""
    try:
        return fitted(name, accuracy_sla)
    except ValueError:
        return fitted("quantile", accuracy_sla)


def _retention_ms(alike: Sequence[tuple[Demand, Member]], settings: PlannerSettings) -> int:
    """In whole hours where it follows from queries, of which each looks back a little more or less than the last."""
    back = [demand.asking.span_ms + max(0, member.requirement.normal.offset_ms) for demand, member in alike]
    return max(settings.retention_ms, min(-(-max(back) // HOUR_MS) * HOUR_MS, LONGEST_RETENTION_MS))


def _bound(demands: Sequence[Demand], aggregation: Aggregation) -> str:
    """How exact the answers are, of the loosest."""
    ways = [best(demand.finest.node.op, aggregation.accumulators) for demand in demands]
    bounds = {str(way.bound) for way in ways if way is not None}
    return ", ".join(sorted(bounds - {"exact"})) or "exact"


# -- what is worth it


def _steps(demand: Demand, settings: PlannerSettings) -> int:
    return demand.asking.span_ms // (demand.members[0].step_ms or settings.window_ms) + 1


def _head_ns(demand: Demand, settings: PlannerSettings, cardinality: Cardinality) -> float:
    """A query's cost on the head: that of the series that its own filters select."""
    whole = demand.finest.normal.whole
    return evaluation_ns(whole, cardinality.series(whole) or 0, settings.scrape_ms) * _steps(demand, settings)


def _saved_ns(demand: Demand, groups: int, settings: PlannerSettings, cardinality: Cardinality) -> float:
    """What one query saves; negative where the groups are dearer to read than the series."""
    read = STATISTICS[demand.finest.node.op].needs
    return _head_ns(demand, settings, cardinality) - reading_ns(groups, read, _steps(demand, settings))


def _why_not_worth(
    demands: Sequence[Demand], weight: Weight, settings: PlannerSettings, cardinality: Cardinality
) -> tuple[str, str] | None:
    """Why it does not pay, and the figures behind it."""
    slowest_ns = max(reading_ns(weight.groups, ("sum",), _steps(demand, settings)) for demand in demands)
    if weight.saved_share <= 0 and slowest_ns > _NEGLIGIBLE_NS:
        return DEAR, f"{weight.groups} groups of {weight.series} series"
    in_time = all(_head_ns(demand, settings, cardinality) <= demand.asking.latency_ms * 1e6 for demand in demands)
    if in_time and weight.saved_share < weight.cost.cpu_share:
        return FAST_ENOUGH, f"{weight.cost.cpu_share:.3g} of a core to keep it, {weight.saved_share:.3g} saved"
    return None


def _affordable(candidates: Sequence[Kept], settings: PlannerSettings, refused: list[Refused]) -> Iterator[Kept]:
    """Those that fit the budget, in order, for a shorter time where only that fits; what does not fit makes room for
    smaller ones after it."""
    used = FREE
    for one in candidates:
        fit, why = one, over(used + one.cost, settings)
        if why and one.shorter is not None and not over(used + one.shorter.cost, settings):
            fit, why = replace(one.shorter, why_shorter=why), ""
        if why:
            refused.append(Refused(one.demands, OVER_BUDGET, why))
        else:
            used += fit.cost
            yield fit


def over(used: Cost, settings: PlannerSettings) -> str:
    """What of the budget that is more than; empty if it is within."""
    if settings.max_bytes is not None and used.bytes > settings.max_bytes:
        return f"{used.bytes:.3g} bytes in all, planner.max_bytes is {settings.max_bytes:.3g}"
    if settings.max_cpu_share is not None and used.cpu_share > settings.max_cpu_share:
        return f"{used.cpu_share:.3g} of a core in all, planner.max_cpu_share is {settings.max_cpu_share:g}"
    return ""
