"""What ingest counts, each metric declared once."""

from prometheus_client import CollectorRegistry, Counter, Histogram


class IngestMetrics:
    """The metrics, registered with the registry that is handed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "asap_ingest_requests_total", "Remote-write requests answered, by HTTP status.", ["code"], registry=registry
        )
        self.request_bytes = Counter(
            "asap_ingest_request_bytes_total", "Bytes of remote-write bodies as received.", registry=registry
        )
        self.seconds = Histogram(
            "asap_ingest_request_duration_seconds",
            "Time from a remote-write body at hand to its samples in the log.",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
            registry=registry,
        )
        self.samples = Counter("asap_ingest_samples_total", "Samples accepted.", ["source"], registry=registry)
        self.refused = Counter(
            "asap_ingest_samples_refused_total", "Samples refused, by reason.", ["reason"], registry=registry
        )
        self.histograms = Counter(
            "asap_ingest_histogram_samples_skipped_total",
            "Native histogram samples received and not kept.",
            registry=registry,
        )
        self.ha_dropped = Counter(
            "asap_ingest_ha_dropped_samples_total",
            "Samples of replicas that are not elected, dropped.",
            registry=registry,
        )
        self.scrapes = Counter(
            "asap_ingest_scrapes_total",
            "Scrapes of targets, by job and outcome.",
            ["job", "outcome"],
            registry=registry,
        )
