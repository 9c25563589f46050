"""What follows from the options and is needed in more than one place."""

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


def scraped(config: Config) -> tuple[Scrape, ...]:
    """The jobs to scrape: ourselves first, unless that is switched off or up to the upstream, then the configured ones.

    With an upstream, series that it has and that are not sent to us must not be mistaken for ours: `up` above all.
    """
    if not config.ingest.self_scrape or config.query_engine.prometheus_server:
        return config.scrape
    interval = config.query_engine.prometheus_scrape_interval
    own = Scrape.model_construct(  # durations are milliseconds here already
        job="asap",
        targets=(own_address(config),),
        interval=interval,
        timeout=min(interval, 10_000),
        metrics_path="/metrics",
        scheme="http",
    )
    return (own, *config.scrape)


def kept(config: Config) -> tuple[Aggregation, ...]:
    """The aggregations, widths and parameters filled in; those of the demo's queries too when the demo is on."""
    width = config.engine.minibatch.window_size
    wanted = config.aggregations + (_demo() if config.demo.enabled else ())
    return tuple(
        item.model_copy(update={"width": item.width or width, "accumulators": item.fitted()}) for item in wanted
    )


def _demo() -> tuple[Aggregation, ...]:
    return (
        Aggregation(expr="sensor_reading", by=("pattern",), accumulators=_QUANTILES),
        Aggregation(expr="sensor_reading", by=("region", "service"), accumulators=_QUANTILES),
    )
