"""What follows from the options and is needed in more than one place."""

import ipaddress
import socket
from pathlib import Path

from asap_project.config.items import Accumulator, Aggregation, Scrape
from asap_project.config.schema import Config

_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_QUANTILES: tuple[Accumulator, ...] = ("sum", "count", "min", "max", "quantile")


def data_dir(config: Config) -> Path:
    """Where everything is kept, as an absolute path."""
    return Path(config.data_dir).absolute()


def own_address(config: Config) -> str:
    """host:port at which this machine reaches our own HTTP API."""
    host = _ANY_HOST.get(config.query_engine.http_host, config.query_engine.http_host)
    return f"[{host}]:{config.query_engine.http_port}" if ":" in host else f"{host}:{config.query_engine.http_port}"


def own_url(config: Config) -> str:
    """The same as a URL."""
    return f"http{'s' if config.security.tls.cert_file else ''}://{own_address(config)}"


def is_guarded(config: Config) -> bool:
    """Whether requests must pass a guard at all."""
    security = config.security
    return bool(security.users or security.tokens or security.requests_per_second)


def exposed(config: Config) -> tuple[str, ...]:
    """What a port that others can reach lacks, a line each; none where only this machine reaches it."""
    security, host = config.security, config.query_engine.http_host
    if _is_loopback(host):
        return ()
    lacks = []
    if not security.users and not security.tokens:
        lacks.append(
            f"whoever reaches {host} may read, write and manage: set security.users or security.tokens "
            "(docs/security.md), or listen on 127.0.0.1"
        )
    if not security.tls.cert_file:
        lacks.append(
            f"what goes to and from {host} can be read on its way, passwords too: set security.tls, "
            "or put a proxy with TLS in front of 127.0.0.1"
        )
    return tuple(lacks)


def _is_loopback(host: str) -> bool:
    """Whether the address that is listened on, a name's first one, is this machine's own."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return ipaddress.ip_address(str(found[0][4][0]).partition("%")[0]).is_loopback
    except (OSError, UnicodeError):
        return False


def own_job(config: Config) -> Scrape | None:
    """The job that scrapes ourselves, unless that is switched off or up to the upstream.

    With an upstream, series that it has and that are not sent to us must not be mistaken for ours: `up` above all. A
    cluster's roles are many, and are scraped as any other target.
    """
    if not config.ingest.self_scrape or config.query_engine.prometheus_server or config.mode == "cluster":
        return None
    interval = config.query_engine.prometheus_scrape_interval
    return Scrape.model_construct(  # durations are milliseconds here already
        job="asap",
        targets=(own_address(config),),
        interval=interval,
        timeout=min(interval, 10_000),
        metrics_path="/metrics",
        scheme="http",
    )


def scraped(config: Config) -> tuple[Scrape, ...]:
    """The jobs to scrape: ourselves first, then the configured ones."""
    own = own_job(config)
    return (own, *config.scrape) if own else config.scrape


def kept(config: Config) -> tuple[Aggregation, ...]:
    """The aggregations, widths and parameters filled in; those of the demo's queries too when the demo is on."""
    wanted = config.aggregations + (_demo() if config.demo.enabled else ())
    return tuple(filled_in(item, config) for item in wanted)


def filled_in(item: Aggregation, config: Config) -> Aggregation:
    """The aggregation with its width, and its accumulators' parameters."""
    width = item.width or config.engine.minibatch.window_size
    return item.model_copy(update={"width": width, "accumulators": item.fitted()})


def _demo() -> tuple[Aggregation, ...]:
    return (
        Aggregation(expr="sensor_reading", by=("pattern",), accumulators=_QUANTILES),
        Aggregation(expr="sensor_reading", by=("region", "service"), accumulators=_QUANTILES),
    )
