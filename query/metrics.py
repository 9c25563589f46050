"""What the query side counts, each metric declared once."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from query.account import TIERS
from query.answers import Answer, Forwarded
from query.cache import ResultCache
from query.replanner import Replanner

CACHE_GAUGES: tuple[tuple[str, str, Callable[[ResultCache], float]], ...] = (
    ("asap_result_cache_bytes", "Memory that cached answers of range queries take.", lambda c: c.bytes),
    ("asap_result_cache_max_bytes", "Its bound, query_engine.cache_bytes.", lambda c: c.max_bytes),
)
CACHE_COUNTERS: tuple[tuple[str, str, Callable[[ResultCache], float]], ...] = (
    ("asap_result_cache_hits", "Steps of range queries answered from the cache.", lambda c: c.hits),
    ("asap_result_cache_misses", "Steps looked up in it that had to be evaluated.", lambda c: c.misses),
    ("asap_result_cache_evictions", "Queries whose answers were let go to make room.", lambda c: c.evictions),
)

PLANNER_GAUGES: tuple[tuple[str, str, Callable[[Replanner], float]], ...] = (
    ("asap_planner_seen", "Parts of queries that came lately, but not often enough to be planned for.",
     lambda r: r.tracker.counts()[0]),
    ("asap_planner_repeated", "Parts of queries that come again and again, and are planned for.",
     lambda r: r.tracker.counts()[1]),
    ("asap_planner_waiting", "Those of them that find no series here.", lambda r: r.waiting),
    ("asap_planner_refused", "Those of them that nothing is kept for.",
     lambda r: sum(len(one.demands) for one in r.made.refused)),
    ("asap_planner_bytes", "What the plan's aggregations are estimated to take at their full retention.",
     lambda r: sum(one.weight.cost.bytes for one in r.made.kept if one.weight)),
    ("asap_planner_cpu_share", "Share of one core that they are estimated to take.",
     lambda r: sum(one.weight.cost.cpu_share for one in r.made.kept if one.weight)),
)  # fmt: skip
PLANNER_COUNTERS: tuple[tuple[str, str, Callable[[Replanner], float]], ...] = (
    ("asap_planner_plans", "Plans made of what queries ask for.", lambda r: r.plans),
)


class QueryMetrics:
    """The metrics, registered with the registry that is handed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "asap_query_requests_total",
            "Requests of the query API answered, by endpoint and HTTP status.",
            ["endpoint", "code"],
            registry=registry,
        )
        self.tiers = Counter(
            "asap_query_tier_total",
            "Queries that a tier took part in answering: summary, head or upstream.",
            ["tier"],
            registry=registry,
        )
        self.steps = Counter(
            "asap_query_steps_total",
            "Steps of the parts of queries, by the tier that served them; a query of two parts counts each step twice.",
            ["tier"],
            registry=registry,
        )
        for tier in TIERS:
            self.tiers.labels(tier)
            self.steps.labels(tier)
        self.answers = Counter(
            "asap_query_answers_total",
            "Queries answered here, by bound (exact, estimate) and by whether all their panes were sealed.",
            ["bound", "sealed"],
            registry=registry,
        )
        for bound in ("exact", "estimate"):
            for sealed in ("yes", "no"):
                self.answers.labels(bound, sealed)
        self.log_lost = Counter(
            "asap_query_log_lines_lost_total",
            "Lines of the query log that were not written: too many waited, or the file could not be written.",
            registry=registry,
        )
        self.seconds = Histogram(
            "asap_query_seconds",
            "Time from a request of the query API to its answer, by endpoint.",
            ["endpoint"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=registry,
        )
        self.upstream_requests = Counter(
            "asap_upstream_requests_total",
            "Requests sent to the upstream, by outcome: answered, refused (any status but 200), timed_out or failed.",
            ["outcome"],
            registry=registry,
        )
        self.upstream_shared = Counter(
            "asap_upstream_shared_total",
            "Requests for the upstream that were not sent, because an equal one was under way, and got its answer.",
            registry=registry,
        )
        self.upstream_seconds = Histogram(
            "asap_upstream_seconds",
            "Time from a request to the upstream to the end of its answer.",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=registry,
        )

    def count(self, made: Answer | Forwarded) -> None:
        """Who served how many steps, and how exactly; an answer's bound is as `0.01 relative; not sealed after …`."""
        for tier, steps in steps_of(made).items():
            self.steps.labels(tier).inc(steps)
        if isinstance(made, Answer):
            bound = "exact" if made.bound.startswith("exact") else "estimate"
            self.answers.labels(bound, "no" if "not sealed" in made.bound else "yes").inc()


def steps_of(made: Answer | Forwarded) -> dict[str, int]:
    """By tier, the steps that it served."""
    if made.told is None:
        return {}
    return made.told.account.steps() if isinstance(made, Answer) else {"upstream": len(made.told.steps.times)}


class WatchMetrics:
    """What the accuracy watch counts, registered with the registry that is handed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.error = Histogram(
            "asap_watch_error",
            "Largest error of an answer from summaries beside exact evaluation, in what its bound is measured in, "
            "if it is finite.",
            buckets=(0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.005, 0.01, 0.02, 0.05, 0.1, 1),
            registry=registry,
        )
        self.outside = Counter(
            "asap_watch_outside_total",
            "Answers from summaries outside their bound; the aggregation is taken out of service.",
            registry=registry,
        )
        self.lost = Counter(
            "asap_watch_lost_total",
            "Answers that were chosen to be compared and were not, because too many waited.",
            registry=registry,
        )
