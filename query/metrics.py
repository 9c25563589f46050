"""What the query side counts, each metric declared once."""

from prometheus_client import CollectorRegistry, Counter, Histogram


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
        self.seconds = Histogram(
            "asap_query_seconds",
            "Time from a request of the query API to its answer, by endpoint.",
            ["endpoint"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=registry,
        )
