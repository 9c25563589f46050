"""What a start prints: where it listens, what it keeps, and what to try next."""

import shlex

from asap_project.config import Aggregation, Config
from asap_project.config.derived import data_dir, exposed, kept, own_url, scraped
from asap_project.config.printing import mask
from asap_project.config.units import duration_text
from asap_project.roles import INGEST, QUERY_ENGINE

TICK_MS = 5_000
"""Room between a pane's seal and its summary, for the query that is printed."""


def welcome(config: Config, roles: frozenset[str]) -> str:
    """A few lines for a newcomer, with a command that works; `roles` of a cluster, none for a single node."""
    keeps = _keeps_in_the_cluster(config) if roles else _keeps_here(config)
    tries = _next(config) if not roles or QUERY_ENGINE in roles else []
    return "\n".join([*_address(config, roles), *keeps, *_keeps(config), *tries, *_warnings(config), ""])


def _address(config: Config, roles: frozenset[str]) -> list[str]:
    url = own_url(config)
    who = f"ASAP ({', '.join(sorted(roles))})" if roles else "ASAP"
    lines = [f"{who} listens on {url}"]
    if not roles or INGEST in roles:
        lines.append(f"  Prometheus writes to   {url}/api/v1/write")
    if not roles or QUERY_ENGINE in roles:
        lines.append(f"  Grafana reads from     {url}  (a Prometheus data source)")
    return lines


def _keeps_here(config: Config) -> list[str]:
    return [f"  keeps everything in    {data_dir(config)}"]


def _keeps_in_the_cluster(config: Config) -> list[str]:
    logs = ", ".join(mask(url) for url in config.redis.log_urls)
    return [f"  keeps the log in       {logs}", f"  keeps summaries in     {mask(config.database.url)}"]


def _keeps(config: Config) -> list[str]:
    retention = config.head.retention
    samples = f"answers from samples of the last {duration_text(retention)}" if retention else "no head tier"
    upstream = config.query_engine.prometheus_server
    jobs = ", ".join(job.job for job in scraped(config)) or "nothing"
    aggregations = kept(config)
    return [
        f"  keeps samples          {samples}; scrapes {jobs}",
        f"  asks behind it         {mask(upstream) if upstream else 'no upstream'}",
        f"  keeps summaries of     {len(aggregations) or 'no'} aggregation{'' if len(aggregations) == 1 else 's'}",
        *(f"    {line(item)}" for item in aggregations),
    ]


def line(item: Aggregation) -> str:
    """An aggregation in a line: `rate(x[5m]) by (job): sum, count every 15s, for 1d`."""
    return (
        f"{item.expr} {_grouping(item)}: {', '.join(item.accumulators)} "
        f"every {duration_text(item.width or 0)}, for {duration_text(item.retention)}"
    )


def _grouping(item: Aggregation) -> str:
    if item.series:
        return "by series"
    word, labels = ("by", item.by) if item.by is not None else ("without", item.without)
    return f"{word} ({', '.join(labels or ())})"


def _next(config: Config) -> list[str]:
    query = f"curl -G{_login(config)} {own_url(config)}/api/v1/query"
    lines = [f"  try                    {query} -d query=up"]
    if config.demo.enabled:
        ask = "--data-urlencode 'query=quantile by (pattern) (0.99, sensor_reading)'"
        lines.append(f"  in a minute            {query} {ask} -d time={_sealed_end(config)}")
    return [*lines, "  stop it with           Ctrl-C"]


def _login(config: Config) -> str:
    """What a reader adds to curl, which asks for the password."""
    security = config.security
    if user := next((user for user in security.users if "read" in user.permissions), None):
        return f" -u {shlex.quote(user.name)}"
    return " -H 'Authorization: Bearer TOKEN'" if security.users or security.tokens else ""


def _warnings(config: Config) -> list[str]:
    return [f"  warning                {line}" for line in exposed(config)]


def _sealed_end(config: Config) -> str:
    """Shell arithmetic for the newest pane end whose summary is there, in seconds."""
    batch = config.engine.minibatch
    width_s = max(1, batch.window_size // 1000)
    return f"$(( ($(date +%s) - {(batch.allowed_lateness + TICK_MS) // 1000}) / {width_s} * {width_s} ))"
