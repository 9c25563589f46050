"""A real Prometheus that scrapes a target, ASAP and itself every second, and writes to ASAP."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.talking import instant, points, seconds
from tests.ports import free_port
from tests.running import Program, asap, poll_until, prometheus

EXTERNAL = {"site": "here"}
JOBS = ("shop", "asap", "prometheus")
FLUSH = "--storage.remote.flush-deadline=1s"
"""How long a Prometheus that stops tries to send to an ASAP that is gone already."""

METRICS = (
    "up",
    "shop_temperature_celsius",
    "shop_requests_total",
    "shop_odd",
    "shop_flapping",
    "shop_new_total",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
)
CONFIG = {
    "engine": {"minibatch": {"window_size": "1s", "allowed_lateness": "2s", "max_reach": "6m"}},
    "aggregations": [
        {
            "expr": "shop_temperature_celsius",
            "by": ["job", "instance", "floor"],
            "accumulators": ["sum", "count", "min", "max", "quantile", "stddev"],
        },
        {"expr": "rate(shop_requests_total[5s])", "by": ["code", "path"], "accumulators": ["sum", "count", "max"]},
        {"expr": "shop_requests_total", "without": ["instance"], "accumulators": ["sum", "count"]},
        {"expr": "shop_temperature_celsius > 20", "by": ["floor"], "accumulators": ["count"]},
        {"expr": "shop_flapping", "by": ["part"], "accumulators": ["sum", "count"]},
        {"expr": "up", "by": ["job"], "accumulators": ["sum", "count", "min", "max"]},
    ],
}


@dataclass(frozen=True)
class Pair:
    """Both systems, over the same samples."""

    asap: Program
    prometheus: Program

    def scraped_ms(self, job: str, until_ms: int, range_s: int = 300) -> list[int]:
        """Timestamps of the scrapes of a job, as Prometheus has them."""
        found = instant(self.prometheus, f'up{{job="{job}"}}[{range_s}s]', until_ms).json()["data"]["result"]
        return [round(t * 1000) for row in found for t, _ in row["values"]]

    def remote(self, metric: str) -> float:
        """Sum of one of Prometheus' own metrics about remote write, from its /metrics."""
        lines = self.prometheus.get("/metrics").body.decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((metric + "{", metric + " ")))

    def off_the_edge(self, t_ms: int, range_s: int) -> int:
        """The first time from `t_ms` on at which no scrape lies on the left edge of a range: 2.42 would count it."""
        scrapes = {t + range_s * 1000 for job in JOBS for t in self.scraped_ms(job, t_ms)}
        return next(t for t in range(t_ms, t_ms + 1000) if t not in scrapes)

    def await_all(self, t_ms: int, range_s: int = 30, timeout_s: float = 30) -> None:
        """Until ASAP has received every sample of METRICS in `(t - range, t]` that Prometheus has."""
        query = " + ".join(f"sum(count_over_time({metric}[{range_s}s]))" for metric in METRICS)

        at_ms = self.off_the_edge(t_ms, range_s)

        def all_there() -> bool:
            theirs = points(instant(self.prometheus, query, at_ms))
            return bool(theirs) and theirs == points(instant(self.asap, query, at_ms))

        poll_until(all_there, timeout_s, f"the samples up to {seconds(t_ms)} in ASAP", every_s=0.2)


def prometheus_config(
    asap_url: str, jobs: Mapping[str, str], external: Mapping[str, str] = EXTERNAL, **remote: Any
) -> str:
    """The file: jobs by name with their targets, scraped every second, everything written to ASAP at once.

    remote: more of what stands under remote_write, such as basic_auth.
    """
    return yaml.safe_dump(
        {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "external_labels": dict(external)},
            "remote_write": [
                {
                    "url": f"{asap_url}/api/v1/write",
                    "queue_config": {"batch_send_deadline": "200ms", "min_backoff": "100ms", "max_backoff": "500ms"},
                    "metadata_config": {"send_interval": "1s"},
                    **remote,
                }
            ],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in jobs.items()
            ],
        }
    )


@contextmanager
def pair(binary: str, folder: Path, shop: str, port: int | None = None) -> Iterator[Pair]:
    """Both running; the jobs are shop, asap and prometheus."""
    port = port or free_port()
    whole = {**CONFIG, "query_engine": {"http_port": port}}
    with asap(folder / "asap", whole) as ours:
        jobs = dict(zip(JOBS, (shop, f"127.0.0.1:{port}", "127.0.0.1:__PORT__"), strict=True))
        with prometheus(binary, folder / "prometheus", prometheus_config(ours.url, jobs), FLUSH) as theirs:
            yield Pair(ours, theirs)


@contextmanager
def restarted(running: Pair, folder: Path, port: int) -> Iterator[Pair]:
    """ASAP once more on its data, beside the Prometheus that went on."""
    with asap(folder / "asap", {**CONFIG, "query_engine": {"http_port": port}}) as ours:
        yield Pair(ours, running.prometheus)
